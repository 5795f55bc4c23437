"""`millrace <verb>`: finds the verb's module and turns what goes wrong into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from millrace.cli import doctor, info, replay, run, savepoint, state
from millrace.cli.script import ScriptError
from millrace.common.errors import MillraceError

# What a shell expects of a program that SIGINT has ended: 128 + 2.
_INTERRUPTED = 130

_VERBS = (run, info, savepoint, replay, state, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the result is the process's exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except KeyboardInterrupt:
        print("Job cancelled.", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        _give_up_output()
        return 1
    except ScriptError as error:
        error.show()
        return 1
    except MillraceError as error:
        print(error, file=sys.stderr)
        return 1


def _give_up_output() -> None:
    """Nobody reads on (`millrace info ... | head`): keep Python from complaining about it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millrace", description="Flink's programming model on Spark.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"millrace {_version()}")
    verbs = parser.add_subparsers(title="commands", metavar="<command>", required=True)
    for verb in _VERBS:
        verb.add_to(verbs)
    return parser


def _version() -> str:
    try:
        return metadata.version("millrace")
    except metadata.PackageNotFoundError:
        return "(source tree, not installed)"


if __name__ == "__main__":
    sys.exit(main())
