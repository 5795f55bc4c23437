"""`millrace run job.py`: runs a program on Spark."""

from __future__ import annotations

import argparse

from millrace.cli.options import Verbs, add_script_options, configuration_of, python_path_of
from millrace.cli.script import run_script


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser(
        "run", help="run a program on Spark", description="Runs a program on Spark.", allow_abbrev=False
    )
    add_script_options(parser)
    parser.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Run the script; it ends the process itself where it calls `sys.exit`."""
    from millrace.datastream._defaults import EnvironmentDefaults, use_environment_defaults

    with use_environment_defaults(EnvironmentDefaults(configuration_of(options))):
        run_script(options.script, options.args, python_path_of(options), options.pyflink)
    return 0
