"""Input that is not what its type says: the error names the record and the reason, and the policy decides."""

from __future__ import annotations

import io
import json
import pickle
import sys
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millrace.common import (
    DecodingError,
    DeserializationSchema,
    MillraceError,
    ProgramError,
    Row,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from millrace.common.errors import JobExecutionError, NotSupportedError, TypeMismatchError
from millrace.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from millrace.datastream.formats import (
    AvroBulkWriters,
    AvroParquetReaders,
    AvroParquetWriters,
    AvroReaderFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    OrcBulkWriters,
    OrcColumnarRowInputFormat,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    to_arrow_schema,
)
from millrace.formats.lines import LineFormat, LineWriterFactory
from millrace.runtime.operators.messages import DeserializeOperator
from millrace.testing import InProcessExecutor, OneInputHarness

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
JSON = JsonRowDeserializationSchema.builder().type_info(PERSON).build()
CSV = CsvRowDeserializationSchema.Builder(PERSON).build()
AVRO = AvroRowDeserializationSchema(type_info=PERSON)
GOOD = {
    JSON: b'{"name": "Ada", "age": 36}',
    CSV: b"Ada,36",
    AVRO: AvroRowSerializationSchema(type_info=PERSON).serialize(("Ada", 36)),
}
BAD: list[tuple[DeserializationSchema, bytes, str]] = [
    (JSON, b"", "JSON"),
    (JSON, b"{", "JSON"),
    (JSON, b"[1]", "Expected `object`"),
    (JSON, b'{"name": "Ada", "age": "36"}', r"Expected `int \| null`, got `str` - at `\$.age`"),
    (JSON, b'{"name": "Ada", "age": 3000000000}', "field 'age': expected INT"),
    (JSON, b'{"name": "\xff"}', "JSON"),
    (JSON, b"null", "JSON"),
    (CSV, b"Ada", "1 fields instead of 2"),
    (CSV, b"Ada,36,x", "3 fields instead of 2"),
    (CSV, b"Ada,old", "expected INT, got str 'old'"),
    (CSV, b"Ada,1_0", "no underscores"),
    (CSV, b"Ada,3000000000", "field 'age': expected INT"),
    (CSV, b'"Ada,36', "line of CSV"),
    (CSV, b"Ada,36\nGrace,45", "line of CSV"),
    (CSV, b"\xff,36", "not UTF-8"),
    (AVRO, b"", "Avro schema"),
    (AVRO, b"\x02", "Avro schema"),
    (AVRO, GOOD[AVRO] + b"x", "1 bytes behind"),
]
EACH_BAD = pytest.mark.parametrize(("schema", "bad", "reason"), BAD)


@EACH_BAD
def test_a_bad_message_is_an_error_with_the_reason(schema: DeserializationSchema, bad: bytes, reason: str) -> None:
    with pytest.raises(MillraceError, match=reason):
        schema.deserialize(bad)


@EACH_BAD
def test_a_bad_message_among_good_ones_is_found(schema: DeserializationSchema, bad: bytes, reason: str) -> None:
    found: list[tuple[int, str]] = []
    records = schema.deserialize_batch(
        [GOOD[schema], bad, GOOD[schema], bad], lambda index, error: found.append((index, str(error)))
    )
    ada = Row("Ada", 36)
    ada.set_field_names(["name", "age"])
    assert records == [ada, None, ada, None]
    assert [index for index, _ in found] == [1, 3]
    with pytest.raises(MillraceError, match=reason):
        schema.deserialize_batch([GOOD[schema], bad])


def test_parse_errors_can_be_ignored() -> None:
    ignoring = {
        JSON: JsonRowDeserializationSchema.builder().type_info(PERSON).ignore_parse_errors().build(),
        CSV: CsvRowDeserializationSchema.Builder(PERSON).set_ignore_parse_errors(True).build(),
        AVRO: AvroRowDeserializationSchema(type_info=PERSON, ignore_parse_errors=True),
    }
    for schema, bad, _ in BAD:
        good = GOOD[schema]
        assert ignoring[schema].deserialize(bad) is None
        assert [record is None for record in ignoring[schema].deserialize_batch([bad, good])] == [True, False]


def reading(policy: Any) -> OneInputHarness:
    return OneInputHarness(JSON.deserialize, on_error=policy)


def test_a_bad_message_fails_the_job_and_is_named() -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    messages = env.from_collection([b'{"name": "Ada"}', b"{" * 500]).map(JSON.deserialize).name("reading")
    with pytest.raises(JobExecutionError, match="not the JSON of its type") as caught:
        list(messages.execute_and_collect())
    assert caught.value.operator_name == "reading"
    assert caught.value.record_repr is not None
    assert caught.value.record_repr.startswith("b'{{{{")
    assert len(caught.value.record_repr) < 130


def test_a_bad_message_is_skipped_and_counted() -> None:
    with reading("skip") as harness:
        harness.push_all([b"{}", b"x"])
        assert (len(harness.output), harness.skipped) == (1, 1)


def test_a_bad_message_goes_to_a_side_output_with_the_error() -> None:
    with reading(OutputTag("bad")) as harness:
        harness.push_all([b"{}", b"x"])
        [bad] = harness.side_output("bad")
        assert bad.value == b"x"
        assert bad.error.startswith("DecodingError: [MR-1008] a message is not the JSON of its type")


@pytest.mark.parametrize("policy", ["fail", "skip", OutputTag("bad")])
def test_an_operator_that_reads_messages_follows_its_policy(policy: Any) -> None:
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    operator = DeserializeOperator(CSV)
    messages = env.from_collection([b"Ada,36", b"x", b"# none", b"Grace,45"])
    rows = messages._transform("reading", operator, stream_type=PERSON).on_error(policy)
    if policy == "fail":
        with pytest.raises(JobExecutionError, match="1 fields instead of 2") as caught:
            list(rows.execute_and_collect())
        assert (caught.value.operator_name, caught.value.record_repr) == ("reading", "b'x'")
    elif policy == "skip":
        assert [row.name for row in rows.execute_and_collect()] == ["Ada", "Grace"]
    else:
        assert [bad.value for bad in rows.get_side_output(policy).execute_and_collect()] == [b"x", b"# none"]


def test_an_operator_that_reads_messages_keeps_timestamps_and_leaves_out_what_the_schema_leaves_out() -> None:
    comments = CsvRowDeserializationSchema.Builder(PERSON).set_allow_comments(True).build()
    env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor())
    stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LengthAsTime())
    messages = env.from_collection([b"#", b"Ada,36"]).assign_timestamps_and_watermarks(stamped)
    rows = messages._transform("reading", DeserializeOperator(comments), stream_type=PERSON)
    assert list(rows.process(TimeOf()).execute_and_collect()) == [(36, 6)]


class LengthAsTime(TimestampAssigner):
    def extract_timestamp(self, value: bytes, record_timestamp: int) -> int:
        return len(value)


class TimeOf(ProcessFunction):
    def process_element(self, value: Row, ctx: Any) -> Any:
        yield value.age, ctx.timestamp()


@pytest.mark.parametrize("schema", [JSON, CSV, AVRO])
def test_schemas_can_be_shipped(schema: DeserializationSchema) -> None:
    copy = pickle.loads(pickle.dumps(schema))
    assert copy.deserialize(GOOD[schema]) == schema.deserialize(GOOD[schema])
    assert copy.get_produced_type() == PERSON


def test_records_that_do_not_fit_their_type_are_not_written() -> None:
    for schema in (
        JsonRowSerializationSchema.builder().with_type_info(PERSON).build(),
        CsvRowSerializationSchema.Builder(PERSON).build(),
        AvroRowSerializationSchema(type_info=PERSON),
    ):
        found: dict[int, Exception] = {}
        written = schema.serialize_batch([("a", 1), ("b", "old"), ("\ud800", 2)], found.__setitem__)
        assert list(found) == [1, 2]
        assert [message is None for message in written] == [False, True, True]
        with pytest.raises(TypeMismatchError, match="field 'age'"):
            schema.serialize(("b", "old"))


# --- JSON -------------------------------------------------------------------------------------------------------


def test_json_without_a_type_is_plain_dicts() -> None:
    schema = JsonRowDeserializationSchema.builder().build()
    assert schema.deserialize(b'{"a": [1, 2.5, null, {"b": true}]}') == {"a": [1, 2.5, None, {"b": True}]}
    assert schema.get_produced_type() == Types.PICKLED_BYTE_ARRAY()
    with pytest.raises(TypeMismatchError, match="what JSON can hold"):
        JsonRowSerializationSchema.builder().build().serialize({"a": object()})


def test_a_missing_field_is_none_or_an_error() -> None:
    assert JSON.deserialize(b'{"age": 1}')["name"] is None
    strict = JsonRowDeserializationSchema.builder().type_info(PERSON).fail_on_missing_field().build()
    with pytest.raises(DecodingError, match="missing required field `name`"):
        strict.deserialize(b'{"age": 1}')
    with pytest.raises(ProgramError, match="contradict"):
        JsonRowDeserializationSchema.builder().fail_on_missing_field().ignore_parse_errors().build()


@dataclass
class Order:
    id: int
    note: str | None
    price: Decimal = Decimal("0.10")
    tags: list[str] = field(default_factory=list)


def test_dataclasses_keep_their_defaults_and_need_what_has_none() -> None:
    schema = JsonRowDeserializationSchema.builder().type_info(Types.DATACLASS(Order)).build()
    assert schema.deserialize(b'{"id": 1}') == Order(1, None)
    assert schema.deserialize(b'{"id": 1, "price": 2.50}') == Order(1, None, Decimal("2.50"))
    for bad in (b"{}", b'{"id": null}'):
        with pytest.raises(DecodingError, match="id"):
            schema.deserialize(bad)
    writing = JsonRowSerializationSchema.builder().with_type_info(Types.DATACLASS(Order)).build()
    assert json.loads(writing.serialize(Order(1, "x"))) == {"id": 1, "note": "x", "price": 0.1, "tags": []}


def test_a_json_schema_makes_a_type() -> None:
    text = """{"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date"},
        "more": {"type": ["null", "array"], "items": {"$ref": "#/definitions/part"}}},
        "definitions": {"part": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}}"""
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    row = schema.deserialize(b'{"id": 1, "at": "2024-02-29", "more": [{"ok": true}]}')
    assert (row.id, row.at, row.more[0].ok) == (1, date(2024, 2, 29), True)
    for bad in ("{", "[]", '{"type": "array"}', '{"$ref": "#/nowhere"}', '{"type": ["string", "integer"]}'):
        with pytest.raises(ProgramError, match="JSON Schema"):
            JsonRowDeserializationSchema.builder().json_schema(bad)


def test_what_is_no_type_is_refused() -> None:
    for make in (
        lambda: JsonRowDeserializationSchema.builder().type_info(str),  # type: ignore[arg-type]
        lambda: JsonRowSerializationSchema.builder().with_type_info(str),  # type: ignore[arg-type]
        lambda: CsvRowSerializationSchema.Builder(str),  # type: ignore[arg-type]
    ):
        with pytest.raises(ProgramError, match="is no type information"):
            make()


# --- CSV --------------------------------------------------------------------------------------------------------


def test_every_setting_of_csv() -> None:
    kind = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.LIST(Types.INT()), Types.BOOLEAN()])
    writing = (
        CsvRowSerializationSchema.Builder(kind)
        .set_field_delimiter("|")
        .set_line_delimiter("")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_escape_character("\\")
        .set_null_literal("-")
        .build()
    )
    reading = (
        CsvRowDeserializationSchema.Builder(kind)
        .set_field_delimiter("|")
        .set_array_element_delimiter("/")
        .set_quote_character("'")
        .set_escape_character("\\")
        .set_null_literal("-")
        .set_allow_comments(True)
        .build()
    )
    assert writing.serialize(("x|'y", [1, 2], None)) == b"'x|\\'y'|1/2|-"
    rows = reading.deserialize_batch([b"# nothing", b"'x|\\'y'|1/2|-"])
    assert rows[0] is None
    assert list(rows[1]) == ["x|'y", [1, 2], None]
    with pytest.raises(TypeMismatchError, match="stands for None"):
        writing.serialize(("-", [], True))


def test_without_quotes_what_needs_them_is_not_written() -> None:
    schema = CsvRowSerializationSchema.Builder(PERSON).disable_quote_character().build()
    assert schema.serialize(("a", 1)) == b"a,1\n"
    with pytest.raises(TypeMismatchError, match="CSV"):
        schema.serialize(("a,b", 1))


def test_none_and_the_empty_string_are_the_same_without_a_null_literal() -> None:
    schema = CsvRowSerializationSchema.Builder(PERSON).build()
    assert schema.serialize((None, None)) == b",\n"
    assert list(CSV.deserialize(b",\n")) == ["", None]


@pytest.mark.parametrize(
    "make",
    [
        lambda builder: builder.set_field_delimiter(",,"),
        lambda builder: builder.set_quote_character("\n"),
        lambda builder: builder.set_array_element_delimiter(""),
    ],
)
def test_characters_that_are_none_are_refused(make: Any) -> None:
    with pytest.raises(ProgramError):
        make(CsvRowDeserializationSchema.Builder(PERSON))
    with pytest.raises(ProgramError):
        CsvRowSerializationSchema.Builder(PERSON).set_line_delimiter("x")


def read_all(reader: Any, content: bytes, skip: int = 0) -> list[list[Any]]:
    return [list(record) for batch in reader.read(io.BytesIO(content), skip) for record in batch]


def test_a_csv_file_with_header_comments_and_line_breaks_in_quotes() -> None:
    builder = CsvSchema.builder().add_string_column("name").add_number_column("age", Types.INT())
    schema = builder.set_use_header().set_allow_comments().build()
    content = b'# made by hand\nage,more,name\r\n36,x,"Ada\nLovelace"\n\n45,y,Grace\n'
    assert read_all(CsvReaderFormat.for_schema(schema), content) == [["Ada\nLovelace", 36], ["Grace", 45]]
    assert read_all(CsvReaderFormat.for_schema(schema), content, skip=1) == [["Grace", 45]]
    strict = CsvReaderFormat.for_schema(builder.set_strict_headers().build())
    with pytest.raises(DecodingError, match="the header is"):
        read_all(strict, content)


def test_bad_lines_of_a_file_are_told_of_and_keep_their_place() -> None:
    schema = CsvSchema.builder().add_string_column("name").add_number_column("age").build()
    for reader, content in (
        (CsvReaderFormat.for_schema(schema), b"a,1\nb\n\nc,x\nd,4\n"),
        (LineFormat(JSON), b'{"name":"a"}\n{\n\n[]\n{"name":"d"}\n'),
    ):
        bad: list[Any] = []
        [records] = reader.read(io.BytesIO(content), 0, lambda record, error, bad=bad: bad.append(record))
        assert [record and record.name for record in records] == ["a", None, None, "d"]
        assert bad in ([["b"], ["c", "x"]], [b"{", b"[]"])
        [records] = reader.read(io.BytesIO(content), 3, lambda record, error: pytest.fail("told of already"))
        assert [record.name for record in records] == ["d"]
        with pytest.raises(DecodingError):
            list(reader.read(io.BytesIO(content)))


def test_a_schema_of_columns() -> None:
    base = CsvSchema.builder().add_boolean_column("ok").add_array_column("tags", "/").build()
    builder = CsvSchema.builder().add_columns_from(base).set_array_element_separator("/").set_skip_first_data_row()
    builder.set_column_separator(";").set_quote_char("'").set_null_value("?").set_line_separator("\r\n")
    schema = builder.set_escape_char("!").disable_escape_char().build()
    assert (schema.size(), len(builder), str(schema)) == (2, 2, "CsvSchema(ok, tags)")
    assert read_all(CsvReaderFormat.for_schema(schema), b"x;y\ntrue;a/b\n?;?") == [[True, ["a", "b"]], [None, None]]
    stream = io.BytesIO()
    CsvBulkWriters.for_schema(schema).create(stream).add_elements([(True, ["a"])])
    assert stream.getvalue() == b"true;a\r\n"
    assert builder.remove_array_element_separator(1).build().type_info.get_field_types()[1] == Types.STRING()
    assert builder.clear_columns().add_string_column("one").disable_quote_char().build().size() == 1
    with pytest.raises(NotSupportedError):
        builder.set_any_property_name("any")
    with pytest.raises(ProgramError, match="CSV cannot hold"):
        builder.add_column("map", Types.MAP(Types.STRING(), Types.INT())).build()


# --- Avro -------------------------------------------------------------------------------------------------------

USER = """{"type": "record", "name": "User", "namespace": "org.example", "fields": [
    {"name": "id", "type": "long"},
    {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "kind2", "type": ["null", "Kind"], "default": null},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}}]}"""
VALUES = {
    "id": 1,
    "key": "12345678-1234-5678-1234-567812345678",
    "kind": "A",
    "kind2": None,
    "price": Decimal("1.25"),
    "at": datetime(2024, 2, 29, 12),  # noqa: DTZ001 - in UTC, as all without a zone
    "hash": b"ab",
    "tags": {"x": ["y"]},
}


def test_avro_by_a_schema() -> None:
    reading = AvroRowDeserializationSchema(avro_schema_string=USER)
    writing = AvroRowSerializationSchema(avro_schema_string=USER)
    assert reading.deserialize(writing.serialize(VALUES)).as_dict() == VALUES
    with pytest.raises(TypeMismatchError):
        writing.serialize({**VALUES, "price": Decimal("1.255")})
    with pytest.raises(TypeMismatchError):
        writing.serialize({**VALUES, "kind": "C"})
    with pytest.raises(TypeMismatchError):
        writing.serialize({**VALUES, "id": None})


def test_avro_by_a_dataclass() -> None:
    order = Order(1, None, Decimal(2), ["x"])
    assert AvroRowDeserializationSchema(Order).deserialize(AvroRowSerializationSchema(Order).serialize(order)) == order


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        '"nothing"',
        '"string"',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "again", "type": ["null", "R"]}]}',
    ],
)
def test_avro_schemas_that_make_no_rows_are_refused(schema: str) -> None:
    with pytest.raises(ProgramError, match="Avro"):
        AvroRowDeserializationSchema(avro_schema_string=schema)


def test_avro_wants_one_schema_and_names_that_it_knows() -> None:
    with pytest.raises(ProgramError, match="one of record_class"):
        AvroRowDeserializationSchema()
    with pytest.raises(ProgramError, match="has others"):
        AvroRowSerializationSchema(type_info=Types.ROW_NAMED(["a b"], [Types.INT()]))


# --- files ------------------------------------------------------------------------------------------------------


def written(factory: Any, values: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer = factory.create(stream)
    writer.add_elements(values)
    writer.finish()
    return stream.getvalue()


def test_generic_records_in_avro_and_parquet_files(tmp_path: Any) -> None:
    path = tmp_path / "user.avsc"
    path.write_text(USER)
    schema = AvroSchema.parse_file(str(path))
    assert json.loads(str(schema)) == json.loads(USER)
    avro = written(AvroBulkWriters.for_generic_record(schema, "deflate"), [VALUES] * 3)
    [rows] = AvroReaderFormat.for_schema(schema).read(io.BytesIO(avro), skip=1)
    assert [row.as_dict() for row in rows] == [VALUES] * 2
    content = written(AvroParquetWriters.for_generic_record(schema), [VALUES])
    assert list(AvroParquetReaders.for_generic_record(schema).read(io.BytesIO(content))) == [[VALUES]]


FILES = {
    "Parquet": (ParquetBulkWriters.for_row_type(PERSON), ParquetColumnarRowInputFormat(PERSON)),
    "ORC": (OrcBulkWriters.for_row_type(PERSON, {"orc.compress": "ZLIB"}), OrcColumnarRowInputFormat(PERSON)),
    "Avro": (AvroBulkWriters.for_type(PERSON), AvroReaderFormat.for_type(PERSON)),
}


@pytest.mark.parametrize("name", FILES)
def test_files_without_records_and_files_cut_short(name: str) -> None:
    writers, reader = FILES[name]
    assert read_all(reader, written(writers, [])) == []
    content = written(writers, [("a", 1)] * 5000)
    assert read_all(reader, content, skip=4999) == [["a", 1]]
    for bad in (b"", b"nonsense", content[: len(content) // 2]):
        with pytest.raises(DecodingError, match=f"no {name} file"):
            read_all(reader, bad)
    with pytest.raises(TypeMismatchError, match="field 'age'"):
        written(writers, [("a", "old")])


def test_columns_are_found_by_name_and_may_be_missing() -> None:
    more = Types.ROW_NAMED(["age", "city", "name"], [Types.INT(), Types.STRING(), Types.STRING()])
    for writers, reader in (
        (ParquetBulkWriters.for_row_type(more), ParquetColumnarRowInputFormat(PERSON)),
        (OrcBulkWriters.for_row_type(more), OrcColumnarRowInputFormat(PERSON)),
    ):
        assert read_all(reader, written(writers, [(1, "x", "a")])) == [["a", 1]]
    fewer = Types.ROW_NAMED(["age"], [Types.INT()])
    content = written(ParquetBulkWriters.for_row_type(fewer), [(1,)])
    assert read_all(ParquetColumnarRowInputFormat(PERSON), content) == [[None, 1]]
    other = Types.ROW_NAMED(["age"], [Types.STRING()])
    content = written(ParquetBulkWriters.for_row_type(other), [("old",)])
    with pytest.raises(DecodingError, match="column 'age' is string and not int32"):
        read_all(ParquetColumnarRowInputFormat(PERSON), content)


def test_what_cannot_be_set_for_orc_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="cannot be set"):
        OrcBulkWriters.for_row_type(PERSON, {"orc.bloom": "1"})


def test_an_arrow_schema_needs_fields() -> None:
    with pytest.raises(ProgramError, match="named fields"):
        to_arrow_schema(Types.STRING())
    assert to_arrow_schema(Types.DATACLASS(Order)).field("id").nullable is False


def test_files_of_json_lines() -> None:
    writing = JsonRowSerializationSchema.builder().with_type_info(PERSON).build()
    content = written(LineWriterFactory(writing, ".json"), [("a", 1), ("b", 2)])
    assert content == b'{"name":"a","age":1}\n{"name":"b","age":2}\n'
    assert read_all(LineFormat(JSON), content + b"\n", skip=1) == [["b", 2]]


def test_avro_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ProgramError, match=r"pip install 'millrace\[avro\]'"):
        AvroRowSerializationSchema(type_info=PERSON)
