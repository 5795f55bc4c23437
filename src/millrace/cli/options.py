"""The options that all verbs with a script share, under the names that Flink's command line has."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from millrace.common.configuration import Configuration

# What `add_subparsers` gives; argparse does not export the class.
Verbs = Any


def add_script_options(parser: argparse.ArgumentParser) -> None:
    """The script with its arguments, and what decides about the environments that it makes."""
    parser.add_argument("-p", "--parallelism", type=_parallelism, metavar="N", help="the default parallelism")
    parser.add_argument("--master", metavar="URL", help="Spark's master (local[*])")
    add_environment_options(parser)
    parser.add_argument("script", metavar="job.py", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="the program's own arguments")


def add_environment_options(parser: argparse.ArgumentParser) -> None:
    """What decides about the environments that a script makes, and about what it finds, without Spark."""
    parser.add_argument("--pyflink", action="store_true", help="answer the script's `import pyflink...`")
    parser.add_argument(
        "-D",
        dest="settings",
        action="append",
        default=[],
        type=_setting,
        metavar="key=value",
        help="a setting of Millrace or Spark; may be repeated",
    )
    parser.add_argument(
        "-pyfs",
        "--pyFiles",
        dest="python_files",
        default="",
        metavar="paths",
        help="modules, directories, zips and wheels that the script imports, with commas between",
    )


def configuration_of(options: argparse.Namespace) -> Configuration:
    """What the options say about every environment of the script."""
    configuration = Configuration()
    for key, value in options.settings:
        configuration.set_string(key, value)
    master, parallelism = getattr(options, "master", None), getattr(options, "parallelism", None)
    if master is not None:
        configuration.set_string("spark.master", master)
    if parallelism is not None:
        configuration.set_integer("parallelism.default", parallelism)
    return configuration


def python_path_of(options: argparse.Namespace) -> list[str]:
    """Where the script finds what `-pyfs` names: a single module is found through its directory."""
    files = [Path(path).absolute() for path in options.python_files.split(",") if path]
    return [str(file.parent if file.suffix == ".py" else file) for file in files]


def _parallelism(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"the parallelism is a number from 1 on, not {text!r}")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"a setting is written key=value, not {text!r}")
    return key, value
