"""What a column's bytes may make a reader do."""

from __future__ import annotations

import pytest

from millrace.common.typeinfo import Types
from millrace.state.codec import ColumnCodec, EncodedColumn
from millrace.state.errors import StatePickleError


def test_column_that_denies_being_pickled_is_not_unpickled() -> None:
    pickled = ColumnCodec(Types.PICKLED_BYTE_ARRAY()).encode([{"a": 1}])[1]
    forged = EncodedColumn("typed", pickled.type_json, False, pickled.data)
    nested = EncodedColumn("typed", {"type": "LIST", "element": pickled.type_json}, False, pickled.data)
    for codec in (ColumnCodec(), ColumnCodec(Types.LONG()), ColumnCodec(Types.PICKLED_BYTE_ARRAY())):
        for column in (forged, nested):
            with pytest.raises(StatePickleError, match="loading a pickle can run any code"):
                codec.decode(column, allow_pickle=False)
