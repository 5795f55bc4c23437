"""The results of a job as an iterator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from ._execution import JobInterrupted, SubmittedJob, cancel, wait_for


class CloseableIterator:
    """The records of a stream while its job runs. Closing it ends the job; leaving a `with` block closes it.

        with stream.execute_and_collect() as results:
            for record in results:
                ...

    An error of the job is raised where its records end.
    """

    def __init__(self, job: SubmittedJob, node_id: int) -> None:
        self._job = job
        self._results = job.results(node_id)
        self._closed = False

    def next(self) -> Any:
        return next(self)

    def __next__(self) -> Any:
        if self._closed:
            raise StopIteration
        try:
            return next(self._results)
        except StopIteration:
            wait_for(self._job)
            raise
        except KeyboardInterrupt:
            self.close()
            raise JobInterrupted from None

    def __iter__(self) -> Iterator[Any]:
        return self

    def close(self) -> None:
        """End the job, unless it has ended, and wait for it to be gone."""
        if not self._closed:
            self._closed = True
            cancel(self._job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
