"""How a column of values becomes bytes, and what a reader may do to get them back.

Four encodings: `typed` (by the type information that the descriptor names), `int64`, `plain` (MessagePack, for
untyped columns that hold nothing but None, bools, 64-bit ints, floats, strings and bytes) and `pickle` for the rest.
The reader goes by what the file says, never by what it hopes; a pickle is loaded only where that was allowed. What was
written as another type than the program declares is read as it was written and then converted (`evolution`).
"""

from __future__ import annotations

import importlib
import pickle
import struct
import sys
from array import array
from typing import Any, NamedTuple, Protocol

import msgspec

from millrace.common import pickling
from millrace.common.errors import MillraceError, TypeMismatchError
from millrace.common.typeinfo import (
    ResolveClass,
    TypeInformation,
    Types,
    classes_named,
    declared_classes,
    stand_in_classes,
    type_from_json,
)
from millrace.state.conversions import KEEP_THE_TYPE, coerced, past_none
from millrace.state.errors import (
    StateCorruptedError,
    StateEncodingError,
    StateError,
    StatePickleError,
    StateTypeError,
)
from millrace.state.evolution import Evolution, compare_types

# The setting that lets a savepoint's pickles be loaded.
ALLOW_PICKLE = "state.savepoint.allow-pickle"

# What must keep equality and hash when its type changes, and how messages speak of it.
KEY_ROLES = {"key": "the key", "ns": "the namespace", "entry": "the key of the map"}

_PLAIN_TYPES = frozenset({type(None), bool, int, float, str, bytes})
_MASK_LENGTH = struct.Struct("<I")


class BatchType(Protocol):
    """The part of a `TypeInformation` that state needs; a window's type may bring its own."""

    def to_json(self) -> dict[str, Any]: ...

    def uses_pickle(self) -> bool: ...

    def coerce_batch(self, values: list[Any], /) -> list[Any]: ...

    def encode_batch(self, values: list[Any], /) -> bytes: ...

    def decode_batch(self, data: bytes, /) -> list[Any]: ...


class EncodedColumn(NamedTuple):
    """Bytes of a column and how they were made."""

    encoding: str
    type_json: dict[str, Any] | None
    pickled: bool
    data: bytes | memoryview


class ColumnCodec:
    """Encodes the columns of one role (keys, values, ...) of a state. Without a type: plain, else pickle."""

    def __init__(self, type_info: BatchType | None = None) -> None:
        self.type_info = type_info
        self._type_json = None if type_info is None else type_info.to_json()

    @property
    def type_json(self) -> dict[str, Any] | None:
        return self._type_json

    def encode(self, values: list[Any]) -> tuple[list[Any], EncodedColumn]:
        """The values as a reader will see them (the same list where nothing changes), and their bytes."""
        if self.type_info is None:
            return values, _encode_untyped(values)
        # Not `None in values`: that asks each value whether it equals None, and an array answers with an array.
        has_none = type(None) in set(map(type, values))
        present = [value for value in values if value is not None] if has_none else values
        coerced = self._coerce(present)
        data = self.type_info.encode_batch(coerced)
        column = EncodedColumn("typed", self._type_json, self.type_info.uses_pickle(), _mask(values, present) + data)
        if coerced is present:
            return values, column
        return (coerced if present is values else _fill(values, coerced)), column

    def _coerce(self, values: list[Any]) -> list[Any]:
        assert self.type_info is not None
        try:
            return self.type_info.coerce_batch(values)
        except TypeMismatchError as error:
            raise StateEncodingError(
                str(error.args[0]),
                action="Declare the state's type to fit its values, or convert them before update().",
            ) from error

    def decode(self, column: EncodedColumn, *, allow_pickle: bool, role: str = "value") -> list[Any]:
        """The values of a column that this, or a similar, codec wrote. `role` says what they are to the state."""
        if column.pickled and not allow_pickle:
            raise _pickle_refused()
        try:
            return self._decode(column, allow_pickle, role)
        except MillraceError:
            raise
        except Exception as error:
            raise StateCorruptedError(
                f"a column cannot be decoded as {column.encoding}: {type(error).__name__}: {error}"
            ) from error

    def _decode(self, column: EncodedColumn, trusted: bool, role: str) -> list[Any]:
        if column.encoding == "typed":
            return self._decode_typed(column, trusted, role)
        if column.encoding == "int64":
            return decode_int64(column.data)
        values: list[Any]
        if column.encoding == "plain":
            values = msgspec.msgpack.decode(column.data, type=list)
        elif column.encoding == "pickle" and column.pickled:
            values = pickle.loads(column.data)
        else:
            raise StateCorruptedError(f"unknown encoding {column.encoding!r}")
        own = self.type_info
        return values if own is None else past_none(lambda given: coerced(own, given, key=role in KEY_ROLES), values)

    def _decode_typed(self, column: EncodedColumn, trusted: bool, role: str) -> list[Any]:
        mask, data = _unmask(column.data)
        own = self.type_info
        if own is not None and column.type_json == self._type_json and (trusted or not own.uses_pickle()):
            values = own.decode_batch(data)
        elif own is None:
            resolve = import_class if trusted else _refuse_class
            values = _writer_type(column.type_json, resolve, trusted).decode_batch(data)
        else:
            values = _migrated(column.type_json, own, data, trusted, role)
        return values if mask is None else _fill([None if byte else 0 for byte in mask], values)


class Int64Codec(ColumnCodec):
    """Stamps, counts and sequence numbers."""

    def encode(self, values: list[Any]) -> tuple[list[Any], EncodedColumn]:
        return values, EncodedColumn("int64", None, False, encode_int64(values))


def encode_int64(values: list[int]) -> bytes:
    numbers = array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def decode_int64(data: bytes | memoryview) -> list[int]:
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def _encode_untyped(values: list[Any]) -> EncodedColumn:
    if set(map(type, values)) <= _PLAIN_TYPES:
        try:
            return EncodedColumn("plain", None, False, msgspec.msgpack.encode(values))
        except (OverflowError, UnicodeEncodeError):
            pass  # an int beyond 64 bits, or a string with half a surrogate pair
    return EncodedColumn("pickle", None, True, _pickle(values))


def _pickle(values: list[Any]) -> bytes:
    try:
        return pickling.dumps(values)
    except Exception as error:
        raise StateEncodingError(
            f"a value of an untyped state cannot be pickled: {type(error).__name__}: {error}",
            action="Keep plain data in state, and give the descriptor a type.",
        ) from error


def _migrated(
    type_json: dict[str, Any] | None, own: BatchType, data: bytes, trusted: bool, role: str
) -> list[Any]:
    """Values that were written as another type."""
    if type_json is None or not isinstance(own, TypeInformation):
        said = "no type" if type_json is None else f"the type {type_json}"
        raise StateTypeError(f"it was written as {said}, where {own.to_json()} is declared", action=KEEP_THE_TYPE)
    _writer_type(type_json, stand_in_classes(type_json), trusted)  # whether it is a type at all, and may be read
    evolution = compare_types(type_json, own, key=role in KEY_ROLES)
    if evolution.verdict == "refused":
        subject = f"{KEY_ROLES[role]}: " if role in KEY_ROLES else ""
        raise StateTypeError(f"{subject}{evolution.reason}", action=evolution.action)
    resolve = _classes_for(type_json, own, evolution, trusted)
    values = _writer_type(type_json, resolve, trusted).decode_batch(data)
    return past_none(evolution.convert, values)


def _classes_for(
    type_json: dict[str, Any], declared: TypeInformation, evolution: Evolution, trusted: bool
) -> ResolveClass:
    """The declared class where nothing about it changed; one that only the file names if that may be imported; and
    else a stand-in, whose values are converted."""
    same = dict(classes_named(declared.to_json()))
    own = declared_classes(declared)
    stand_in = stand_in_classes(type_json)
    written = dict(classes_named(type_json))

    def resolve(module: str, qualname: str) -> type:
        name = (module, qualname)
        if name in own and same[name] == written[name]:
            return own[name]
        if name in evolution.classes and name not in own:
            return (import_class if trusted else _refuse_class)(module, qualname)
        return stand_in(module, qualname)

    return resolve


def _writer_type(type_json: dict[str, Any] | None, resolve: ResolveClass, trusted: bool) -> BatchType:
    if type_json is None:
        raise StateCorruptedError("a typed column does not name its type")
    try:
        writer: BatchType = type_from_json(type_json, resolve)
    except StateError:
        raise
    except (MillraceError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateCorruptedError(f"the type of a column is not understood: {error}") from error
    if not trusted and writer.uses_pickle():  # Whatever the column says of itself: it may have been forged.
        raise _pickle_refused()
    return writer


def type_of_column(column: EncodedColumn, trusted: bool) -> BatchType | None:
    """The type that a column was written with, around stand-ins for its classes; None if it had none.

    Whoever rewrites or shows state that no program declares needs no class: a stand-in hashes, compares and is written
    as the real one. Where pickle is allowed, the real class is taken if it still is as it was.
    """
    if column.type_json is None:
        return None
    stand_in = stand_in_classes(column.type_json)
    resolve = stand_in if not trusted else _real_classes(column.type_json, stand_in)
    return _writer_type(column.type_json, resolve, trusted)


def _real_classes(type_json: dict[str, Any], stand_in: ResolveClass) -> ResolveClass:
    written = dict(classes_named(type_json))

    def resolve(module: str, qualname: str) -> type:
        said = written[module, qualname]
        try:
            cls = import_class(module, qualname)
            now = Types.ENUM(cls) if said["type"] == "ENUM" else Types.DATACLASS(cls)
        except Exception:  # it is gone, or no longer what it was; its module may even fail
            return stand_in(module, qualname)
        return cls if now.to_json() == said else stand_in(module, qualname)

    return resolve


def import_class(module: str, qualname: str) -> type:
    """The class of that name. Importing its module runs the module's code."""
    found: Any = importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    if not isinstance(found, type):
        raise StateTypeError(f"{module}.{qualname} is no class")
    return found


def _pickle_refused() -> StatePickleError:
    return StatePickleError(
        "this state was pickled, and loading a pickle can run any code that its author chose",
        action=f"Set {ALLOW_PICKLE} to true, but only for files whose origin you trust; state that has a type needs "
        "no pickle.",
    )


def _refuse_class(module: str, qualname: str) -> type:
    raise StatePickleError(
        f"this state is of the class {module}.{qualname}, and importing that runs code that the file names",
        action=f"Declare the state with that type in the program, or set {ALLOW_PICKLE} to true for files that you "
        "trust.",
    )


# A typed column begins with its mask of Nones: four bytes of length (0: no None), then one byte per value.


def _mask(values: list[Any], present: list[Any]) -> bytes:
    if present is values:
        return _MASK_LENGTH.pack(0)
    return _MASK_LENGTH.pack(len(values)) + bytes([value is None for value in values])


def _unmask(data: bytes | memoryview) -> tuple[bytes | None, bytes]:
    (length,) = _MASK_LENGTH.unpack_from(data)
    start = _MASK_LENGTH.size + length
    return (bytes(data[_MASK_LENGTH.size : start]) if length else None), bytes(data[start:])


def _fill(pattern: list[Any], present: list[Any]) -> list[Any]:
    following = iter(present)
    return [None if value is None else next(following) for value in pattern]
