"""pdb for the functions of a program: what is Millrace's stays out of sight."""

from __future__ import annotations

import bdb
import pdb  # noqa: T100 - it is what --pdb starts
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import millrace

_OWN = str(Path(millrace.__file__).parent)
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class DebuggerLeft(BaseException):
    """The user has left the debugger. Nothing that handles errors catches it."""


class FunctionDebugger(pdb.Pdb):
    """Stops when one of the program's own functions is called, `codes` left out, and steps through these only."""

    def __init__(self, codes: Iterable[CodeType] = ()) -> None:
        super().__init__(skip=["millrace", "millrace.*", "cloudpickle.*"])
        self._left_out = set(codes)
        self._waits = False
        self._entering = False

    def arm(self) -> None:
        """Stop in the next such call of this thread."""
        self.reset()
        self.botframe: FrameType | None = sys._getframe(1)
        self.set_step()
        self._waits = True
        sys.settrace(self.trace_dispatch)

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Leaving is no error of the function that runs."""
        try:
            return super().trace_dispatch(frame, event, arg)
        except bdb.BdbQuit:
            sys.settrace(None)
            raise DebuggerLeft from None

    def stop_here(self, frame: FrameType) -> bool:
        """At first only in a function of the program."""
        if not self._waits:
            return bool(super().stop_here(frame))
        if not is_of_the_program(frame.f_code) or frame.f_code in self._left_out:
            return False
        self._waits, self._entering = False, True
        return True

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        """The first stop is at the function's first line, where its arguments have their values."""
        if self._entering:
            self._entering = False
        else:
            super().user_call(frame, argument_list)


def is_of_the_program(code: CodeType) -> bool:
    """Whether this is neither Millrace's nor a library's."""
    file = code.co_filename
    return not file.startswith((_OWN, "<", *_LIBRARIES))


def post_mortem(error: BaseException) -> None:
    """Look at where an exception was raised, from the program's first frame to its last."""
    trace = program_part(error.__traceback__)
    if trace is None:
        print("There is no frame to look at.")
        return
    debugger = FunctionDebugger()
    debugger.reset()
    debugger.interaction(None, trace)


def program_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without Millrace's frames before the program's first one and behind its last; all of it where the
    program has none."""
    frames: list[TracebackType] = []
    step = trace
    while step is not None:
        frames.append(step)
        step = step.tb_next
    theirs = [index for index, item in enumerate(frames) if not _is_own(item.tb_frame.f_code)]
    if not theirs:
        return trace
    part: TracebackType | None = None
    for item in reversed(frames[theirs[0] : theirs[-1] + 1]):
        part = TracebackType(part, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return part


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith((_OWN, "<frozen"))


def codes_of(functions: Iterable[Callable[..., Any]]) -> list[CodeType]:
    """The code of those that are written in Python."""
    return [code for function in functions if (code := getattr(function, "__code__", None)) is not None]
