"""What crosses the network between a client and a server of queryable state.

Both ways go frames: a head (`_HEAD`: magic, version, length), then a message in MessagePack. A client
sends a `Query` and reads an `Answer` or a `Refusal`, then it may send the next. Values are columns, encoded by their
type information or as plain values; there is no place for a pickle.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, Literal

import msgspec

from millrace.queryable_state.errors import BadRequestError, QueryableStateError

Consistency = Literal["checkpoint", "epoch"]

# magic, version of the protocol, three bytes of nothing, length of the message (little-endian)
_HEAD = struct.Struct("<4sB3xI")
_MAGIC = b"MRQS"
_VERSION = 1

# Larger than any state that is worth asking for by key, small enough to hold a few at once.
MAX_ANSWER = 64 * 1024 * 1024


class WireColumn(msgspec.Struct, frozen=True):
    """Values: by their type, described as JSON, or plain (None, bool, int, float, str, bytes)."""

    encoding: Literal["typed", "plain"]
    type: dict[str, Any] | None
    data: bytes


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for what one state holds under one key. `key` and `namespace` are columns of one value."""

    token: str
    job: str
    name: str
    key: WireColumn
    namespace: WireColumn | None = None
    consistency: Consistency = "checkpoint"

    def __repr__(self) -> str:
        return f"Query(job={self.job!r}, name={self.name!r})"  # Without the token: this may end up in a log.


class Answer(msgspec.Struct, frozen=True, tag=True):
    """What a state of some kind holds, by role (`value`, `item`, `entry`), as of the end of an epoch."""

    kind: Literal["value", "list", "map", "reducing", "aggregating"]
    columns: dict[str, WireColumn]
    epoch: int


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Why there is no answer."""

    code: str
    message: str
    action: str | None = None

    @staticmethod
    def of(error: QueryableStateError) -> Refusal:
        return Refusal(error.code, error.message, error.action)


Reply = Answer | Refusal

_encoder = msgspec.msgpack.Encoder()
_queries = msgspec.msgpack.Decoder(Query)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Query | Answer | Refusal) -> bytes:
    """A message as the bytes of its frame."""
    body = _encoder.encode(message)
    return _HEAD.pack(_MAGIC, _VERSION, len(body)) + body


def decode_query(body: bytes) -> Query:
    """The query in a frame; `BadRequestError` if there is none."""
    try:
        return _queries.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadRequestError(f"the request is not understood: {error}") from error


def decode_reply(body: bytes) -> Reply:
    """The reply in a frame; `BadRequestError` if there is none."""
    try:
        return _replies.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadRequestError(f"the reply is not understood: {error}") from error


def receive(connection: socket.socket, limit: int, idle: float, timeout: float) -> bytes | None:
    """The next message: None if the other side has closed, or said nothing for `idle` seconds.

    A frame that has begun must be complete within `timeout` seconds, however it trickles: else `TimeoutError`.
    Nothing is read of a message beyond the limit.
    """
    connection.settimeout(idle)
    try:
        first = connection.recv(1)
    except TimeoutError:
        return None
    if not first:
        return None
    deadline = time.monotonic() + timeout
    magic, version, length = _HEAD.unpack(first + _exactly(connection, _HEAD.size - 1, deadline))
    if magic != _MAGIC or version != _VERSION:
        raise BadRequestError(
            "this is not the protocol of queryable state, or another version of it",
            action="Use the client of the same release as the server.",
        )
    if length > limit:
        raise BadRequestError(f"a message of {length} bytes is larger than the {limit} bytes that are taken")
    return _exactly(connection, length, deadline)


def _exactly(connection: socket.socket, length: int, deadline: float) -> bytes:
    parts = []
    while length:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the message came too slowly")
        connection.settimeout(left)
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise ConnectionResetError("the connection was closed within a message")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def send(connection: socket.socket, frame: bytes, timeout: float) -> None:
    """Send a whole frame within `timeout` seconds."""
    connection.settimeout(timeout)
    connection.sendall(frame)
