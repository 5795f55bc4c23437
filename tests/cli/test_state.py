"""`millrace state query` asks a server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from millrace.cli.main import main
from millrace.cli.state import shown
from millrace.common import Row
from millrace.common.typeinfo import Types
from millrace.driver.queryable import QueryableStateOptions, QueryableStateServer
from millrace.state import MapStateDescriptor, ValueStateDescriptor
from tests.driver.queryable_jobs import FakeJob, queryable


def put(value: Any) -> Any:
    return lambda state: state.update(value)


@pytest.fixture
def job() -> FakeJob:
    job = FakeJob(
        queryable(ValueStateDescriptor("total", Types.LONG()), "totals"),
        queryable(MapStateDescriptor("days", Types.STRING(), Types.SQL_DATE())),
    )
    return job.epoch(
        ("total", "ann", put(5)),
        ("total", 7, put(49)),
        ("total", ("ann", 1), put(6)),
        ("days", "ann", lambda state: state.put("first", date(2024, 2, 29))),
    ).checkpoint()


@pytest.fixture
def server(job: FakeJob) -> Iterator[QueryableStateServer]:
    with QueryableStateServer(QueryableStateOptions()) as server:
        server.register(job)
        yield server


def query(server: QueryableStateServer, *arguments: str) -> int:
    return main(["state", "query", "--port", str(server.address[1]), "--token", server.token, *arguments])


def test_value_is_printed_as_json(
    job: FakeJob, server: QueryableStateServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(server, job.job_id, "totals", "ann") == 0
    assert query(server, "--key-type", "long", job.job_id, "totals", "7") == 0
    assert query(server, "--key-type", "json", job.job_id, "totals", '["ann", 1]') == 0
    assert query(server, job.job_id, "days", "ann") == 0
    assert capsys.readouterr().out == '5\n49\n6\n{"first":"2024-02-29"}\n'


def test_newer_value_is_printed_for_the_last_epoch(
    job: FakeJob, server: QueryableStateServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job.epoch(("total", "ann", put(50)))
    assert query(server, "--consistency", "epoch", job.job_id, "totals", "ann") == 0
    assert capsys.readouterr().out == "50\n"


def test_error_goes_to_standard_error(
    job: FakeJob, server: QueryableStateServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(server, job.job_id, "totals", "nobody") == 1
    assert query(server, job.job_id, "other", "ann") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "[MR-4103] state 'totals' has nothing under the key 'nobody'" in printed.err
    assert "[MR-4102] no state of job" in printed.err


def test_token_may_stand_in_the_environment(
    job: FakeJob,
    server: QueryableStateServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["state", "query", "--port", str(server.address[1]), job.job_id, "totals", "ann"]
    monkeypatch.delenv("MILLRACE_QUERYABLE_STATE_TOKEN", raising=False)
    assert main(arguments) == 1
    assert "Action: Set MILLRACE_QUERYABLE_STATE_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("MILLRACE_QUERYABLE_STATE_TOKEN", server.token)
    assert main(arguments) == 0
    assert capsys.readouterr().out == "5\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--key-type", "long", "0" * 32, "n", "x"), "The key 'x' is not JSON"),
        (("--key-type", "long", "0" * 32, "n", '"x"'), "is no number"),
        (("--namespace", "(1, 2)", "0" * 32, "n", "x"), "The namespace '(1, 2)' is not JSON"),
        (("job", "n", "x"), "'job' is not a job id"),
    ],
)
def test_argument_that_makes_no_sense_is_named(
    arguments: tuple[str, ...], told: str, server: QueryableStateServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(server, *arguments) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, "a", None], '[1,"a",null]'),
        ({1: Decimal("2.5")}, '{"1":"2.5"}'),
        (b"\xff", '"/w=="'),
        ({("a", 1): 2}, """{"('a', 1)":2}"""),
        ("\ud800", repr("\ud800")),
        (Row(a=1), '"Row(a=1)"'),
    ],
)
def test_values_without_a_form_in_json_are_shown_as_python_does(value: Any, text: str) -> None:
    assert shown(value) == text
