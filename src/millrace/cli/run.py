"""`millrace run job.py`: runs a program on Spark."""

from __future__ import annotations

import argparse
from pathlib import Path

from millrace.cli.options import Verbs, add_script_options, configuration_of, python_path_of
from millrace.cli.script import run_script


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser(
        "run", help="run a program on Spark", description="Runs a program on Spark.", allow_abbrev=False
    )
    add_script_options(parser)
    parser.add_argument(
        "-s", "--fromSavepoint", dest="savepoint", metavar="PATH", help="begin from a savepoint or checkpoint"
    )
    parser.add_argument(
        "-n",
        "--allowNonRestoredState",
        "--allow-non-restored-state",
        dest="allow_non_restored",
        action="store_true",
        help="leave state behind for which the program has no operator",
    )
    parser.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Run the script; it ends the process itself where it calls `sys.exit`."""
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults

    configuration = configuration_of(options)
    if options.savepoint is not None:
        configuration.set_string("execution.state-recovery.path", _absolute(options.savepoint))
    if options.allow_non_restored:
        configuration.set_boolean("execution.state-recovery.ignore-unclaimed-state", True)
    with use_environment_defaults(EnvironmentDefaults(configuration)):
        run_script(options.script, options.args, python_path_of(options), options.pyflink)
    return 0


def _absolute(path: str) -> str:
    """A path as the program finds it, wherever it changes to; a URI as it is."""
    return path if "://" in path else str(Path(path).absolute())
