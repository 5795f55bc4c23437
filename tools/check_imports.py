"""Checks that the rooms of Millrace import one way only.

Reads the imports of every file under src/millrace and prints those that cross a line as `file:line`. Imports
under TYPE_CHECKING count too: a type is knowledge. What stands inside a function is a lazy import.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "millrace"

ANYTHING = frozenset({"*"})

# room -> the rooms that it may import. The root's own files count as the room "".
ALLOWED: dict[str, frozenset[str]] = {
    "": ANYTHING,
    "cli": ANYTHING,
    "compat": ANYTHING,
    "common": frozenset(),
    "util": frozenset({"common"}),
    "metrics": frozenset({"common"}),
    "state": frozenset({"common"}),
    "graph": frozenset({"common", "state"}),
    "formats": frozenset({"common"}),
    "runtime": frozenset({"common", "state", "graph", "formats"}),
    "datastream": frozenset({"common", "metrics", "util", "state", "graph", "formats", "runtime"}),
    "cep": frozenset({"common", "state", "graph", "runtime", "datastream"}),
    "table": frozenset({"common", "metrics", "util", "state", "graph", "formats", "runtime", "datastream"}),
    "queryable_state": frozenset({"common", "state"}),
    "driver": frozenset({"common", "metrics", "state", "graph", "runtime", "queryable_state"}),
    "spark": frozenset({"common", "state", "graph", "runtime", "driver"}),
    "cluster": frozenset({"common", "metrics", "state", "graph", "runtime", "driver", "spark"}),
    "testing": frozenset({"common", "metrics", "state", "graph", "runtime", "driver", "datastream"}),
}

# room -> further rooms that it may import inside functions: `execute()` reaches its executor so.
ALLOWED_LAZILY: dict[str, frozenset[str]] = {
    "datastream": frozenset({"spark"}),
    "table": frozenset({"spark"}),
}

# An outside package -> the only rooms that may import it, lazily or not.
RESERVED: dict[str, frozenset[str]] = {
    "pyspark": frozenset({"spark"}),
    "py4j": frozenset({"spark"}),
}


class Import(NamedTuple):
    """One imported module, in full, and where it stands."""

    module: str
    line: int
    lazy: bool


class ImportCollector(ast.NodeVisitor):
    """Gathers the imports of one file, remembering which stand inside a function."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.depth = 0
        self.found: list[Import] = []

    def _add(self, module: str, node: ast.stmt | ast.expr) -> None:
        self.found.append(Import(module, node.lineno, self.depth > 0))

    def _visit_function(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function  # noqa: N815 - ast's spelling

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._absolute(node)
        if base != PACKAGE:
            self._add(base, node)
            return
        for alias in node.names:  # `from millrace import state` imports a room.
            self._add(f"{PACKAGE}.{alias.name}", node)

    def visit_Call(self, node: ast.Call) -> None:
        """`importlib.import_module("millrace.spark")` is an import as well."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in {"import_module", "__import__"} and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                self._add(first.value, node)
        self.generic_visit(node)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parents = self.package.split(".")
        parents = parents[: len(parents) - node.level + 1]
        return ".".join([*parents, node.module] if node.module else parents)


def imports_of(file: Path, source_root: Path) -> list[Import]:
    package = ".".join(file.relative_to(source_root).parent.parts)
    collector = ImportCollector(package)
    collector.visit(ast.parse(file.read_text(encoding="utf-8"), str(file)))
    return collector.found


def room_of(file: Path, source_root: Path) -> str:
    """The room that a file lies in; `millrace/__init__.py` and its neighbours are in the room ""."""
    parts = file.relative_to(source_root / PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def objection(room: str, item: Import) -> str | None:
    """Why this room may not import this module, or None."""
    top, _, rest = item.module.partition(".")
    if top in RESERVED and room not in RESERVED[top]:
        return f"only {', '.join(sorted(RESERVED[top]))} may import {top}"
    if top != PACKAGE:
        return None
    target = rest.partition(".")[0]
    if room not in ALLOWED:
        return f"the room {room!r} has no line in tools/check_imports.py"
    allowed = ALLOWED[room]
    if target == room or target in allowed or allowed == ANYTHING:
        return None
    if target in ALLOWED_LAZILY.get(room, ()):
        return None if item.lazy else f"{room} may import {target} only inside a function"
    return f"{room} may not import {target or PACKAGE}"


def violations(source_root: Path) -> Iterator[str]:
    for file in sorted((source_root / PACKAGE).rglob("*.py")):
        room = room_of(file, source_root)
        for item in imports_of(file, source_root):
            reason = objection(room, item)
            if reason:
                yield f"{file}:{item.line}: {reason} ({item.module})"


def main() -> int:
    found = list(violations(ROOT / "src"))
    for line in found:
        print(line.removeprefix(f"{ROOT}/"))
    print(f"imports: {len(found)} violations" if found else "imports: one way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
