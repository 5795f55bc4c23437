"""The server of queryable state: listens, authenticates, limits; what it answers is the service's business.

One thread accepts, and each connection has one. Nothing that comes in is believed before its token was compared.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import selectors
import socket
import time
from collections.abc import Callable
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from millrace.common.errors import ConfigurationError
from millrace.driver.queryable.job import QueryableJob
from millrace.driver.queryable.limits import RateLimit
from millrace.driver.queryable.options import QueryableStateOptions
from millrace.driver.queryable.service import QueryService
from millrace.queryable_state.errors import (
    BadRequestError,
    QueryableStateError,
    QueryTokenError,
    StateUnavailableError,
    TooManyRequestsError,
)
from millrace.queryable_state.wire import MAX_ANSWER, Answer, Query, Refusal, decode_query, encode, receive, send

_LOG = logging.getLogger(__name__)

# How long `close` waits for a query that is being answered. The threads are daemons: they keep no process alive.
_CLOSE_SECONDS = 10.0


class QueryableStateServer:
    """Answers queries about the jobs that are registered, from `start` to `close`.

    with QueryableStateServer(options) as server:
        server.register(job)
        print("queryable state at", server.address)
    """

    def __init__(self, options: QueryableStateOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._service = QueryService(clock)
        self._rate = RateLimit(options.max_requests_per_second, clock)
        self._acceptor: Thread | None = None
        self._wake: socket.socket | None = None
        self._address: tuple[str, int] | None = None
        self._connections: dict[socket.socket, Thread] = {}
        self._lock = Lock()
        self._closing = False

    @property
    def token(self) -> str:
        """What a client must show."""
        return self.options.token

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, once started."""
        assert self._address is not None, "the server was not started"
        return self._address

    def register(self, job: QueryableJob) -> None:
        """Answer for a job from now on."""
        self._service.register(job)

    def unregister(self, job_id: str) -> None:
        """Answer for a job no longer, and forget what was copied of its state."""
        self._service.unregister(job_id)

    def start(self) -> Self:
        """Listen. `ConfigurationError` if none of the ports is free."""
        listener = _listen(self.options)
        self._address = listener.getsockname()[:2]
        waker, self._wake = socket.socketpair()
        self._acceptor = Thread(
            target=self._accept, args=(listener, waker), name="millrace-query-acceptor", daemon=True
        )
        self._acceptor.start()
        return self

    def close(self) -> None:
        """Stop listening and close every connection. Twice is once."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            connections = dict(self._connections)
        if self._wake is not None and self._acceptor is not None:
            self._wake.close()
            self._acceptor.join(_CLOSE_SECONDS)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in connections.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- connections ------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, waker: socket.socket) -> None:
        with listener, waker, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(waker, selectors.EVENT_READ)
            while not any(key.fileobj is waker for key, _ in selector.select()):
                try:
                    connection, _ = listener.accept()
                except OSError:  # It was given up before it was accepted, or there are no descriptors left.
                    time.sleep(0.05)
                    continue
                if not self._begin(connection):
                    _turn_away(connection)

    def _begin(self, connection: socket.socket) -> bool:
        """Give a connection its thread, if there is room for it."""
        with self._lock:
            if self._closing or len(self._connections) >= self.options.max_connections:
                return False
            thread = Thread(target=self._serve, args=(connection,), name="millrace-query", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The machine has no threads left.
                return False
            self._connections[connection] = thread
            return True

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                idle = self.options.timeout  # Until it has shown a token, it is a stranger.
                while self._exchange(connection, idle):
                    idle = self.options.idle
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _exchange(self, connection: socket.socket, idle: float) -> bool:
        """Read one request and answer it; whether to go on with this connection."""
        timeout = self.options.timeout
        try:
            body = receive(connection, self.options.max_request_size, idle, timeout)
            if body is None:
                return False
            query = decode_query(body)
            self._authenticate(query)
        except (BadRequestError, QueryTokenError) as error:
            send(connection, encode(Refusal.of(error)), timeout)
            _linger(connection)
            return False
        send(connection, self._reply(query), timeout)
        return not self._closing

    def _authenticate(self, query: Query) -> None:
        shown, expected = (text.encode("utf-8", "surrogatepass") for text in (query.token, self.options.token))
        if not hmac.compare_digest(shown, expected):
            raise QueryTokenError(
                "the token is not this server's", action="Use the token that the job was started with or has printed."
            )

    def _reply(self, query: Query) -> bytes:
        try:
            if not self._rate.take():
                raise TooManyRequestsError(
                    f"more than {self.options.max_requests_per_second} requests within a second",
                    action="Ask less often, or raise queryable-state.server.max-requests-per-second.",
                )
            return _encoded(self._service.answer(query))
        except QueryableStateError as error:
            return encode(Refusal.of(error))
        except Exception:
            # Not its text: that may be about anything in this process.
            _LOG.exception("%r failed.", query)
            return encode(Refusal.of(QueryableStateError("the server failed; its log says why")))


def _turn_away(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        busy = TooManyRequestsError("the server has as many connections as it takes", action="Try again later.")
        send(connection, encode(Refusal.of(busy)), 0.1)


def _encoded(answer: Answer) -> bytes:
    frame = encode(answer)
    if len(frame) > MAX_ANSWER:
        raise StateUnavailableError(
            f"the answer has {len(frame)} bytes, more than the {MAX_ANSWER} that may be sent",
            action="Keep less under one key: a map or a list of this size is too large for a query.",
        )
    return frame


def _linger(connection: socket.socket) -> None:
    """Let a refusal arrive: closing with unread bytes would reset the connection before the client has read it."""
    connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + 0.5
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        if not connection.recv(65_536):
            return


def _listen(options: QueryableStateOptions) -> socket.socket:
    failure: OSError | None = None
    for port in options.ports:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(options.host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            listener.setblocking(False)
            return listener
        except OSError as error:
            listener.close()
            failure = error
    tried = ", ".join(map(str, options.ports[:10]))
    raise ConfigurationError(
        f"queryable state cannot listen on {options.host}, port {tried}: {failure}",
        action="Choose other ports with queryable-state.server.ports, or 0 for any free one.",
    ) from failure
