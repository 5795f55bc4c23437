"""From queries to answers, without a network: which state, as of when, and what may be told."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.common.job_status import JobStatus
from millrace.common.typeinfo import Types
from millrace.driver.queryable.replicas import ReplicaId
from millrace.driver.queryable.service import QueryService
from millrace.queryable_state import (
    JobNotReadyError,
    QueryTypeError,
    StateUnavailableError,
    UnknownJobError,
    UnknownKeyError,
    UnknownStateNameError,
)
from millrace.queryable_state.columns import from_wire, key_to_wire, to_wire
from millrace.queryable_state.wire import Query, WireColumn
from millrace.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorMeta,
    ReducingStateDescriptor,
    StateHandles,
    ValueStateDescriptor,
)
from millrace.state.backends import BackendSpec
from tests.driver.queryable_jobs import MAX_PARALLELISM, FakeJob, queryable


@dataclass(frozen=True)
class Account:
    owner: str
    balance: int


def add(number: int) -> Any:
    return lambda state: state.update((state.value() or 0) + number)


def put(value: Any) -> Any:
    return lambda state: state.update(value)


def totals(**options: Any) -> FakeJob:
    return FakeJob(queryable(ValueStateDescriptor("total", Types.LONG())), key_type=Types.STRING(), **options)


def query(job: FakeJob, name: str, key: Any, namespace: Any = None, consistency: Any = "checkpoint") -> Query:
    wire = None if namespace is None else key_to_wire(namespace, None, "the namespace")
    return Query("t", job.job_id, name, key_to_wire(key, None, "the key"), wire, consistency)


class Asking:
    """A service with jobs, asked by plain values."""

    def __init__(self, *jobs: FakeJob) -> None:
        self.clock = 0.0
        self.service = QueryService(lambda: self.clock)
        for job in jobs:
            self.service.register(job)
        self.job = jobs[0]

    def __call__(self, name: str, key: Any, namespace: Any = None, consistency: Any = "checkpoint") -> Any:
        answer = self.service.answer(query(self.job, name, key, namespace, consistency))
        columns = {role: from_wire(column, None, role) for role, column in answer.columns.items()}
        if answer.kind == "map":
            return dict(zip(columns["entry"], columns["value"], strict=True))
        return columns["item"] if answer.kind == "list" else columns["value"][0]

    def last_opens(self) -> dict[int, str]:
        """What each replica had to do for its last query, by subtask."""
        return {identity.subtask: held.replica.last_open for identity, held in self.service.replicas._held.items()}


# -- kinds of state -------------------------------------------------------------------------------------------------


def test_each_kind_of_state_is_answered_as_its_own_get_would() -> None:
    class Average:
        def create_accumulator(self) -> tuple[int, int]:
            return 0, 0

        def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator: tuple[int, int]) -> float:
            return accumulator[0] / accumulator[1]

    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    job = FakeJob(
        queryable(ValueStateDescriptor("value", Types.STRING())),
        queryable(ListStateDescriptor("list", Types.LONG())),
        queryable(MapStateDescriptor("map", Types.STRING(), Types.LONG())),
        queryable(ReducingStateDescriptor("reducing", max, Types.LONG())),
        queryable(AggregatingStateDescriptor("aggregating", Average(), pair)),
        key_type=Types.LONG(),
    )
    job.epoch(
        ("value", 5, put("five")),
        ("list", 5, lambda state: state.add_all([1, None, 2])),
        ("map", 5, lambda state: state.put_all({"a": 1, "b": 2})),
        *(("reducing", 5, lambda state, n=n: state.add(n)) for n in (3, 9, 4)),
        *(("aggregating", 5, lambda state, n=n: state.add(n)) for n in (3, 9)),
    ).checkpoint()
    ask = Asking(job)
    assert ask("value", 5) == "five"
    assert ask("list", 5) == [1, None, 2]
    assert ask("map", 5) == {"a": 1, "b": 2}
    assert ask("reducing", 5) == 9
    assert ask("aggregating", 5) == (12, 2)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_key_is_found_in_the_subtask_that_owns_it(parallelism: int) -> None:
    job = totals(parallelism=parallelism)
    keys = [f"user-{number}" for number in range(40)]
    job.epoch(*(("total", key, add(index + 1)) for index, key in enumerate(keys))).checkpoint()
    ask = Asking(job)
    assert [ask("total", key) for key in keys] == list(range(1, 41))
    assert len(ask.service.replicas) == parallelism


def test_state_by_namespace_needs_the_namespace() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("n", Types.LONG())), key_type=Types.STRING(), namespaced=True)

    def in_windows(state: Any) -> None:
        for window, count in (((0, 10), 3), ((10, 20), 4)):
            state.set_namespace(window)
            state.update(count)

    job.epoch(("n", "a", in_windows)).checkpoint()
    ask = Asking(job)
    assert ask("n", "a", (10, 20)) == 4
    with pytest.raises(UnknownKeyError, match=r"in the namespace \(20, 30\)"):
        ask("n", "a", (20, 30))
    with pytest.raises(QueryTypeError, match=r"kept by key and namespace\nAction: Give the namespace"):
        ask("n", "a")


def test_namespace_for_state_without_namespaces_is_refused() -> None:
    with pytest.raises(QueryTypeError, match="has no namespaces"):
        Asking(totals().epoch(("total", "a", add(1))).checkpoint())("total", "a", 5)


# -- as of when -----------------------------------------------------------------------------------------------------


def test_checkpoint_and_epoch_are_told_apart() -> None:
    job = totals().epoch(("total", "a", add(1))).checkpoint().epoch(("total", "a", add(10)))
    ask = Asking(job)
    assert ask("total", "a") == 1
    assert ask("total", "a", consistency="epoch") == 11
    assert ask("total", "a") == 1
    job.checkpoint()
    assert ask("total", "a") == 11


def test_restart_takes_the_last_epochs_back() -> None:
    job = totals().epoch(("total", "a", add(1))).checkpoint().epoch(("total", "a", add(10)))
    ask = Asking(job)
    assert ask("total", "a", consistency="epoch") == 11
    job.restart()
    job.number = 1
    job.epoch(("total", "a", add(100)), attempt="b")
    assert ask("total", "a", consistency="epoch") == 101
    assert ask("total", "a") == 1


def test_replica_reads_only_the_deltas_that_it_lacks() -> None:
    job = totals(parallelism=1).epoch(("total", "a", add(1))).checkpoint()
    ask = Asking(job)
    assert (ask("total", "a"), ask.last_opens()) == (1, {0: "rebuilt"})
    assert (ask("total", "a"), ask.last_opens()) == (1, {0: "kept"})
    job.epoch(("total", "a", add(1))).epoch(("total", "b", add(5))).checkpoint()
    job.files.delete(job.complete["7"][0].chain[0].path)  # the base: a replica that was up to date needs it no more
    assert (ask("total", "a"), ask.last_opens()) == (2, {0: "caught up"})
    assert ask("total", "b") == 5


def test_replica_follows_through_merges_and_new_bases() -> None:
    job = totals(parallelism=1)
    ask = Asking(job)
    for number in range(1, 120):
        job.epoch(("total", f"k{number}", put(number)), ("total", "a", put(number))).checkpoint()
        job.delete_unneeded_files()
        if number % 7 == 0:
            assert ask("total", "a") == number
    assert ask("total", "k3") == 3


def test_removed_key_is_unknown() -> None:
    job = totals().epoch(("total", "a", add(1))).checkpoint()
    ask = Asking(job)
    assert ask("total", "a") == 1
    job.epoch(("total", "a", lambda state: state.clear())).checkpoint()
    with pytest.raises(UnknownKeyError):
        ask("total", "a")


# -- files that vanish ----------------------------------------------------------------------------------------------


class Vanishing(FakeJob):
    """A job whose first `stale` answers about its handles are older than its files."""

    stale = 0
    old: Mapping[str, Sequence[StateHandles]]

    def handles(self, consistency: str) -> Mapping[str, Sequence[StateHandles]] | None:
        if self.stale:
            self.stale -= 1
            return self.old
        return super().handles(consistency)


def test_query_goes_on_with_newer_handles_when_files_vanish_under_it() -> None:
    job = Vanishing(queryable(ValueStateDescriptor("total", Types.LONG())), parallelism=1)
    job.epoch(("total", "a", add(1))).checkpoint()
    job.old, first = job.complete, job.complete["7"][0].chain[0].path
    job.accepted = {}  # As after a restore: the next epoch writes a base, and the old one goes.
    job.epoch(("total", "a", add(2))).checkpoint()
    job.delete_unneeded_files()
    assert first not in job.files.list("state")
    job.stale = 2  # once to find the subtask, once to read
    assert Asking(job)("total", "a") == 2


def test_missing_file_of_the_newest_handles_is_reported_and_forgotten_once_it_is_back() -> None:
    job = totals(parallelism=1).epoch(("total", "a", add(1))).checkpoint()
    path = job.complete["7"][0].chain[0].path
    content = job.files.read(path)
    job.files.delete(path)
    ask = Asking(job)
    with pytest.raises(StateUnavailableError, match=f"it cannot be read: {path}: the file is missing\nAction: "):
        ask("total", "a")
    job.files.write(path, content)
    assert ask("total", "a") == 1


def test_damaged_file_is_reported() -> None:
    job = totals(parallelism=1).epoch(("total", "a", add(1))).checkpoint()
    path = job.complete["7"][0].chain[0].path
    job.files.write(path, job.files.read(path)[:-1] + b"?")
    with pytest.raises(StateUnavailableError, match="it cannot be read"):
        Asking(job)("total", "a")


def test_state_in_rocksdb_is_answered_for_as_well(tmp_path: Path) -> None:
    job = FakeJob(
        queryable(ValueStateDescriptor("total", Types.LONG())),
        parallelism=1,
        backend=BackendSpec("rocksdb", str(tmp_path)),
    )
    ask = Asking(job)
    for epoch in range(1, 5):
        job.states[0]._base_wanted = epoch in {2, 4}
        job.epoch(("total", "a", add(epoch)), ("total", f"only {epoch}", add(1))).checkpoint()
        assert ask("total", "a") == epoch * (epoch + 1) // 2
    assert job.complete["7"][0].database
    assert [ask("total", f"only {epoch}") for epoch in range(1, 5)] == [1, 1, 1, 1]


# -- what is not there ----------------------------------------------------------------------------------------------


def test_unknown_job_and_a_job_that_has_ended() -> None:
    job = totals().epoch(("total", "a", add(1))).checkpoint()
    ask = Asking(job)
    job.now = JobStatus.FINISHED
    with pytest.raises(UnknownJobError, match="is FINISHED"):
        ask("total", "a")
    ask.service.unregister(job.job_id)
    with pytest.raises(UnknownJobError, match=f"no job {job.job_id} here\nAction: "):
        ask("total", "a")


@pytest.mark.parametrize("status", [JobStatus.RESTARTING, JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.FAILING])
def test_job_that_does_not_run_just_now_is_not_ready(status: JobStatus) -> None:
    job = totals().epoch(("total", "a", add(1))).checkpoint()
    job.now = status
    with pytest.raises(JobNotReadyError, match=rf"is {status.name}\nAction: Ask again"):
        Asking(job)("total", "a")


def test_job_without_an_epoch_or_a_checkpoint_is_not_ready() -> None:
    job = totals()
    ask = Asking(job)
    with pytest.raises(JobNotReadyError, match="no complete epoch yet"):
        ask("total", "a", consistency="epoch")
    job.epoch(("total", "a", add(1)))
    assert ask("total", "a", consistency="epoch") == 1
    with pytest.raises(JobNotReadyError, match="no complete checkpoint yet"):
        ask("total", "a")


def test_unknown_name_tells_which_there_are() -> None:
    job = FakeJob(
        queryable(ValueStateDescriptor("a"), "first"), queryable(ValueStateDescriptor("b"), "second"),
        ValueStateDescriptor("private"),
    )  # fmt: skip
    ask = Asking(job.epoch(("a", 1, put(1)), ("b", 1, put(1)), ("private", 1, put(1))).checkpoint())
    for name in ("private", "a", "", "third"):
        with pytest.raises(UnknownStateNameError, match=r"there is 'first', 'second'\nAction: "):
            ask(name, 1)


def test_name_that_two_operators_answer_to_is_refused() -> None:
    class Twice(FakeJob):
        def operators(self) -> list[OperatorMeta]:
            (only,) = super().operators()
            return [only, OperatorMeta("other", "8", 2, MAX_PARALLELISM, "", only.states)]

    job = Twice(queryable(ValueStateDescriptor("total"))).epoch(("total", "a", add(1))).checkpoint()
    with pytest.raises(UnknownStateNameError, match="operators 'sum' and 'other' both have"):
        Asking(job)("total", "a")


def test_key_without_an_entry_is_unknown() -> None:
    ask = Asking(totals().epoch(("total", "a", add(1))).checkpoint())
    with pytest.raises(UnknownKeyError, match=r"nothing under the key 'b' as of its last checkpoint\nAction: "):
        ask("total", "b")


# -- types ----------------------------------------------------------------------------------------------------------


def test_key_of_another_type_is_a_mismatch_and_no_unknown_key() -> None:
    ask = Asking(totals().epoch(("total", "a", add(1))).checkpoint())
    for key in (5, ("a",), b"a", None):
        with pytest.raises(QueryTypeError, match="the key"):
            ask("total", key)


def test_tuple_key_whose_type_nobody_declared_is_guessed() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("total"))).epoch(("total", ("a", 1), add(4))).checkpoint()
    assert Asking(job)("total", ("a", 1)) == 4


def test_key_that_has_no_hash_is_refused() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("total"))).epoch(("total", "a", add(4))).checkpoint()
    for key in ([1], float("nan")):
        with pytest.raises(QueryTypeError):
            Asking(job)("total", key)


def test_undeclared_value_is_answered_when_it_is_plain_and_refused_when_it_is_not() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("any")))
    values: list[Any] = [1, 2.5, "text", b"bytes", True]
    strange: list[Any] = [(1, 2), {"a": 1}, 2**70, Account("a", 1), [1]]
    job.epoch(*(("any", index, put(value)) for index, value in enumerate([*values, *strange]))).checkpoint()
    ask = Asking(job)
    assert [ask("any", index) for index in range(len(values))] == values
    for index in range(len(values), len(values) + len(strange)):
        with pytest.raises(QueryTypeError, match=r"the value of state 'any' is .*\nAction: Declare a type"):
            ask("any", index)


def test_state_declared_as_pickled_counts_as_undeclared() -> None:
    pickled = Types.PICKLED_BYTE_ARRAY()
    job = FakeJob(queryable(ValueStateDescriptor("any", pickled)), key_type=pickled)
    ask = Asking(job.epoch(("any", "a", put(7)), ("any", "b", put({"x": 1}))).checkpoint())
    assert ask("any", "a") == 7
    with pytest.raises(QueryTypeError, match="could only travel as a pickle"):
        ask("any", "b")


def test_dataclass_comes_as_a_dict_to_a_client_that_lacks_the_class() -> None:
    account = Types.DATACLASS(Account)
    job = FakeJob(queryable(MapStateDescriptor("m", Types.STRING(), account)), key_type=account)
    job.epoch(("m", Account("ann", 1), lambda state: state.put("x", Account("bob", 2)))).checkpoint()
    assert Asking(job)("m", Account("ann", 1)) == {"x": {"owner": "bob", "balance": 2}}


def test_key_of_a_class_that_the_state_does_not_declare_imports_nothing() -> None:
    ask = Asking(totals().epoch(("total", "a", add(1))).checkpoint())
    evil = {"type": "DATACLASS", "module": "antigravity", "qualname": "X", "fields": []}
    hostile = Query("t", ask.job.job_id, "total", WireColumn("typed", evil, b"\0\0\0\0\x91\x90"))
    with pytest.raises(QueryTypeError):
        ask.service.answer(hostile)
    assert "antigravity" not in sys.modules


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return self.path.touch, ()


def test_pickle_is_neither_read_nor_sent(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    bytes_of_trap = pickle.dumps(Trap(sprung))
    data = b"\0\0\0\0" + msgspec.msgpack.encode([bytes_of_trap])
    pickled = Types.PICKLED_BYTE_ARRAY()
    for job in (totals(), FakeJob(queryable(ValueStateDescriptor("total")), key_type=pickled)):
        ask = Asking(job.epoch(("total", "a", add(1))).checkpoint())
        for type_info in (pickled, Types.LIST(pickled)):
            with pytest.raises(QueryTypeError, match="the key"):
                ask.service.answer(Query("t", job.job_id, "total", WireColumn("typed", type_info.to_json(), data)))
    with pytest.raises(QueryTypeError, match="could only travel as a pickle"):
        to_wire([Trap(sprung)], pickled, "the value")
    assert not sprung.exists()
    pickle.loads(bytes_of_trap)
    assert sprung.exists()  # So the trap works.


@pytest.mark.parametrize(
    "column",
    [
        WireColumn("plain", None, b"\xc1"),
        WireColumn("plain", None, b""),
        WireColumn("plain", None, b"\x81\xa1a\x01"),
        WireColumn("plain", None, b"\x90"),
        WireColumn("plain", None, b"\x92\xa1a\xa1b"),
        WireColumn("plain", None, b"\x91\x91\xa1a"),
        WireColumn("typed", None, b"\0\0\0\0\x90"),
        WireColumn("typed", {}, b"\0\0\0\0\x90"),
        WireColumn("typed", {"type": "LIST"}, b"\0\0\0\0\x90"),
        WireColumn("typed", {"type": "TUPLE", "fields": 5}, b"\0\0\0\0\x90"),
        WireColumn("typed", {"type": "STRING"}, b""),
        WireColumn("typed", {"type": "STRING"}, b"\xff\xff\xff\xff\x90"),
    ],
)
def test_key_that_is_no_value_is_a_clear_error(column: WireColumn) -> None:
    for job in (totals(), FakeJob(queryable(ValueStateDescriptor("total")))):
        ask = Asking(job.epoch(("total", "a", add(1))).checkpoint())
        with pytest.raises(QueryTypeError):
            ask.service.answer(Query("t", job.job_id, "total", column))


# -- replicas -------------------------------------------------------------------------------------------------------


def test_replica_that_nobody_asks_for_is_dropped() -> None:
    job = totals(parallelism=1).epoch(("total", "a", add(1))).checkpoint()
    other = totals(parallelism=1).epoch(("total", "a", add(1))).checkpoint()
    ask = Asking(job, other)
    ask("total", "a")
    ask.clock = 500.0
    ask.service.answer(query(other, "total", "a"))
    assert len(ask.service.replicas) == 2
    ask.clock = 700.0
    ask.service.answer(query(other, "total", "a"))
    assert [identity.job_id for identity in ask.service.replicas._held] == [other.job_id]
    ask.service.unregister(other.job_id)
    assert len(ask.service.replicas) == 0


def test_replica_holds_only_the_state_that_is_queried() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("small")), ValueStateDescriptor("large"), parallelism=1)
    job.epoch(("small", 1, put(1)), *(("large", key, put("x" * 100)) for key in range(100))).checkpoint()
    ask = Asking(job)
    assert ask("small", 1) == 1
    identity = ReplicaId(job.job_id, "7", 0, "sum", "small", "checkpoint")
    assert ask.service.replicas._held[identity].replica._table.entry_count() == 1


def test_state_that_is_declared_otherwise_after_a_restart_is_copied_anew() -> None:
    job = FakeJob(queryable(ValueStateDescriptor("total", Types.INT())), parallelism=1, key_type=Types.STRING())
    ask = Asking(job.epoch(("total", "a", add(1))).checkpoint())
    assert ask("total", "a") == 1
    changed = totals(parallelism=1, files=job.files)
    changed.job_id, changed.number = job.job_id, job.number
    changed.accepted = job.accepted
    changed.epoch(("total", "a", put(2**40))).checkpoint()
    ask.service._jobs[job.job_id] = changed
    assert ask("total", "a") == 2**40


# -- any history ----------------------------------------------------------------------------------------------------

KEYS = ("a", "b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("map"), st.sampled_from(KEYS), st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("unmap"), st.sampled_from(KEYS), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("add"), st.sampled_from(KEYS), st.just(0), st.integers(0, 9)),
        st.tuples(st.just("clear"), st.sampled_from(KEYS), st.just(0), st.just(0)),
        st.tuples(st.sampled_from(["epoch", "checkpoint", "restart", "compare"]), st.just(""), st.just(0), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """What the job's states hold, as plain dicts."""

    def __init__(self) -> None:
        self.maps: dict[str, dict[int, int]] = {}
        self.lists: dict[str, list[int]] = {}

    def take(self, step: tuple[str, str, int, int]) -> tuple[str, str, Any]:
        """Do a step, and return what the job has to do for it."""
        what, key, entry, value = step
        if what == "map":
            self.maps.setdefault(key, {})[entry] = value
            return "m", key, lambda state: state.put(entry, value)
        if what == "unmap":
            self.maps.get(key, {}).pop(entry, None)
            return "m", key, lambda state: state.remove(entry)
        if what == "add":
            self.lists.setdefault(key, []).append(value)
            return "l", key, lambda state: state.add(value)
        self.lists.pop(key, None)
        return "l", key, lambda state: state.clear()


class History:
    """A job and what it must hold, as of its last epoch and its last checkpoint."""

    def __init__(self) -> None:
        states = queryable(MapStateDescriptor("m")), queryable(ListStateDescriptor("l"))
        self.job = FakeJob(*states, key_type=Types.STRING()).epoch().checkpoint()
        self.ask = Asking(self.job)
        self.models = {"epoch": Model(), "checkpoint": Model()}
        self.changes: list[Any] = []
        self.attempt = 0

    def epoch(self) -> None:
        changes, self.changes = [self.models["epoch"].take(change) for change in self.changes], []
        self.job.epoch(*changes, attempt=str(self.attempt))

    def checkpoint(self) -> None:
        self.epoch()
        self.job.checkpoint().delete_unneeded_files()
        self.models["checkpoint"] = copy.deepcopy(self.models["epoch"])

    def restart(self) -> None:
        self.job.restart()
        self.models["epoch"] = copy.deepcopy(self.models["checkpoint"])
        self.changes, self.attempt = [], self.attempt + 1

    def compare(self) -> None:
        for consistency, model in self.models.items():
            for key in KEYS:
                self.expect("m", key, consistency, model.maps.get(key))
                self.expect("l", key, consistency, model.lists.get(key))

    def expect(self, name: str, key: str, consistency: str, expected: Any) -> None:
        if expected:
            assert self.ask(name, key, consistency=consistency) == expected
            return
        with pytest.raises(UnknownKeyError):
            self.ask(name, key, consistency=consistency)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_answers_are_what_the_job_had_at_its_last_checkpoint_and_epoch(steps: list[tuple[str, str, int, int]]) -> None:
    history = History()
    for step in steps:
        act = getattr(history, step[0], None)
        if act is None:
            history.changes.append(step)
        else:
            act()
    history.compare()
