"""Kafka's properties for its two clients: the Java one, which Spark uses, and librdkafka, which Python uses.

A program sets them once, by Kafka's own names. Logins are the one thing that the clients spell in different ways:
either spelling is taken, and translated for the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from millrace.common.errors import ConfigurationError

_SECRET = re.compile(r"password|secret|jaas|token|credential|\bkey\.pem|ssl\.key", re.IGNORECASE)

# What the Java client knows and librdkafka does not; it has no meaning there, or one of its own.
_JAVA_ONLY = re.compile(
    r"key\.(de)?serializer|value\.(de)?serializer|buffer\.memory|batch\.size|max\.block\.ms|default\.api\.timeout\.ms"
    r"|max\.poll\.records|partition\.discovery\.interval\.ms|commit\.offsets\.on\.checkpoint|fetch\.max\.wait\.ms"
    r"|auto\.offset\.reset|enable\.auto\.commit|client\.id\.prefix|sasl\.jaas\.config|request\.timeout\.ms|retries"
)
_RENAMED = {"max.request.size": "message.max.bytes", "sasl.mechanism": "sasl.mechanisms"}

# What librdkafka knows and the Java client does not.
_LIBRDKAFKA_ONLY = {"sasl.username", "sasl.password", "sasl.mechanisms"}

# What is not for the consumers of Spark: Millrace decides it, or it is a setting of ours.
_NOT_FOR_SPARK = {
    "auto.offset.reset",
    "client.id.prefix",
    "commit.offsets.on.checkpoint",
    "enable.auto.commit",
    "group.id",
    "key.deserializer",
    "partition.discovery.interval.ms",
    "value.deserializer",
}
_JAAS_FIELD = re.compile(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")


def checked_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Properties as Kafka takes them: all of them text."""
    for key in properties:
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"a property of Kafka has a name, got {key!r}")
    return {key: ("true" if value else "false") if isinstance(value, bool) else str(value)
            for key, value in properties.items()}


def secrets_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The values that must not be seen.

    >>> secrets_of({"sasl.password": "hunter2", "sasl.username": "me"})
    ('hunter2',)
    """
    public = (".location", ".type")
    found = [value for key, value in properties.items() if _SECRET.search(key) and not key.endswith(public)]
    found += [value for _, value in _login(properties.get("sasl.jaas.config", ""))[1:]]
    return tuple(dict.fromkeys(filter(None, found)))


def for_spark(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of Spark's consumers, without the prefix that Spark wants.

    >>> for_spark({"bootstrap.servers": "a:1", "group.id": "g"})
    {'bootstrap.servers': 'a:1'}
    """
    taken = {k: v for k, v in properties.items() if k not in _NOT_FOR_SPARK | _LIBRDKAFKA_ONLY}
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if mechanism is not None:
        taken["sasl.mechanism"] = mechanism
    if "sasl.username" in properties and "sasl.jaas.config" not in properties:
        taken["sasl.jaas.config"] = _jaas(mechanism or "", properties["sasl.username"], properties["sasl.password"])
    return taken


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the clients in Python.

    >>> for_librdkafka({"bootstrap.servers": "a:1", "key.serializer": "X", "max.request.size": "5"})
    {'bootstrap.servers': 'a:1', 'message.max.bytes': '5'}
    """
    taken = {_RENAMED.get(k, k): v for k, v in properties.items() if not _JAVA_ONLY.fullmatch(k)}
    for name, value in _login(properties.get("sasl.jaas.config", "")):
        taken.setdefault(f"sasl.{name}", value)
    return taken


def _jaas(mechanism: str, username: str, password: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    name, word = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (username, password))
    return f'org.apache.kafka.common.security.{module} required username="{name}" password="{word}";'


def _login(jaas: str) -> list[tuple[str, str]]:
    """The user name and the password of a JAAS configuration."""
    fields = dict(_JAAS_FIELD.findall(jaas))
    return [(name, re.sub(r"\\(.)", r"\1", fields[name])) for name in ("username", "password") if name in fields]
