"""The options under `queryable-state.`: whether, where and for whom a job's state can be queried."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.common.config_options import ConfigOptions
from millrace.common.configuration import Configuration
from millrace.common.errors import ConfigurationError

# Whoever can reach another machine's port can try; against a guess a token must be long.
_MIN_TOKEN = 16

_PREFIX = "queryable-state"
_ENABLE = ConfigOptions.key(f"{_PREFIX}.enable").boolean_type().default_value(False)
_HOST = ConfigOptions.key(f"{_PREFIX}.server.host").string_type().default_value("127.0.0.1")
_PORT = ConfigOptions.key(f"{_PREFIX}.server.port").int_type().no_default_value()
# Flink's name for the same: a port, a range "9067-9077", or several of both with commas between.
_PORTS = ConfigOptions.key(f"{_PREFIX}.server.ports").string_type().no_default_value()
_TOKEN = ConfigOptions.key(f"{_PREFIX}.token").string_type().no_default_value()
_CONNECTIONS = ConfigOptions.key(f"{_PREFIX}.server.max-connections").int_type().default_value(64)
_REQUEST_SIZE = ConfigOptions.key(f"{_PREFIX}.server.max-request-size").memory_type().default_value(1024 * 1024)
_RATE = ConfigOptions.key(f"{_PREFIX}.server.max-requests-per-second").int_type().default_value(1000)


def _new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class QueryableStateOptions:
    """Where a server listens, and what it puts up with. `ports` are tried in order; 0 is any free one.

    >>> options = QueryableStateOptions()
    >>> options.host, options.ports, options.token == QueryableStateOptions().token
    ('127.0.0.1', (0,), False)
    """

    host: str = "127.0.0.1"
    ports: tuple[int, ...] = (0,)
    token: str = field(default_factory=_new_token, repr=False)
    max_connections: int = 64
    max_request_size: int = 1024 * 1024
    max_requests_per_second: int = 1000
    # A message that has begun must be there within `timeout` seconds; who says nothing for `idle` is let go.
    timeout: float = 10.0
    idle: float = 60.0

    def __post_init__(self) -> None:
        limits = {
            "queryable-state.server.max-connections": self.max_connections,
            "queryable-state.server.max-request-size": self.max_request_size,
            "queryable-state.server.max-requests-per-second": self.max_requests_per_second,
        }
        for key, limit in limits.items():
            if limit < 1:
                raise ConfigurationError(f"option {key!r}: {limit} is below 1", action="Give a positive number.")


def queryable_options_from(configuration: Mapping[str, str]) -> QueryableStateOptions | None:
    """What a configuration says about queries: None unless `queryable-state.enable` is true.

    >>> queryable_options_from({}) is None
    True
    >>> queryable_options_from({"queryable-state.enable": "true", "queryable-state.server.ports": "9067-9069"}).ports
    (9067, 9068, 9069)
    """
    settings = Configuration.from_dict(configuration)
    if not settings.get(_ENABLE):
        return None
    host, token = settings.get(_HOST), settings.get(_TOKEN)
    _judge_token(host, token)
    return QueryableStateOptions(
        host=host,
        ports=_ports(settings),
        token=_new_token() if token is None else token,
        max_connections=settings.get(_CONNECTIONS),
        max_request_size=settings.get(_REQUEST_SIZE),
        max_requests_per_second=settings.get(_RATE),
    )


def _judge_token(host: str, token: str | None) -> None:
    if token is not None and not token:
        raise ConfigurationError(f"option {_TOKEN.key!r} is empty", action="Give a token, or leave the option out.")
    if _is_loopback(host):
        return
    reach = f"option {_HOST.key!r}: {host!r} can be reached from other machines"
    if token is None:
        raise ConfigurationError(
            f"{reach}, and {_TOKEN.key!r} is not set",
            action=f"Set {_TOKEN.key} to a secret of your own, or listen on 127.0.0.1.",
        )
    if len(token) < _MIN_TOKEN:
        raise ConfigurationError(
            f"{reach}, and {_TOKEN.key!r} has only {len(token)} characters",
            action=f"Use a random token of at least {_MIN_TOKEN} characters.",
        )


def _is_loopback(host: str) -> bool:
    """Whether nobody outside of this machine can reach the address. A name counts by what it stands for."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError as error:
        raise ConfigurationError(
            f"option {_HOST.key!r}: {host!r} is no address of this machine: {error}", action="Use 127.0.0.1."
        ) from error
    addresses = [str(address[0]).partition("%")[0] for *_, address in found]
    return bool(addresses) and all(ipaddress.ip_address(address).is_loopback for address in addresses)


def _ports(settings: Configuration) -> tuple[int, ...]:
    if settings.contains(_PORT):
        return _port_range(str(settings.get(_PORT)), _PORT.key)
    if not settings.contains(_PORTS):
        return (0,)
    text = settings.get(_PORTS)
    return tuple(port for part in text.split(",") for port in _port_range(part, _PORTS.key))


def _port_range(text: str, key: str) -> tuple[int, ...]:
    found = re.fullmatch(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", text)
    if found is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if first <= last < 65_536:
            return tuple(range(first, last + 1))
    raise ConfigurationError(f"option {key!r}: {text!r} is no port", action="Write 9067, 9067-9077 or 9067,9070-9072.")
