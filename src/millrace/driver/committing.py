"""Commits to outside systems: tried again after a pause when they fail, and explained when they go on failing.

    sink.committer.retries       how often a commit that failed is tried again (10)
    sink.committer.retry-delay   the first pause (100 ms); each one is twice as long as the one before, 5 s at most
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from millrace.common.config_options import ConfigOptions
from millrace.common.configuration import Configuration
from millrace.common.errors import ConfigurationError, MillraceError
from millrace.common.time import Duration
from millrace.graph.job_graph import JobPlan
from millrace.runtime.sinks import Committer, CommitterContext

_LOG = logging.getLogger("millrace.job")

_RETRIES = ConfigOptions.key("sink.committer.retries").int_type().default_value(10)
_DELAY = ConfigOptions.key("sink.committer.retry-delay").duration_type().default_value(Duration.of_millis(100))

# Longer pauses would not help a system that comes back, and make the job slow to see it.
_LONGEST_PAUSE = 5.0

# Waits so many seconds; True when the job was cancelled meanwhile.
Wait = Callable[[float], bool]


class CommitFailedError(MillraceError):
    """A sink could not be committed. Its records are safe in the checkpoint, and are committed when the job goes on."""

    default_code = "MR-2009"


class Committers:
    """The committers of one job, by node.

    A committer is opened when it is first needed: a system that is down at the start is tried again like any other
    failure, and a sink whose job commits nothing is never asked for a connection.
    """

    def __init__(
        self,
        plan: JobPlan,
        job_id: str,
        directory: str,
        configuration: Mapping[str, str],
        wait: Wait | None = None,
    ) -> None:
        settings = Configuration.from_dict(dict(configuration))
        self._retries = settings.get(_RETRIES)
        self._delay = settings.get(_DELAY).to_millis() / 1000
        if self._retries < 0 or self._delay < 0:
            raise ConfigurationError("sink.committer.retries and retry-delay must not be negative")
        self._wait = wait or threading.Event().wait
        self._committers = _committers(plan)
        self._contexts = {
            node.id: CommitterContext(job_id, plan.name, node.state_id, node.name, directory)
            for vertex in plan.vertices
            for node in vertex.nodes
            if node.id in self._committers
        }
        self._open: set[int] = set()

    def commit(self, committables: Mapping[int, list[Any]]) -> None:
        """Make visible what the sinks have prepared; asked twice, they do nothing the second time."""
        for node_id, prepared in committables.items():
            if node_id in self._committers and prepared:
                self._commit(node_id, prepared)

    def _commit(self, node_id: int, prepared: list[Any]) -> None:
        for attempt in range(self._retries + 1):
            try:
                self._opened(node_id).commit(list(prepared))
                return
            except MillraceError:
                raise
            except Exception as error:
                if attempt == self._retries:
                    raise self._failure(node_id, attempt + 1, error) from error
                pause = min(self._delay * 2**attempt, _LONGEST_PAUSE)
                _LOG.warning("Committing to %s failed, again in %g s: %s", self._described(node_id), pause, error)
                if self._wait(pause):
                    raise self._failure(node_id, attempt + 1, error) from error

    def _opened(self, node_id: int) -> Any:
        committer = self._committers[node_id]
        if node_id not in self._open:
            opening = getattr(committer, "open", None)
            if opening is not None:
                opening(self._contexts[node_id])
            self._open.add(node_id)
        return committer

    def _described(self, node_id: int) -> str:
        committer = self._committers[node_id]
        describe = getattr(committer, "describe", None)
        system = type(committer).__name__ if describe is None else describe()
        return f"{system} ({self._contexts[node_id].sink_name})"

    def _failure(self, node_id: int, times: int, error: Exception) -> CommitFailedError:
        tried = "once" if times == 1 else f"{times} times"
        return CommitFailedError(
            f"Committing to {self._described(node_id)} failed {tried}; the last error was "
            f"{type(error).__name__}: {error}",
            action="See that the system can be reached and takes what is written. Nothing is lost where the job has "
            "checkpoints: it commits first of all when it goes on.",
        )

    def clean_up(self) -> None:
        """What earlier attempts have staged and nobody will commit goes. An error here stops nothing."""
        for node_id, committer in self._committers.items():
            cleaning = getattr(committer, "clean_up", None)
            if cleaning is None or getattr(cleaning, "__func__", None) is Committer.clean_up:
                continue
            try:
                self._opened(node_id)
                cleaning()
            except Exception as error:
                _LOG.warning("What %s has left over could not be removed: %s", self._described(node_id), error)

    def close(self) -> None:
        """The job has ended."""
        for node_id in sorted(self._open):
            closing = getattr(self._committers[node_id], "close", None)
            try:
                if closing is not None:
                    closing()
            except Exception as error:
                _LOG.warning("Closing the committer of %s failed: %s", self._described(node_id), error)
        self._open.clear()


def _committers(plan: JobPlan) -> dict[int, Any]:
    found = {}
    for vertex in plan.vertices:
        for node in vertex.nodes:
            create = getattr(node.operator.function, "create_committer", None)
            committer = None if create is None else create()
            if committer is not None:
                found[node.id] = committer
    return found
