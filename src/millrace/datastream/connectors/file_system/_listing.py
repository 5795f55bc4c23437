"""Which files there are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import NamedTuple

from millrace.common.errors import ProgramError

from ._storage import FoundFile, Storage, absolute, storage_of

__all__ = ["FileEnumeratorProvider", "FileSplitAssignerProvider"]

_MAGIC = frozenset("*?[")


class FileEnumerator(NamedTuple):
    """How files are looked for, and whether a file may be read by several readers at once."""

    splittable: bool = True
    recursive: bool = True


class FileEnumeratorProvider:
    """Ways to look for files. All of them walk through directories and skip names that begin with a dot or `_`.

    >>> FileEnumeratorProvider.default_non_splittable_file_enumerator().splittable
    False
    """

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumerator:
        """Large files are read by several readers, if their format can be cut. This is the default."""
        return FileEnumerator()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumerator:
        """Each file is read by one reader, in order."""
        return FileEnumerator(splittable=False)

    @staticmethod
    def flat_file_enumerator() -> FileEnumerator:
        """Directories within directories are left out."""
        return FileEnumerator(recursive=False)


class FileSplitAssignerProvider:
    """Who reads what. Readers take the parts in turn; Spark decides where they run."""

    @staticmethod
    def locality_aware_split_assigner() -> None:
        """Taken for the sake of programs that set it."""


class FilePaths:
    """The files, directories and patterns that a source reads, all of one file system."""

    def __init__(self, paths: tuple[str, ...], enumerator: FileEnumerator) -> None:
        if not paths or not all(isinstance(path, str) and path for path in paths):
            raise ProgramError(f"A file source needs at least one path, got {paths!r}.")
        self.locations = tuple(map(absolute, paths))
        self.enumerator = enumerator
        if len({location.partition("://")[0] for location in self.locations if "://" in location}) > 1 or (
            len({"://" in location for location in self.locations}) > 1
        ):
            raise ProgramError(
                "The paths of a file source lie in several file systems.",
                action="Make a source for each, and union the streams.",
            )

    @property
    def storage(self) -> Storage:
        """The file system."""
        return storage_of(self.locations[0])[0]

    def list(self) -> list[FoundFile]:
        """The files that there are now, each once, in no order."""
        found: dict[str, FoundFile] = {}
        for location in self.locations:
            storage, path = storage_of(location)
            for file in _files_at(storage, path, self.enumerator.recursive):
                found[file.path] = file
        return list(found.values())


def _files_at(storage: Storage, path: str, recursive: bool) -> list[FoundFile]:
    if not _MAGIC & set(path):
        info = storage.info(path)
        if info is not None:
            return [info]
        return [file for file in storage.files(path, recursive) if not _is_hidden(file.path, path)]
    return _matching(storage, path, recursive)


def _matching(storage: Storage, pattern: str, recursive: bool) -> list[FoundFile]:
    """The files that match, and those in directories that match."""
    parts = PurePosixPath(pattern).parts
    plain = next(index for index, part in enumerate(parts) if _MAGIC & set(part))
    root = str(PurePosixPath(*parts[:plain])) if plain else "."
    wanted = parts[plain:]
    found = []
    for file in storage.files(root, recursive=recursive or len(wanted) > 1):
        below = PurePosixPath(file.path).relative_to(root).parts
        deep_enough = len(below) == len(wanted) or (recursive and len(below) > len(wanted))
        if deep_enough and all(map(fnmatchcase, below, wanted)) and not _is_hidden(file.path, root):
            found.append(file)
    return found


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.removeprefix(root).split("/"))
