"""The client: asks a job's server what a state holds under a key."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, get_args

from millrace.common.completable_future import CompletableFuture
from millrace.common.errors import ProgramError
from millrace.common.job_id import JobID
from millrace.common.typeinfo import TypeInformation
from millrace.queryable_state.columns import from_wire, key_to_wire
from millrace.queryable_state.errors import BadRequestError, QueryConnectionError, QueryTypeError, error_of
from millrace.queryable_state.wire import (
    MAX_ANSWER,
    Answer,
    Consistency,
    Query,
    Refusal,
    Reply,
    decode_reply,
    encode,
    receive,
    send,
)
from millrace.state.descriptors import AggregatingStateDescriptor, StateDescriptor
from millrace.state.heap import value_codecs

# Room for the token, names and the head of the message, beside the answer's own bytes.
_OVERHEAD = 64 * 1024


class QueryableStateClient:
    """Asks one server. Any thread may ask; so many queries run at once as there are connections.

        with QueryableStateClient("localhost", port, token=token) as client:
            total = client.get_kv_state(job_id, "totals-by-user", "ann", Types.STRING()).result()

    A query changes nothing, so one whose connection had gone stale is sent again.
    """

    def __init__(self, host: str, port: int, *, token: str, timeout: float = 30.0, connections: int = 4) -> None:
        self._address = (host, port)
        self._token = token
        self._timeout = timeout
        self._idle: deque[socket.socket] = deque()
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="millrace-query-client")
        self._closed = False

    def get_kv_state(
        self,
        job_id: JobID | str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation | None = None,
        state_descriptor: StateDescriptor | None = None,
        namespace: Any = None,
        consistency: Consistency = "checkpoint",
    ) -> CompletableFuture[Any]:
        """What the state holds under the key: a value, a list or a dict, as its kind is.

        Of an aggregating state it is the accumulator, or the result if `state_descriptor` brings the function. A
        value of a class (a dataclass, an enum) needs the descriptor with its type; without one it comes as a dict of
        its fields, or as its name. `namespace` is for state that a window or a namespace of its own divides further.

        `consistency` says as of when: of the last complete `checkpoint`, which no failure takes back, or of the last
        `epoch`, which is newer and may be run again. The future fails with one of the errors of this package.
        """
        if self._closed:
            raise ProgramError("The client is closed.", action="Make another one, or ask within its `with` block.")
        if consistency not in get_args(Consistency):
            raise ProgramError(f"The consistency is 'checkpoint' or 'epoch', not {consistency!r}.")
        job = (job_id if isinstance(job_id, JobID) else JobID(job_id)).to_hex_string()

        def ask() -> Any:
            wire_key = key_to_wire(key, key_type_info, "the key")
            wire_namespace = None if namespace is None else key_to_wire(namespace, None, "the namespace")
            query = Query(self._token, job, queryable_state_name, wire_key, wire_namespace, consistency)
            return _content(self._ask(query), state_descriptor)

        return CompletableFuture(self._threads.submit(ask))

    def close(self) -> None:
        """Wait for what has been asked, then close the connections. Twice is once."""
        self._closed = True
        self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().close()

    # -- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, query: Query) -> Answer:
        reply = self._reply_to(encode(query))
        if isinstance(reply, Refusal):
            raise error_of(reply.code, reply.message, reply.action)
        return reply

    def _reply_to(self, frame: bytes) -> Reply:
        """The server's reply, over a connection of an earlier query if there is one that still works."""
        with contextlib.suppress(IndexError, _StaleError):
            return self._exchange(self._idle.pop(), frame, reused=True)
        return self._exchange(self._connect(), frame, reused=False)

    def _connect(self) -> socket.socket:
        try:
            connection = socket.create_connection(self._address, timeout=self._timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self._unreachable(f"nothing answers ({error})") from error
        return connection

    def _exchange(self, connection: socket.socket, frame: bytes, *, reused: bool) -> Reply:
        try:
            body = _send_and_receive(connection, frame, self._timeout)
            reply = decode_reply(body)
        except TimeoutError as error:
            connection.close()
            raise self._unreachable(f"no answer within {self._timeout:g} seconds") from error
        except OSError as error:
            connection.close()
            if reused:
                raise _StaleError from error
            raise self._unreachable(f"the connection broke ({error})") from error
        except BadRequestError as error:
            connection.close()
            raise self._unreachable(f"what answers speaks another protocol ({error.message})") from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return reply

    def _unreachable(self, why: str) -> QueryConnectionError:
        host, port = self._address
        return QueryConnectionError(
            f"{host}:{port}: {why}",
            action="Check host and port, that the job runs, and that it has queryable-state.enable=true.",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _StaleError(Exception):
    """A connection that an earlier query used does not work any more."""


def _send_and_receive(connection: socket.socket, frame: bytes, timeout: float) -> bytes:
    # The server may have refused before it had read all: its reply is worth more than an error of sending.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        send(connection, frame, timeout)
    body = receive(connection, MAX_ANSWER + _OVERHEAD, timeout, timeout)
    if body is None:
        raise ConnectionResetError("it was closed without an answer")
    return body


def _content(answer: Answer, descriptor: StateDescriptor | None) -> Any:
    """What an answer says, as the state's own `value` or `get` would."""
    if descriptor is not None and descriptor.kind != answer.kind:
        raise QueryTypeError(
            f"the state is a {answer.kind} state, and the descriptor describes a {descriptor.kind} state",
            action="Give the descriptor that the job uses.",
        )
    types = {} if descriptor is None else {role: codec.type_info for role, codec in value_codecs(descriptor).items()}
    columns = {
        role: from_wire(column, types.get(role), f"the state's {role}") for role, column in answer.columns.items()
    }
    try:
        if answer.kind == "list":
            return columns["item"]
        if answer.kind == "map":
            return dict(zip(columns["entry"], columns["value"], strict=True))
        (value,) = columns["value"]
    except (KeyError, ValueError, TypeError) as error:
        raise QueryTypeError(f"the answer is no content of a {answer.kind} state: {error!r}") from error
    if isinstance(descriptor, AggregatingStateDescriptor):
        return descriptor.get_agg_function().get_result(value)
    return value
