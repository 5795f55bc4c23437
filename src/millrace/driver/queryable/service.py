"""From a query to an answer: which state, which subtask, which entry. Knows no network.

name ─► (operator, state) ─► key group ─► subtask ─► replica ─► entry ─► answer
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from millrace.common.errors import MillraceError, short_repr
from millrace.common.job_status import JobStatus
from millrace.driver.queryable.job import QueryableJob
from millrace.driver.queryable.replicas import Entry, ReplicaId, Replicas
from millrace.queryable_state.columns import one_from_wire, to_wire, type_of
from millrace.queryable_state.errors import (
    JobNotReadyError,
    QueryTypeError,
    StateUnavailableError,
    UnknownJobError,
    UnknownKeyError,
    UnknownStateNameError,
)
from millrace.queryable_state.wire import Answer, Consistency, Query
from millrace.state.errors import StateCorruptedError, StateError
from millrace.state.handles import StateHandles
from millrace.state.key_groups import key_group, subtask_of
from millrace.state.manifest import OperatorMeta, StateMeta

# Files may vanish while they are read, because there are newer ones. Not often in a row.
_TRIES = 5


class QueryService:
    """Answers queries about the jobs that were registered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs: dict[str, QueryableJob] = {}
        self.replicas = Replicas(clock)

    def register(self, job: QueryableJob) -> None:
        """Answer for a job from now on; one of the same id is replaced."""
        self._jobs[job.job_id] = job
        self.replicas.forget(job.job_id)

    def unregister(self, job_id: str) -> None:
        """Answer for a job no longer, and drop what was copied of it."""
        self._jobs.pop(job_id, None)
        self.replicas.forget(job_id)

    def answer(self, query: Query) -> Answer:
        """What the queried state holds under the key. Raises a `QueryableStateError`."""
        job = self._running(query.job)
        operator, state = _find(job, query.name)
        key = one_from_wire(query.key, type_of(state.types.get("key")), "the key")
        namespace = _namespace(query, state)
        entry = self._read(job, operator, state, key, namespace, query.consistency)
        if not any(entry.columns.values()):
            under = "" if namespace is None else f" in the namespace {short_repr(namespace)}"
            raise UnknownKeyError(
                f"state {query.name!r} has nothing under the key {short_repr(key)}{under} as of its last "
                f"{query.consistency}",
                action="Check the key and its type; a record counts once its epoch, or checkpoint, is complete.",
            )
        types = {role: type_of(state.types.get(role)) for role in entry.columns}
        what = f"the {{}} of state {query.name!r}"
        columns = {role: to_wire(values, types[role], what.format(role)) for role, values in entry.columns.items()}
        return Answer(state.kind, columns, entry.epoch)  # type: ignore[arg-type]

    def _running(self, job_id: str) -> QueryableJob:
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJobError(f"there is no job {job_id} here", action="Check the id, and that the job still runs.")
        status = job.status()
        if status.is_terminal_state():
            raise UnknownJobError(f"job {job_id} is {status.name}", action="Ask while the job runs.")
        if status is not JobStatus.RUNNING:
            raise JobNotReadyError(f"job {job_id} is {status.name}", action="Ask again when it runs.")
        return job

    def _read(
        self,
        job: QueryableJob,
        operator: OperatorMeta,
        state: StateMeta,
        key: Any,
        namespace: Any,
        consistency: Consistency,
    ) -> Entry:
        group = _group_of(key, operator.max_parallelism)
        subtasks = len(_subtasks(job, operator, consistency))
        subtask = subtask_of(group, subtasks, operator.max_parallelism)
        identity = ReplicaId(job.job_id, operator.vertex, subtask, operator.uid, state.name, consistency)
        replica = self.replicas.get(identity, job.files, state)
        seen = StateHandles()

        def newest() -> StateHandles:
            nonlocal seen
            seen = _handles_of(job, operator, consistency, subtask, subtasks)
            return seen

        for _ in range(_TRIES):
            try:
                return replica.read(newest, key, namespace)
            except StateCorruptedError as error:
                damage, read = error, seen
                if newest() == read:
                    break
            except StateError as error:
                raise StateUnavailableError(f"it cannot be read: {error.message}", action=error.action) from error
        raise StateUnavailableError(f"it cannot be read: {damage.message}", action=damage.action) from damage


def _find(job: QueryableJob, name: str) -> tuple[OperatorMeta, StateMeta]:
    operators = job.operators()
    keyed = [(operator, state) for operator in operators for state in operator.states if state.section == "keyed"]
    found = [(operator, state) for operator, state in keyed if state.queryable == name]
    if len(found) == 1:
        return found[0]
    if not operators:
        raise _nothing_yet(job, "epoch")
    if found:
        where = " and ".join(repr(operator.uid) for operator, _ in found)
        raise UnknownStateNameError(
            f"the operators {where} both have a state that is queried by {name!r}",
            action="Give each queryable state of a job a name of its own.",
        )
    known = ", ".join(sorted({repr(state.queryable) for _, state in keyed if state.queryable})) or "none"
    raise UnknownStateNameError(
        f"no state of job {job.job_id} is queried by {name!r}; there is {known}",
        action="Call set_queryable(name) on the state's descriptor; a state is known once it was used.",
    )


def _namespace(query: Query, state: StateMeta) -> Any:
    if state.namespaced and query.namespace is None:
        raise QueryTypeError(f"state {query.name!r} is kept by key and namespace", action="Give the namespace, too.")
    if query.namespace is None:
        return None
    if not state.namespaced:
        raise QueryTypeError(f"state {query.name!r} has no namespaces", action="Leave out the namespace.")
    namespace = one_from_wire(query.namespace, type_of(state.types.get("ns")), "the namespace")
    _require_hashable(namespace, "namespace")
    return namespace


def _group_of(key: Any, max_parallelism: int) -> int:
    _require_hashable(key, "key")
    try:
        return key_group(key, max_parallelism)
    except MillraceError as error:
        raise QueryTypeError(error.message, action=error.action) from error


def _require_hashable(value: Any, what: str) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise QueryTypeError(f"{short_repr(value)} cannot be a {what}: it has no hash") from error


def _subtasks(job: QueryableJob, operator: OperatorMeta, consistency: Consistency) -> list[StateHandles]:
    subtasks = (job.handles(consistency) or {}).get(operator.vertex)
    if not subtasks:
        raise _nothing_yet(job, consistency)
    return list(subtasks)


def _handles_of(
    job: QueryableJob, operator: OperatorMeta, consistency: Consistency, subtask: int, subtasks: int
) -> StateHandles:
    found = _subtasks(job, operator, consistency)
    if len(found) != subtasks:
        raise JobNotReadyError(f"job {job.job_id} is being rescaled", action="Ask again.")
    return found[subtask]


def _nothing_yet(job: QueryableJob, consistency: Consistency) -> JobNotReadyError:
    return JobNotReadyError(f"job {job.job_id} has no complete {consistency} yet", action="Ask again in a while.")
