"""Prints how long the functions and files of src/millrace are, and fails where they pass the hard limits.

A function's length is its lines of code: its docstring, comments and blank lines do not count. A nested
function counts for itself and for the function around it. A file's length is all of its lines.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

LONG_FUNCTION = 60  # A function past this no longer fits on a screen.
MAX_LONG_SHARE = 0.02
MAX_FUNCTION_P90 = 30
MAX_FILE_P90 = 500
MAX_FILE = 1000
WANTED_FUNCTION_MEDIAN = 8

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Length(NamedTuple):
    lines: int
    where: str


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least this share of the values does not exceed; 0 of nothing."""
    if not values:
        return 0
    ordered = sorted(values)
    rank = -(-len(ordered) * share // 1)  # Rounded up.
    return ordered[max(int(rank), 1) - 1]


def docstring_lines(node: FunctionNode) -> range:
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    first = node.body[0]
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)


def code_lines(node: FunctionNode, source: Sequence[str]) -> int:
    """How many lines of the function hold code."""
    skipped = docstring_lines(node)
    numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return sum(1 for number in numbers if number not in skipped and is_code(source[number - 1]))


def is_code(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def functions_of(file: Path) -> Iterator[Length]:
    text = file.read_text(encoding="utf-8")
    source = text.splitlines()
    for node in ast.walk(ast.parse(text, str(file))):
        if isinstance(node, FunctionNode):
            yield Length(code_lines(node, source), f"{file.relative_to(ROOT)}:{node.lineno} {node.name}")


def file_length(file: Path) -> Length:
    return Length(len(file.read_text(encoding="utf-8").splitlines()), str(file.relative_to(ROOT)))


class Figures:
    """What the budgets are about."""

    def __init__(self, functions: Sequence[Length], files: Sequence[Length]) -> None:
        lengths = [item.lines for item in functions]
        self.count = len(functions)
        self.long = sorted((item for item in functions if item.lines > LONG_FUNCTION), reverse=True)
        self.long_share = len(self.long) / (len(functions) or 1)
        self.median = percentile(lengths, 0.5)
        self.p90 = percentile(lengths, 0.9)
        self.files = [item for item in files if item.lines]
        self.file_sizes = [item.lines for item in self.files]
        self.file_p90 = percentile(self.file_sizes, 0.9)

    def show(self) -> None:
        print(
            f"functions: {self.count}, median {self.median} (wanted <= {WANTED_FUNCTION_MEDIAN}), "
            f"p90 {self.p90}, {self.long_share:.1%} over {LONG_FUNCTION} lines"
        )
        print(
            f"files: {len(self.files)}, median {percentile(self.file_sizes, 0.5)}, p90 {self.file_p90}, "
            f"longest {max(self.file_sizes, default=0)}"
        )
        for item in self.long:
            print(f"  {item.lines} lines: {item.where}")

    def over_budget(self) -> Iterator[str]:
        for item in self.files:
            if item.lines > MAX_FILE:
                yield f"{item.where} has {item.lines} lines, limit {MAX_FILE}"
        if self.long_share > MAX_LONG_SHARE:
            share = f"{self.long_share:.1%} of the functions"
            yield f"{share} are over {LONG_FUNCTION} lines, limit {MAX_LONG_SHARE:.0%}"
        if self.p90 > MAX_FUNCTION_P90:
            yield f"p90 of the functions is {self.p90} lines, limit {MAX_FUNCTION_P90}"
        if self.file_p90 > MAX_FILE_P90:
            yield f"p90 of the files is {self.file_p90} lines, limit {MAX_FILE_P90}"


def main() -> int:
    sources = sorted((ROOT / "src").rglob("*.py"))
    functions = [length for file in sources for length in functions_of(file)]
    figures = Figures(functions, [file_length(file) for file in sources])
    figures.show()
    over = list(figures.over_budget())
    for line in over:
        print(f"over budget: {line}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
