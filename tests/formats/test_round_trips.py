"""Whatever the type: a format gives back what it was given, refuses the type, or refuses the value; it never lies."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.common import Instant, ProgramError, Row, TypeInformation, TypeMismatchError, Types
from millrace.formats.avro import AvroCodec, AvroFileFormat, AvroWriterFactory
from millrace.formats.columnar import (
    OrcFileFormat,
    OrcWriterFactory,
    ParquetFileFormat,
    ParquetWriterFactory,
)
from millrace.formats.csv import CsvCodec, CsvFileFormat, CsvOptions, CsvWriterFactory
from millrace.formats.json import JsonCodec
from tests.common.typed_values import _READINGS, LEAVES, Reading, Typed, batches, typed

Trip = Callable[[TypeInformation, list[Any]], list[Any]]


def through_messages(codec: Callable[[TypeInformation], Any]) -> Trip:
    def trip(kind: TypeInformation, values: list[Any]) -> list[Any]:
        made = codec(kind)
        return made.decode_all(made.encode_all(values))

    return trip


def through_a_file(writers: Callable[[TypeInformation], Any], readers: Callable[[TypeInformation], Any]) -> Trip:
    def trip(kind: TypeInformation, values: list[Any]) -> list[Any]:
        stream = io.BytesIO()
        writer = writers(kind).create(stream)
        writer.add_elements(values[:1])
        for value in values[1:]:
            writer.add_element(value)
        writer.finish()
        assert not stream.closed
        stream.seek(0)
        return [record for batch in readers(kind).read(stream) for record in batch]

    return trip


TRIPS: dict[str, Trip] = {
    "JSON": through_messages(JsonCodec),
    "CSV": through_messages(lambda kind: CsvCodec(kind, CsvOptions(null_literal="NULL"))),
    "CSV-escaped": through_messages(lambda kind: CsvCodec(kind, CsvOptions(null_literal="\\N", escape="!"))),
    "CSV-file": through_a_file(
        lambda kind: CsvWriterFactory(kind, CsvOptions(null_literal="NULL", header=True)),
        lambda kind: CsvFileFormat(kind, CsvOptions(null_literal="NULL", header=True)),
    ),
    "Avro": through_messages(AvroCodec),
    "Avro-file": through_a_file(
        lambda kind: AvroWriterFactory(AvroCodec(kind)), lambda kind: AvroFileFormat(AvroCodec(kind))
    ),
    "Parquet": through_a_file(ParquetWriterFactory, ParquetFileFormat),
    "ORC": through_a_file(OrcWriterFactory, OrcFileFormat),
}
#: The formats that know no zones.
IN_UTC = {"Avro", "Avro-file", "Parquet", "ORC"}


def records(draw_from: st.SearchStrategy[Typed]) -> st.SearchStrategy[tuple[TypeInformation, list[Any]]]:
    """Records of named fields, of types of all kinds."""

    def rows(fields: list[Typed]) -> Typed:
        kind = Types.ROW_NAMED([f"n{i}" for i in range(len(fields))], [field for field, _ in fields])
        return kind, st.tuples(*(st.none() | values for _, values in fields))

    of_rows = st.lists(draw_from, min_size=1, max_size=4).map(rows)
    return (of_rows | st.just((Types.DATACLASS(Reading), _READINGS))).flatmap(batches)


def plain(value: Any, in_utc: bool) -> Any:
    """Without what no format keeps (a row's kind, names that its type does not have) and what this one does not."""
    if isinstance(value, Row):
        return [plain(item, in_utc) for item in value]
    if isinstance(value, (list, tuple)):
        return [plain(item, in_utc) for item in value]
    if isinstance(value, dict):
        return {key_of(key, in_utc): plain(item, in_utc) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__") and type(value).__name__ in ("Reading", "Inner"):
        return [plain(getattr(value, name), in_utc) for name in value.__dataclass_fields__]
    return key_of(value, in_utc)


def key_of(value: Any, in_utc: bool) -> Any:
    if in_utc and isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    if in_utc and isinstance(value, time) and value.utcoffset() is not None:
        moved = datetime.combine(date(2000, 1, 2), value.replace(tzinfo=None)) - value.utcoffset()
        return moved.time()
    return value


def check(name: str, kind: TypeInformation, values: list[Any]) -> None:
    values = kind.coerce_batch(values)
    try:
        found = TRIPS[name](kind, values)
    except (ProgramError, TypeMismatchError) as error:
        refusal: Exception = error
    else:
        refusal = Exception()
    if isinstance(refusal, ProgramError):
        assert name.partition("-")[0] in refusal.message or "holds" in refusal.message
        assert refusal.action
    if isinstance(refusal, (ProgramError, TypeMismatchError)):
        return
    assert plain(found, name in IN_UTC) == plain(values, name in IN_UTC)
    assert kind.coerce_batch(found) is found


@pytest.mark.parametrize("name", TRIPS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_records_of_any_type_come_back_or_are_refused(name: str, data: st.DataObject) -> None:
    kind, values = data.draw(records(typed()))
    check(name, kind, values)


@pytest.mark.parametrize("name", TRIPS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_flat_records_come_back_or_are_refused(name: str, data: st.DataObject) -> None:
    kind, values = data.draw(records(st.sampled_from(LEAVES)))
    check(name, kind, values)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(of=typed().flatmap(batches))
def test_json_holds_records_that_are_no_rows(of: tuple[TypeInformation, list[Any]]) -> None:
    kind, values = of
    check("JSON", kind, [value for value in values if value is not None])


# What each format cannot hold in a field, of the types above; everything else it must take, with a plain value.
PLAIN: list[tuple[TypeInformation, Any]] = [
    (Types.STRING(), 'a "b", ü'),
    (Types.CHAR(), "c"),
    (Types.BOOLEAN(), True),
    (Types.BYTE(), -128),
    (Types.SHORT(), 32767),
    (Types.INT(), -(2**31)),
    (Types.LONG(), 2**63 - 1),
    (Types.FLOAT(), 0.5),
    (Types.DOUBLE(), 0.1),
    (Types.BIG_INT(), 2**100),
    (Types.BIG_DEC(), 5),
    (Types.INSTANT(), Instant(1, 5000)),
    (Types.SQL_DATE(), date(2024, 2, 29)),
    (Types.SQL_TIME(), time(1, 2, 3, 4)),
    (Types.SQL_TIMESTAMP(), datetime(2024, 2, 29, 1, 2, 3, 4)),  # noqa: DTZ001 - one without a zone is meant
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    (Types.LIST(Types.INT()), [1, 2]),
    (Types.LIST(Types.LIST(Types.INT())), [[1], []]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}),
    (Types.MAP(Types.INT(), Types.INT()), {1: 1}),
    (Types.ROW([Types.INT()]), Row(1)),
    (Types.TUPLE([Types.INT()]), (1,)),
    (Types.ENUM(LEAVES[19][0].enum_class), LEAVES[19][0].enum_class.RED),
    (Types.PICKLED_BYTE_ARRAY(), 1),
]
CANNOT = {
    "JSON": {"PICKLED_BYTE_ARRAY"},
    "CSV": {
        "PICKLED_BYTE_ARRAY",
        "LIST(LIST(INT))",
        "MAP(STRING, INT)",
        "MAP(INT, INT)",
        "ROW(INT)",
        "TUPLE(INT)",
    },
    "Avro": {"PICKLED_BYTE_ARRAY", "BIG_INT", "MAP(INT, INT)"},
    "Parquet": {"PICKLED_BYTE_ARRAY", "BIG_INT"},
    "ORC": {"PICKLED_BYTE_ARRAY", "BIG_INT", "SQL_TIME"},
}


@pytest.mark.parametrize("name", CANNOT)
@pytest.mark.parametrize(("kind", "value"), PLAIN, ids=lambda of: of.describe() if hasattr(of, "describe") else "")
def test_what_a_format_cannot_hold_is_refused_when_the_program_is_built(
    name: str, kind: TypeInformation, value: Any
) -> None:
    row = Types.ROW_NAMED(["field"], [kind])
    if kind.describe() in CANNOT[name]:
        with pytest.raises(ProgramError, match=rf"^.*{name} cannot hold .*field") as caught:
            TRIPS[name](row, [])
        assert "\nAction: " in str(caught.value)
    else:
        values = row.coerce_batch([(value,), (None,)])
        assert plain(TRIPS[name](row, values), False) == plain(values, False)
