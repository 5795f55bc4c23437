"""The half of the file sink that lives in the driver: it makes staged files visible, whole and once.

    alone       rename staged → final
    compacted   merge the staged files into another staged one → rename it → delete the staged files

The name of a merged file is made of the names of its parts. So whoever commits a second time, after a crash at any of
these steps, looks for the same names and finds what has been done.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from millrace.common.errors import MillraceError

from ..base import Committer, CommitterContext
from ._storage import storage_of, without_credentials
from ._writer import STAGING, FileSinkSettings, staging_folder

_LOG = logging.getLogger("millrace.job")

Part = dict[str, Any]


class StagedFileLostError(MillraceError):
    """A file that a checkpoint promises is neither staged nor visible."""

    default_code = "MR-2010"


class FileCommitter(Committer):
    """Commits the files of one sink."""

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings
        self._folder = ""

    def open(self, context: CommitterContext) -> None:
        self._folder = staging_folder(context.job_id, context.sink_uid)

    def describe(self) -> str:
        return f"files in {without_credentials(self._settings.location)}"

    def commit(self, committables: list[Any]) -> None:
        self._storage, self._base = storage_of(self._settings.location)
        if self._settings.strategy is None:
            for part in committables:
                self._publish(part)
            return
        groups = list(self._groups(committables))
        with ThreadPoolExecutor(self._settings.strategy.compact_threads, "millrace-compaction") as threads:
            for done in [threads.submit(self._merge, group) for group in groups]:
                done.result()

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _publish(self, part: Part) -> None:
        try:
            self._storage.rename(self._full(part["staged"]), self._full(part["final"]))
        except FileNotFoundError:
            if not self._is_visible(part):
                self._miss(part)

    def _is_visible(self, part: Part) -> bool:
        return self._exists(part["final"])

    def _exists(self, path: str) -> bool:
        return self._storage.info(self._full(path)) is not None

    def _miss(self, part: Part) -> None:
        """A file is neither staged nor visible. Where another job has staged it, that job has also made it visible,
        before it ended, and somebody has taken it away since."""
        if not part["staged"].startswith(f"{self._folder}/"):
            _LOG.warning("%s of %s was committed by another job, and is gone", part["final"], self.describe())
            return
        raise StagedFileLostError(
            f"The file {part['staged']} of {self.describe()} is gone, and {part['final']} is not there either.",
            action="Leave finished files where they are until the next checkpoint, and .staging to Millrace. To go on "
            "without the file's records, put an empty file in its place.",
        )

    # --- compaction ---------------------------------------------------------------------------------------------

    def _groups(self, parts: list[Part]) -> Iterator[list[Part]]:
        """What becomes one file: neighbours in a bucket, until they are large enough."""
        strategy, compactor = self._settings.strategy, self._settings.compactor
        assert strategy is not None
        assert compactor is not None
        buckets: dict[str, list[Part]] = {}
        for part in parts:
            bucket = part["final"].rpartition("/")[0]
            group = buckets.setdefault(bucket, [])
            if group and (part["size"] >= strategy.size_threshold or len(group) == compactor.most_files):
                yield buckets.pop(bucket)
                group = buckets.setdefault(bucket, [])
            group.append(part)
            if sum(each["size"] for each in group) >= strategy.size_threshold:
                yield buckets.pop(bucket)
        yield from buckets.values()

    def _merge(self, group: list[Part]) -> None:
        """Make the group visible as one file."""
        # Where compaction was switched on after a crash, some may have been made visible one by one.
        parts = [part for part in group if not self._is_visible(part)]
        if len(parts) < 2:
            for part in parts:
                self._publish(part)
            return
        final = self._merged_name(parts)
        if not self._exists(final):
            there = [part for part in parts if self._exists(part["staged"])]
            for part in parts:
                if part not in there:
                    self._miss(part)
            if there:
                self._storage.rename(self._write_merged(there), self._full(final))
        for part in parts:
            self._storage.delete(self._full(part["staged"]))

    def _merged_name(self, parts: list[Part]) -> str:
        names = self._settings.names
        digest = hashlib.sha256("\n".join(part["final"] for part in parts).encode()).hexdigest()[:24]
        bucket, slash, _ = parts[0]["final"].rpartition("/")
        return f"{bucket}{slash}compacted-{names.get_part_prefix()}-{digest}{names.get_part_suffix()}"

    def _write_merged(self, parts: list[Part]) -> str:
        assert self._settings.compactor is not None
        staged = self._full(f"{parts[0]['staged']}-{uuid.uuid4().hex}.merged")
        with contextlib.ExitStack() as opened:
            inputs = [opened.enter_context(self._storage.open(self._full(part["staged"]))) for part in parts]
            stream = self._storage.create(staged)
            opened.callback(stream.close)
            self._settings.compactor.compact(inputs, stream)
            self._storage.finish(stream)
        return staged

    # --- what is left over --------------------------------------------------------------------------------------

    def clean_up(self) -> None:
        storage, base = storage_of(self._settings.location)
        for file in storage.files(f"{base}/{self._folder}", recursive=True):
            storage.delete(file.path)
        storage.remove_if_empty(f"{base}/{self._folder}")
        storage.remove_if_empty(f"{base}/{STAGING}")
