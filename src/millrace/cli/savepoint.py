"""`millrace savepoint inspect | diff | dispose`: looks into savepoints, and removes them."""

from __future__ import annotations

import argparse
import json

from millrace.cli.options import Verbs, add_script_options
from millrace.cli.savepoint_report import draw, report_of
from millrace.state.inspection import inspect_files
from millrace.state.savepoint_files import dispose_savepoint, open_savepoint


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser("savepoint", help="look into a savepoint, or remove it", allow_abbrev=False)
    actions = parser.add_subparsers(title="actions", metavar="<action>", required=True)
    inspect = actions.add_parser(
        "inspect",
        help="show what is in a savepoint or checkpoint",
        description="Shows the operators and their states, where the sources stand, and which files are damaged (then "
        "it ends with 1). All files are read, and nothing is unpickled.",
        allow_abbrev=False,
    )
    inspect.add_argument("path", metavar="PATH", help="a savepoint, a job's checkpoint directory or a .manifest file")
    inspect.add_argument("--json", action="store_true", help="as JSON")
    inspect.set_defaults(act=_inspect)
    _add_diff(actions)
    dispose = actions.add_parser(
        "dispose",
        help="remove a savepoint",
        description="Removes the directory of a savepoint, and refuses whatever is none.",
        allow_abbrev=False,
    )
    dispose.add_argument("path", metavar="PATH", help="the directory of a savepoint")
    dispose.set_defaults(act=_dispose)


def _add_diff(actions: Verbs) -> None:
    diff = actions.add_parser(
        "diff",
        help="show what a program would make of a savepoint",
        description="Shows what a restore would add, drop or change, without trying it: the program is run up to where "
        "it would start its job, and its functions are opened here to learn which state they ask for. Ends with 1 if "
        "the restore would fail.",
        allow_abbrev=False,
    )
    diff.add_argument("path", metavar="PATH", help="a savepoint, a job's checkpoint directory or a .manifest file")
    diff.add_argument(
        "-n",
        "--allow-non-restored-state",
        "--allowNonRestoredState",
        dest="allow_lost",
        action="store_true",
        help="state that has no operator in the program may be dropped",
    )
    diff.add_argument("--job", metavar="NAME", help="which job, for a program that has several")
    add_script_options(diff)
    diff.set_defaults(act=_diff)


def _inspect(options: argparse.Namespace) -> int:
    location, files, manifest, damaged = open_savepoint(options.path)
    found = inspect_files(files, manifest)
    report = report_of(manifest, location, found, [error.message for error in damaged])
    print(json.dumps(report, indent=1) if options.json else draw(report))
    return 1 if report["damaged"] else 0


def _diff(options: argparse.Namespace) -> int:
    from millrace.cli.savepoint_diff import diff

    return diff(options)


def _dispose(options: argparse.Namespace) -> int:
    count = dispose_savepoint(options.path)
    print(f"Removed {options.path} ({count} files).")
    return 0
