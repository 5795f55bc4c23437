"""PyFlink 2.3's public names as a flat list, from the JSON files in pyflink_2_3/."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "pyflink_2_3"


class Item(NamedTuple):
    """One PyFlink name: a module, a package's export, a class, a member, a constant or a function."""

    name: str  # In full, without "pyflink.": "common.types.Row.as_dict".
    module: str  # "common.types"; a package is named without "__init__".
    path: tuple[str, ...]  # Inside the module: ("Row", "as_dict"); empty for the module itself.
    kind: str  # "module", "export", "class", "callable" or "constant".
    params: str = ""  # Of a callable, as in a def, without self and cls.

    @property
    def parent(self) -> str:
        return self.name.rpartition(".")[0]


def read_inventory(top: str) -> list[Item]:
    """All names below ``pyflink.<top>``; what holds others comes before them."""
    modules = json.loads((FOLDER / f"{top}.json").read_text(encoding="utf-8"))
    return [item for module, entries in modules.items() for item in _of_module(module, entries)]


def _of_module(key: str, entries: dict[str, Any]) -> Iterator[Item]:
    module = key.removesuffix(".__init__")
    yield Item(module, module, (), "module")
    for name, entry in entries.items():
        if name == "__all__":
            yield from (Item(f"{module}.{export}", module, (export,), "export") for export in entry)
        else:
            yield from _of_entry(module, (name,), entry)


def _of_entry(module: str, path: tuple[str, ...], entry: dict[str, Any]) -> Iterator[Item]:
    name = ".".join((module, *path))
    kind = entry.get("kind")
    if kind == "constant":
        yield Item(name, module, path, "constant")
    elif kind == "class":
        yield Item(name, module, path, "class")
        for member, inner in entry["members"].items():
            yield from _of_entry(module, (*path, member), inner)
    else:
        yield Item(name, module, path, "callable", entry.get("params", ""))
