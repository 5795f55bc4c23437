from __future__ import annotations

import io

import pytest

from millrace.common import (
    ByteArraySchema,
    ConfigurationError,
    DecodingError,
    Encoder,
    ProgramError,
    Row,
    SimpleStringSchema,
    TypeMismatchError,
    Types,
    TypeSerializer,
)
from millrace.common.api_stability_decorators import (
    Deprecated,
    Experimental,
    Internal,
    Public,
    PublicEvolving,
)
from millrace.common.serialization import BulkWriterFactory, RowFieldExtractorSchema


def test_strings_in_another_charset():
    schema = SimpleStringSchema("ISO-8859-1")
    schema.open()
    assert schema.serialize("é") == b"\xe9"
    assert schema.deserialize(b"\xe9") == "é"
    assert schema.get_produced_type() == Types.STRING()
    assert not schema.is_end_of_stream("é")


def test_bytes_pass():
    schema = ByteArraySchema()
    assert schema.serialize(bytearray(b"x")) == b"x"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_a_field_of_a_row_is_extracted():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"x")) == schema.serialize(("a", bytearray(b"x"))) == b"x"
    assert schema.serialize(Row("a", None)) == b""


def test_the_string_encoder_writes_lines():
    stream = io.BytesIO()
    encoder = Encoder.simple_string_encoder()
    encoder.encode(("a", 1), stream)
    encoder.encode("é", stream)
    assert stream.getvalue() == "('a', 1)\né\n".encode()


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: SimpleStringSchema("klingon"), ConfigurationError, "there is no charset 'klingon'"),
        (lambda: SimpleStringSchema().serialize(5), TypeMismatchError, "expected STRING, got int 5"),
        (lambda: SimpleStringSchema().deserialize(b"\xff"), DecodingError, "a message is not utf-8"),
        (
            lambda: ByteArraySchema().serialize("x"),
            TypeMismatchError,
            r"expected PRIMITIVE_ARRAY\(BYTE\), got str 'x'",
        ),
        (
            lambda: RowFieldExtractorSchema(-1),
            ConfigurationError,
            "a field index is a number from 0 on, got -1",
        ),
        (
            lambda: RowFieldExtractorSchema(1).serialize(Row(1)),
            TypeMismatchError,
            "expected a ROW with a field 1",
        ),
        (
            lambda: RowFieldExtractorSchema(0).serialize(Row("x")),
            TypeMismatchError,
            "field 'f0': expected PRIMITIVE_ARRAY",
        ),
        (lambda: Public()(5), ProgramError, "Public marks functions and classes, not 5"),
    ],
)
def test_mistakes_are_named(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_serializers_of_one_kind_are_equal():
    class Utf8(TypeSerializer[str]):
        def serialize(self, element, stream):
            stream.write(element.encode())

        def deserialize(self, stream):
            return stream.read().decode()

    assert Utf8() == Utf8()
    assert hash(Utf8()) == hash(Utf8())
    assert repr(Utf8()) == "Utf8"
    stream = io.BytesIO()
    Utf8().serialize("é", stream)
    stream.seek(0)
    assert Utf8().deserialize(stream) == "é"


def test_a_bulk_writer_factory_is_an_interface():
    with pytest.raises(TypeError):
        BulkWriterFactory()


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Deprecated("0.2"), ".. deprecated:: 0.2"),
        (Experimental(), "*f* is experimental"),
        (Internal(), "*f* is internal"),
        (PublicEvolving(), "*f* is public and may change"),
        (Public(), "*f* is public and stays"),
    ],
)
def test_stability_is_written_into_the_docstring(mark, text):
    @mark
    def f():
        """Does it."""

    assert f.__doc__.startswith("Does it.\n\n")
    assert text in f.__doc__
