"""Rows of the database: values of one state as bytes and back.

A row is a MessagePack array of cells. A cell is the value itself where MessagePack holds it and the state's type
says no more about it, else an extension: a column of one value or more, as `codec.py` encodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.msgpack import Decoder, Encoder, Ext

from millrace.state.codec import ColumnCodec, EncodedColumn
from millrace.state.errors import StateCorruptedError

Cell = Any

# How a column was encoded, and whether with pickle, by the number of the extension.
_ENCODINGS = (("typed", False), ("plain", False), ("int64", False), ("pickle", True), ("typed", True))
_CODES = {encoding: code for code, encoding in enumerate(_ENCODINGS)}

_NONE = frozenset({type(None)})
_PLAIN = _NONE | {bool, int, float, str, bytes}

# Basic types whose values are what MessagePack gives back: no column of one is needed.
_NATIVE: dict[str, frozenset[type]] = {
    "STRING": _NONE | {str},
    "BOOLEAN": _NONE | {bool},
    **dict.fromkeys(("BYTE", "SHORT", "INT", "LONG", "BIG_INT"), _NONE | {int}),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _NONE | {float}),
}

_encode = Encoder().encode
decode_row: Callable[[bytes], list[Any]] = Decoder(list).decode


class CellCodec:
    """The cells of one role of a state."""

    __slots__ = ("_allow_pickle", "_codec", "_native")

    def __init__(self, codec: ColumnCodec, *, allow_pickle: bool) -> None:
        self._codec = codec
        self._allow_pickle = allow_pickle
        kind = codec.type_json
        if kind is None:
            self._native = _PLAIN
        else:
            self._native = _NATIVE.get(kind["type"], _NONE) if len(kind) == 1 else _NONE

    def pack(self, value: Any) -> Cell:
        """The cell of a value."""
        return value if type(value) in self._native else self.pack_all([value])

    def pack_all(self, values: list[Any]) -> Ext:
        """The cell of a list of values."""
        column = self._codec.encode(values)[1]
        return Ext(_CODES[column.encoding, column.pickled], bytes(column.data))

    def unpack(self, cell: Cell) -> Any:
        """The value of a cell."""
        return self.unpack_all(cell)[0] if type(cell) is Ext else cell

    def unpack_all(self, cell: Ext) -> list[Any]:
        """The values of a cell that holds a list."""
        if not 0 <= cell.code < len(_ENCODINGS):
            raise StateCorruptedError(f"a cell of the unknown encoding {cell.code}")
        encoding, pickled = _ENCODINGS[cell.code]
        column = EncodedColumn(encoding, self._codec.type_json, pickled, bytes(cell.data))
        return self._codec.decode(column, allow_pickle=self._allow_pickle)


def encode_row(codecs: list[CellCodec], values: list[Any], *others: Any) -> bytes:
    """The bytes of a row: a cell for each value by its codec, then what is a cell already."""
    cells = [codec.pack(value) for codec, value in zip(codecs, values, strict=True)]
    try:
        return _encode([*cells, *others])
    except (OverflowError, UnicodeEncodeError):  # an int beyond 64 bits, or a string with half a surrogate pair
        cells = [codec.pack_all([value]) for codec, value in zip(codecs, values, strict=True)]
        return _encode([*cells, *others])
