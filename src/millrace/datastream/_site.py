"""The line of the user's program that is being executed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_MILLRACE = str(Path(__file__).absolute().parents[1]) + os.sep


def call_site() -> str:
    """`file:line` of the innermost frame outside Millrace; empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_MILLRACE):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
