"""Server and client of queryable state over real sockets: tokens, limits, noise, many at once, and nothing left."""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import ConfigurationError, JobID, ProgramError
from millrace.common.typeinfo import Types
from millrace.driver.queryable import QueryableStateOptions, QueryableStateServer, queryable_options_from
from millrace.driver.queryable.limits import RateLimit
from millrace.queryable_state import (
    BadRequestError,
    QueryableStateClient,
    QueryableStateError,
    QueryConnectionError,
    QueryTokenError,
    QueryTypeError,
    TooManyRequestsError,
    UnknownJobError,
    UnknownKeyError,
)
from millrace.queryable_state.errors import error_of
from millrace.queryable_state.wire import Query, Refusal, WireColumn, decode_reply, encode, receive
from millrace.state import (
    AggregatingStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
    open_files,
)
from tests.driver.queryable_jobs import FakeJob, queryable

IMPATIENT = QueryableStateOptions(timeout=0.3, idle=5.0)


@dataclass(frozen=True)
class Account:
    owner: str
    balance: int


def put(value: Any) -> Any:
    return lambda state: state.update(value)


@pytest.fixture
def job() -> FakeJob:
    job = FakeJob(queryable(ValueStateDescriptor("total", Types.LONG()), "totals"), key_type=Types.STRING())
    return job.epoch(*(("total", f"k{number}", put(number)) for number in range(1, 21))).checkpoint()


@pytest.fixture
def server(job: FakeJob) -> Iterator[QueryableStateServer]:
    with QueryableStateServer(QueryableStateOptions()) as server:
        server.register(job)
        yield server


@pytest.fixture
def client(server: QueryableStateServer) -> Iterator[QueryableStateClient]:
    with client_of(server) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread and no socket outlives a test."""
    process = psutil.Process()
    before = process.num_fds()
    yield
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        gc.collect()
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("millrace-query")]
        if not threads and process.num_fds() <= before:
            return
        time.sleep(0.02)
    assert threads == []
    assert process.num_fds() <= before


def client_of(server: QueryableStateServer, token: str | None = None, **options: Any) -> QueryableStateClient:
    host, port = server.address
    return QueryableStateClient(host, port, token=server.token if token is None else token, **options)


def raw_connection(server: QueryableStateServer) -> socket.socket:
    return socket.create_connection(server.address, timeout=5)


def read_refusal(connection: socket.socket) -> Refusal:
    body = receive(connection, 1 << 20, 5, 5)
    assert body is not None
    reply = decode_reply(body)
    assert isinstance(reply, Refusal)
    return reply


def asking(job: FakeJob, token: str, key: str = "k1") -> bytes:
    data = b"\0\0\0\0\x91" + bytes([0xA0 + len(key)]) + key.encode()
    return encode(Query(token, job.job_id, "totals", WireColumn("typed", {"type": "STRING"}, data)))


# -- asking ---------------------------------------------------------------------------------------------------------


def test_client_reads_what_the_job_wrote(job: FakeJob, client: QueryableStateClient) -> None:
    assert client.get_kv_state(job.job_id, "totals", "k7", Types.STRING()).result(10) == 7
    assert client.get_kv_state(JobID(job.job_id), "totals", "k8").result(10) == 8
    job.epoch(("total", "k7", put(700)))
    assert client.get_kv_state(job.job_id, "totals", "k7", consistency="epoch").result(10) == 700
    assert client.get_kv_state(job.job_id, "totals", "k7").result(10) == 7


def test_errors_arrive_as_what_they_are(job: FakeJob, client: QueryableStateClient) -> None:
    with pytest.raises(UnknownKeyError) as caught:
        client.get_kv_state(job.job_id, "totals", "nobody").result(10)
    assert caught.value.code == "MR-4103"
    assert caught.value.action is not None
    with pytest.raises(UnknownJobError):
        client.get_kv_state(JobID(), "totals", "k1").result(10)
    with pytest.raises(QueryTypeError):
        client.get_kv_state(job.job_id, "totals", 5).result(10)
    with pytest.raises(QueryTypeError, match="the key is <"):
        client.get_kv_state(job.job_id, "totals", object()).result(10)
    assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1


def test_descriptor_gives_classes_and_the_result_of_aggregates() -> None:
    class Average:
        def create_accumulator(self) -> tuple[int, int]:
            return 0, 0

        def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator: tuple[int, int]) -> float:
            return accumulator[0] / accumulator[1]

    average = queryable(AggregatingStateDescriptor("average", Average(), Types.TUPLE([Types.LONG(), Types.LONG()])))
    accounts = queryable(MapStateDescriptor("accounts", Types.STRING(), Types.DATACLASS(Account)))
    job = FakeJob(average, accounts, key_type=Types.LONG()).epoch(
        ("average", 1, lambda state: state.add(3)),
        ("average", 1, lambda state: state.add(4)),
        ("accounts", 1, lambda state: state.put("x", Account("ann", 5))),
    )
    with QueryableStateServer(QueryableStateOptions()) as server, client_of(server) as client:
        server.register(job.checkpoint())

        def ask(name: str, descriptor: Any = None) -> Any:
            return client.get_kv_state(job.job_id, name, 1, Types.LONG(), descriptor).result(10)

        assert ask("average") == (7, 2)
        assert ask("average", average) == 3.5
        assert ask("accounts") == {"x": {"owner": "ann", "balance": 5}}
        assert ask("accounts", accounts) == {"x": Account("ann", 5)}
        with pytest.raises(QueryTypeError, match="is a map state, and the descriptor describes a value state"):
            ask("accounts", ValueStateDescriptor("accounts"))
        with pytest.raises(QueryTypeError, match="the state's value does not fit"):
            ask("accounts", MapStateDescriptor("accounts", Types.STRING(), Types.LONG()))


def test_future_can_be_awaited_and_followed(job: FakeJob, client: QueryableStateClient) -> None:
    doubled = client.get_kv_state(job.job_id, "totals", "k4").then(lambda total: total * 2)
    assert doubled.result(10) == 8


def test_mistakes_in_a_call_show_at_once(job: FakeJob, server: QueryableStateServer) -> None:
    with client_of(server) as client:
        with pytest.raises(ProgramError, match="is not a job id"):
            client.get_kv_state("job-1", "totals", "k1")
        with pytest.raises(ProgramError, match="'checkpoint' or 'epoch'"):
            client.get_kv_state(job.job_id, "totals", "k1", consistency="latest")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"The client is closed\.\nAction: "):
        client.get_kv_state(job.job_id, "totals", "k1")
    client.close()


def test_many_clients_while_the_job_goes_on_and_deletes_files(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    job = FakeJob(queryable(ValueStateDescriptor("n", Types.LONG())), key_type=Types.LONG(), files=files)
    job.epoch(*(("n", key, put(0)) for key in range(10))).checkpoint()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            number = job.number + 1
            job.epoch(*(("n", key, put(number)) for key in range(10)))
            if number % 3 == 0:
                job.checkpoint()
                job.delete_unneeded_files()

    def ask(worker: int) -> int:
        newest = 0
        with client_of(server, connections=2) as client:
            for turn in range(60):
                value = client.get_kv_state(job.job_id, "n", (worker + turn) % 10).result(30)
                assert value % 3 == 0  # Never an epoch that is no checkpoint.
                before, newest = newest, client.get_kv_state(job.job_id, "n", 0, consistency="epoch").result(30)
                assert newest >= max(before, value)
        return worker

    with QueryableStateServer(QueryableStateOptions()) as server, ThreadPoolExecutor(9) as pool:
        server.register(job)
        working = pool.submit(work)
        try:
            assert list(pool.map(ask, range(8))) == list(range(8))
        finally:
            stop.set()
        working.result(30)


# -- strangers ------------------------------------------------------------------------------------------------------


def test_wrong_token_is_refused(job: FakeJob, server: QueryableStateServer) -> None:
    for token in ("", "wrong", server.token[:-1], server.token + "x", "töken"):
        with client_of(server, token) as client, pytest.raises(QueryTokenError, match=r"not this server's\nAction: "):
            client.get_kv_state(job.job_id, "totals", "k1").result(10)


def test_refused_token_learns_nothing_about_jobs(job: FakeJob, server: QueryableStateServer) -> None:
    told = set()
    with client_of(server, "wrong") as client:
        for job_id in (job.job_id, JobID().to_hex_string()):
            with pytest.raises(QueryTokenError) as caught:
                client.get_kv_state(job_id, "totals", "k1").result(10)
            told.add(str(caught.value))
    assert len(told) == 1


def test_nobody_listening_is_named_with_host_and_port(job: FakeJob) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with (
        QueryableStateClient("127.0.0.1", port, token="t") as client,
        pytest.raises(QueryConnectionError, match=rf"127\.0\.0\.1:{port}: nothing answers .*\nAction: "),
    ):
        client.get_kv_state(job.job_id, "totals", "k1").result(10)


def test_server_that_speaks_something_else_is_named(job: FakeJob) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            QueryableStateClient(*listener.getsockname(), token="t") as client,
            pytest.raises(QueryConnectionError, match="speaks another protocol"),
        ):
            client.get_kv_state(job.job_id, "totals", "k1").result(10)
        thread.join()


def test_silent_server_is_given_up(job: FakeJob) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        QueryableStateClient(*listener.getsockname(), token="t", timeout=0.2) as client,
        pytest.raises(QueryConnectionError),
    ):
        client.get_kv_state(job.job_id, "totals", "k1").result(10)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(min_size=1, max_size=300))
def test_noise_never_gets_an_answer_nor_stops_the_server(noise: bytes, server: QueryableStateServer) -> None:
    with raw_connection(server) as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65_536):
            assert b"Answer" not in chunk


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300))
def test_well_framed_noise_is_a_bad_request(body: bytes, server: QueryableStateServer) -> None:
    with raw_connection(server) as connection:
        connection.sendall(struct.pack("<4sB3xI", b"MRQS", 1, len(body)) + body)
        assert read_refusal(connection).code in {BadRequestError.default_code, QueryTokenError.default_code}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_request_gets_a_refusal_or_the_answer(data: st.DataObject, server: QueryableStateServer) -> None:
    (job,) = server._service._jobs.values()
    frame = bytearray(asking(job, server.token))  # type: ignore[arg-type]
    place = data.draw(st.integers(12, len(frame) - 1))
    frame[place] = data.draw(st.integers(0, 255))
    with raw_connection(server) as connection:
        connection.sendall(frame)
        body = receive(connection, 1 << 20, 5, 5)
        assert body is not None
        decode_reply(body)


def test_deeply_nested_request_is_refused(job: FakeJob, server: QueryableStateServer) -> None:
    nested = b"\x81\xa7element" * 50_000 + b"\xc0"
    frame = asking(job, server.token)
    for body in (b"\x91" * 100_000, frame[12:].replace(b"\x81\xa4type\xa6STRING", nested)):
        with raw_connection(server) as connection:
            connection.sendall(struct.pack("<4sB3xI", b"MRQS", 1, len(body)) + body)
            assert read_refusal(connection).code == BadRequestError.default_code


def test_type_that_is_nested_beyond_reason_is_a_mismatch(job: FakeJob, server: QueryableStateServer) -> None:
    type_json: dict[str, Any] = {"type": "STRING"}
    for _ in range(400):
        type_json = {"type": "LIST", "element": type_json}
    query = Query(server.token, job.job_id, "totals", WireColumn("typed", type_json, b"\0\0\0\0\x90"))
    with raw_connection(server) as connection:
        connection.sendall(encode(query))
        assert read_refusal(connection).code == QueryTypeError.default_code


def test_oversized_request_is_refused_before_it_is_read(job: FakeJob) -> None:
    with QueryableStateServer(replace(IMPATIENT, max_request_size=1000)) as server:
        with raw_connection(server) as connection:
            connection.sendall(struct.pack("<4sB3xI", b"MRQS", 1, 2**32 - 1))
            assert "larger than the 1000 bytes" in read_refusal(connection).message
        server.register(job)
        with client_of(server) as client:
            with pytest.raises(BadRequestError, match="larger than the 1000 bytes"):
                client.get_kv_state(job.job_id, "totals", "k" * 500_000).result(10)
            assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1


def test_client_that_sends_byte_by_byte_is_let_go(job: FakeJob) -> None:
    with QueryableStateServer(IMPATIENT) as server, raw_connection(server) as connection:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in asking(job, server.token):
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
            assert connection.recv(1) == b""
        assert time.monotonic() - began < 5


def test_stranger_that_says_nothing_is_let_go() -> None:
    with QueryableStateServer(IMPATIENT) as server, raw_connection(server) as connection:
        assert connection.recv(1) == b""


def test_connections_beyond_the_limit_are_turned_away(job: FakeJob) -> None:
    with QueryableStateServer(QueryableStateOptions(max_connections=2)) as server:
        server.register(job)
        with raw_connection(server), raw_connection(server), raw_connection(server) as third:
            assert read_refusal(third).code == TooManyRequestsError.default_code
        deadline = time.monotonic() + 5
        while server._connections and time.monotonic() < deadline:
            time.sleep(0.01)
        with client_of(server) as client:
            assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1


def test_requests_beyond_the_rate_are_refused_and_the_connection_goes_on(job: FakeJob) -> None:
    now = 0.0
    with QueryableStateServer(QueryableStateOptions(max_requests_per_second=3), clock=lambda: now) as server:
        server.register(job)
        with client_of(server, connections=1) as client:
            for _ in range(3):
                assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1
            with pytest.raises(TooManyRequestsError, match=r"more than 3 requests within a second\nAction: "):
                client.get_kv_state(job.job_id, "totals", "k1").result(10)
            now = 0.5
            assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1


@given(st.lists(st.floats(0, 0.5), max_size=80), st.integers(1, 20))
def test_rate_limit_lets_no_more_through_than_it_says(gaps: list[float], per_second: int) -> None:
    now = 0.0
    limit = RateLimit(per_second, lambda: now)
    taken = 0
    for gap in gaps:
        now += gap
        taken += limit.take()
    assert taken <= per_second + now * per_second + 1e-6


def test_error_inside_the_server_is_logged_and_not_told(
    job: FakeJob, client: QueryableStateClient, caplog: pytest.LogCaptureFixture
) -> None:
    job.status = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with caplog.at_level(logging.ERROR), pytest.raises(QueryableStateError) as caught:
        client.get_kv_state(job.job_id, "totals", "k1").result(10)
    assert (caught.value.code, caught.value.message) == ("MR-4100", "the server failed; its log says why")
    assert "ZeroDivisionError" in caplog.text
    assert client._token not in caplog.text


# -- life -----------------------------------------------------------------------------------------------------------


def test_client_goes_on_after_the_server_was_started_again(job: FakeJob) -> None:
    first = QueryableStateServer(QueryableStateOptions()).start()
    first.register(job)
    port = first.address[1]
    with client_of(first, connections=1) as client:
        assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1
        first.close()
        with pytest.raises(QueryConnectionError):
            client.get_kv_state(job.job_id, "totals", "k1").result(10)
        with QueryableStateServer(QueryableStateOptions(ports=(port,), token=first.token)) as second:
            second.register(job)
            assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1


def test_close_ends_idle_connections_at_once(job: FakeJob) -> None:
    server = QueryableStateServer(QueryableStateOptions()).start()
    server.register(job)
    with client_of(server) as client, raw_connection(server) as silent:
        assert client.get_kv_state(job.job_id, "totals", "k1").result(10) == 1
        began = time.monotonic()
        server.close()
        server.close()
        assert time.monotonic() - began < 2
        assert silent.recv(1) == b""


def test_server_that_was_never_started_can_be_closed() -> None:
    QueryableStateServer(QueryableStateOptions()).close()


def test_next_port_of_the_range_is_taken_when_one_is_busy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = busy.getsockname()[1]
        with QueryableStateServer(QueryableStateOptions(ports=(taken, 0))) as server:
            assert server.address[1] != taken
        with pytest.raises(ConfigurationError, match=rf"cannot listen on 127\.0\.0\.1, port {taken}: .*\nAction: "):
            QueryableStateServer(QueryableStateOptions(ports=(taken,))).start()


# -- options --------------------------------------------------------------------------------------------------------


def options(**settings: str) -> QueryableStateOptions | None:
    keys = {"enable": "queryable-state.enable", "token": "queryable-state.token"}
    return queryable_options_from(
        {"queryable-state.enable": "true"}
        | {keys.get(key, f"queryable-state.server.{key.replace('_', '-')}"): text for key, text in settings.items()}
    )


def test_nothing_listens_unless_it_is_asked_for() -> None:
    assert queryable_options_from({}) is None
    assert options(enable="false") is None


def test_defaults_are_a_free_port_of_this_machine_and_a_new_token() -> None:
    first, second = options(), options()
    assert first is not None
    assert second is not None
    assert (first.host, first.ports) == ("127.0.0.1", (0,))
    assert first.token != second.token
    assert len(first.token) >= 32
    assert first.token not in repr(first)


def test_ports_are_a_port_a_range_or_several() -> None:
    assert [found.ports for text in ("9067", "9067-9069", "9067,9070-9071") if (found := options(ports=text))] == [
        (9067,),
        (9067, 9068, 9069),
        (9067, 9070, 9071),
    ]
    found = options(port="8123")
    assert found is not None
    assert found.ports == (8123,)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ports": "9069-9067"}, r"'9069-9067' is no port\nAction: Write 9067"),
        ({"ports": "http"}, "'http' is no port"),
        ({"port": "70000"}, "'70000' is no port"),
        ({"token": ""}, "'queryable-state.token' is empty"),
        ({"host": "0.0.0.0"}, r"'0.0.0.0' can be reached from other machines, and .*token' is not set\nAction: Set"),
        ({"host": "::"}, "can be reached from other machines"),
        ({"host": ""}, "can be reached from other machines"),
        ({"host": "0.0.0.0", "token": "short"}, "has only 5 characters"),
        ({"max_connections": "0"}, "max-connections': 0 is below 1"),
        ({"max_requests_per_second": "-1"}, "max-requests-per-second': -1 is below 1"),
    ],
)
def test_option_that_makes_no_sense_or_is_dangerous_is_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        options(**settings)


def test_other_machines_are_let_in_with_a_token_that_was_chosen() -> None:
    found = options(host="0.0.0.0", token="a-token-that-was-chosen")
    assert found is not None
    assert found.host == "0.0.0.0"
    assert options(host="localhost") is not None


def test_each_error_has_a_code_of_its_own_that_comes_back() -> None:
    classes = QueryableStateError.__subclasses__()
    codes = {cls.default_code for cls in classes}
    assert len(codes) == len(classes) == 10
    for cls in classes:
        error = error_of(cls.default_code, "told", "Do it.")
        assert (type(error), error.message, error.action) == (cls, "told", "Do it.")
    assert type(error_of("MR-9999", "told", None)) is QueryableStateError


def test_reducing_state_is_a_value(client: QueryableStateClient, server: QueryableStateServer) -> None:
    largest = queryable(ReducingStateDescriptor("largest", max, Types.LONG()))
    job = FakeJob(largest, key_type=Types.STRING()).epoch(("largest", "a", lambda state: state.add(4))).checkpoint()
    server.register(job)
    assert client.get_kv_state(job.job_id, "largest", "a", None, largest).result(10) == 4
