"""`millrace state query`: asks a running job what a state holds under a key."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import msgspec

from millrace.cli.options import Verbs
from millrace.common.errors import ProgramError
from millrace.common.typeinfo import TypeInformation, Types

_TOKEN_VARIABLE = "MILLRACE_QUERYABLE_STATE_TOKEN"  # noqa: S105 - its name, not its value


def add_to(verbs: Verbs) -> None:
    """Make the verb known."""
    parser = verbs.add_parser("state", help="look into a job's state", description="Looks into a job's state.")
    actions = parser.add_subparsers(title="commands", metavar="<command>", required=True)
    query = actions.add_parser(
        "query",
        help="ask a running job for one key of a queryable state",
        description="Prints what a queryable state holds under a key, as JSON where it can be.",
        allow_abbrev=False,
    )
    query.add_argument("--host", default="127.0.0.1", help="where the job's driver listens (127.0.0.1)")
    query.add_argument("--port", type=int, required=True, metavar="N", help="the port of its queryable state")
    query.add_argument("--token", help=f"its token; better in the environment, as {_TOKEN_VARIABLE}")
    query.add_argument(
        "--key-type",
        choices=("string", "long", "json"),
        default="string",
        help="how the key is read (string); json makes tuples of lists",
    )
    query.add_argument("--namespace", metavar="JSON", help="for state that is kept by window or namespace")
    query.add_argument("--consistency", choices=("checkpoint", "epoch"), default="checkpoint", help="as of when")
    query.add_argument("--timeout", type=float, default=30.0, metavar="seconds", help="how long to wait (30)")
    query.add_argument("job", help="the job's id")
    query.add_argument("name", help="the name that the state is queried by")
    query.add_argument("key", help="the key")
    query.set_defaults(act=act)


def act(options: argparse.Namespace) -> int:
    """Ask, and print the value."""
    from millrace.queryable_state import QueryableStateClient

    token = options.token or os.environ.get(_TOKEN_VARIABLE)
    if not token:
        raise ProgramError("A query needs the server's token.", action=f"Set {_TOKEN_VARIABLE}, or give --token.")
    key, key_type = _key(options.key, options.key_type)
    namespace = None if options.namespace is None else _json("namespace", options.namespace)
    with QueryableStateClient(options.host, options.port, token=token, timeout=options.timeout) as client:
        asked = client.get_kv_state(
            options.job, options.name, key, key_type, namespace=namespace, consistency=options.consistency
        )
        print(shown(asked.result()))
    return 0


def _key(text: str, kind: str) -> tuple[Any, TypeInformation | None]:
    if kind == "string":
        return text, Types.STRING()
    key = _json("key", text)
    if kind == "long" and type(key) is not int:
        raise ProgramError(f"The key {text!r} is no number.", action="Leave out --key-type, or give a number.")
    return key, None


def _json(what: str, text: str) -> Any:
    try:
        return _with_tuples(json.loads(text))
    except ValueError as error:
        raise ProgramError(f"The {what} {text!r} is not JSON: {error}", action="Quote strings: '\"ann\"'.") from error


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def shown(value: Any) -> str:
    """A value as JSON, and what JSON has no form for as Python shows it.

    >>> print(shown({"a": [1, None], (1, 2): b"x"}))
    {"a":[1,null],"(1, 2)":"eA=="}
    """
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError):
        return repr(value)
