"""What one worker process holds of a job: its subtasks, opened once and kept until the job ends."""

from __future__ import annotations

import shutil
import sys

from millrace.runtime.epoch import EpochInput, JobSettings
from millrace.runtime.level_task import LevelTask
from millrace.runtime.router import Outbox
from millrace.runtime.shipping import ShippedJob, load_vertex, publish_classes
from millrace.runtime.subtask import Subtask


def find_modules_in(python_path: tuple[str, ...]) -> None:
    """Have this process find the program's modules, after all that it finds by itself."""
    sys.path.extend(entry for entry in python_path if entry not in sys.path)


class HostedJob:
    """The subtasks of one job (one attempt of it) in this process."""

    def __init__(self, job: ShippedJob, settings: JobSettings) -> None:
        self._job = job
        self._settings = settings
        self._subtasks: dict[tuple[int, int], Subtask] = {}
        find_modules_in(settings.python_path)
        publish_classes(job.classes)

    def task(
        self, level: int, slot: int, epoch: EpochInput, attempt: int, outbox: Outbox | None = None
    ) -> LevelTask:
        """The task for a slot of a level in an epoch."""
        subtasks = [self._subtask(vertex, index, epoch) for vertex, index in self._job.placement[level][slot]]
        return LevelTask(level, slot, subtasks, epoch, outbox or Outbox(attempt))

    def _subtask(self, vertex_id: int, index: int, epoch: EpochInput) -> Subtask:
        key = (vertex_id, index)
        subtask = self._subtasks.get(key)
        if subtask is not None and not subtask.can_continue(epoch):
            subtask.close()
            subtask = None
        if subtask is None:
            subtask = self._subtasks[key] = Subtask(load_vertex(self._job.vertices[vertex_id]), index, self._settings)
        return subtask

    def close(self) -> list[BaseException]:
        """Close all functions; the errors that this brings are given back."""
        errors: list[BaseException] = []
        while self._subtasks:
            errors += self._subtasks.popitem()[1].close()
        if self._settings.backend != "hashmap":
            # The other processes of this machine are through as well: a job closes everywhere at once.
            shutil.rmtree(self._settings.local_state, ignore_errors=True)
        return errors


