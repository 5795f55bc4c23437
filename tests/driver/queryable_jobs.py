"""A job for tests of queryable state: real state in real files, without anything that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millrace.common.job_id import JobID
from millrace.common.job_status import JobStatus
from millrace.state import (
    JobFiles,
    OperatorMeta,
    StateDescriptor,
    StateHandles,
    SubtaskState,
    key_group,
    subtask_of,
)
from millrace.state.backends import BackendSpec
from millrace.testing import MemoryFiles

Change = tuple[str, Any, Callable[[Any], Any]]  # the state's name, the key, what to do with the state

MAX_PARALLELISM = 128


class FakeJob:
    """One keyed operator, `sum`, of the vertex `7`. `epoch(...)` changes its states, `checkpoint()` completes one."""

    def __init__(
        self,
        *descriptors: StateDescriptor,
        parallelism: int = 2,
        key_type: Any = None,
        namespaced: bool = False,
        files: JobFiles | None = None,
        backend: BackendSpec = BackendSpec(),  # noqa: B008 - frozen
    ) -> None:
        self.job_id = JobID().to_hex_string()
        self.files = MemoryFiles() if files is None else files
        self.now = JobStatus.RUNNING
        self.number = 0
        self.accepted: dict[str, list[StateHandles]] = {}
        self.complete: dict[str, list[StateHandles]] = {}
        self.meta: list[OperatorMeta] = []
        self.states = [
            SubtaskState(self.files, "7", index, allow_pickle=True, backend=backend) for index in range(parallelism)
        ]
        self.tables = [
            {
                descriptor.name: state.operator("sum", key_type).keyed.get_state(descriptor, namespaced)
                for descriptor in descriptors
            }
            for state in self.states
        ]

    def epoch(self, *changes: Change, attempt: str = "a") -> FakeJob:
        """Run an epoch in which states change, from the last accepted one on."""
        self.number += 1
        old = self.accepted.get("7", [StateHandles()] * len(self.states))
        for state, handles in zip(self.states, old, strict=True):
            state.open(handles)
        for name, key, change in changes:
            subtask = subtask_of(key_group(key, MAX_PARALLELISM), len(self.states), MAX_PARALLELISM)
            self.states[subtask].operator("sum").keyed.context.key = key
            change(self.tables[subtask][name])
        self.accepted = {"7": [state.snapshot(self.number, attempt) for state in self.states]}
        described = self.states[0].describe()["sum"]
        self.meta = [OperatorMeta("sum", "7", len(self.states), MAX_PARALLELISM, "Sum", described)]
        return self

    def checkpoint(self) -> FakeJob:
        """Make the last epoch a checkpoint."""
        self.complete = self.accepted
        return self

    def restart(self) -> None:
        """Go back to the last checkpoint."""
        self.accepted = self.complete

    def delete_unneeded_files(self) -> None:
        """What the job does with files that neither the checkpoint nor the next epoch needs."""
        needed = {
            handle.path
            for version in (self.accepted, self.complete)
            for handles in version.get("7", ())
            for handle in handles.chain
        }
        for path in self.files.list("state"):
            if path not in needed:
                self.files.delete(path)

    # -- what the server asks ---------------------------------------------------------------------------------------

    def status(self) -> JobStatus:
        return self.now

    def operators(self) -> Sequence[OperatorMeta]:
        return self.meta

    def handles(self, consistency: str) -> Mapping[str, Sequence[StateHandles]] | None:
        return self.complete if consistency == "checkpoint" else self.accepted


def queryable(descriptor: Any, name: str | None = None) -> Any:
    """The descriptor, to be queried by its own name or another one."""
    descriptor.set_queryable(name or descriptor.name)
    return descriptor
