"""Runs a user's script as Python would, and tells its errors as if nothing stood around it."""

from __future__ import annotations

import contextlib
import runpy
import select
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from millrace.common.errors import MillraceError, ProgramError


class ScriptError(Exception):
    """An exception that a script did not catch."""

    def __init__(self, script: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.script = script
        self.cause = cause

    def show(self) -> None:
        """Print the traceback from the script's own first frame on."""
        trace = _from_script(self.cause.__traceback__, self.script)
        self.cause.__traceback__ = trace
        traceback.print_exception(self.cause)


def run_script(script: str, arguments: Sequence[str], python_path: Sequence[str], pyflink: bool) -> None:
    """Run a script as `__main__`. Raises MillraceError, ScriptError, SystemExit, KeyboardInterrupt or, where
    nobody reads what it writes, BrokenPipeError."""
    file = Path(script).absolute()
    if not file.exists():
        raise ProgramError(f"There is no script {script!r}.", action=f"Look for it in {file.parent}.")
    if pyflink:
        _answer_pyflink()
    with _as_main(file, arguments, python_path):
        try:
            runpy.run_path(str(file), run_name="__main__")
        except MillraceError:
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _nobody_reads():
                raise
            raise ScriptError(str(file), error) from None


def _nobody_reads() -> bool:
    """Whether it was the program's own output that broke."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _answer_pyflink() -> None:
    try:
        from millrace.compat.pyflink import install

        install()
    except ImportError as error:  # The real PyFlink is in the way; the message says what to do.
        raise ProgramError(str(error)) from None


@contextlib.contextmanager
def _as_main(file: Path, arguments: Sequence[str], python_path: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and `sys.path` as the script would find them."""
    argv, search = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path[:0] = [str(file.resolve().parent), *python_path]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, search


def _from_script(trace: TracebackType | None, path: str) -> TracebackType | None:
    """A traceback without the frames before the script; none at all where the script was not even begun."""
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace
