"""CSV, line by line and in files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from millrace.common.errors import NotSupportedError, ProgramError
from millrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from millrace.formats.csv import CsvCodec, CsvFileFormat, CsvOptions, CsvWriterFactory
from millrace.formats.files import FileWriterFactory
from millrace.formats.schemas import CodecDeserializationSchema, CodecSerializationSchema

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvSchema:
    """The columns of CSV files, and how these are written.

    >>> schema = CsvSchema.builder().add_string_column("name").add_number_column("age").set_use_header().build()
    >>> schema.type_info, schema.size()
    (Row(name: String, age: Long), 2)
    """

    def __init__(self, type_info: RowTypeInfo, options: CsvOptions) -> None:
        self.type_info = type_info
        self.options = options

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        """The number of columns."""
        return self.type_info.get_arity()

    def __len__(self) -> int:
        return self.size()

    def __repr__(self) -> str:
        return f"CsvSchema({', '.join(self.type_info.get_field_names())})"


class CsvSchemaBuilder:
    """Says which columns there are; types of numbers and of elements are TypeInformation."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._types: list[TypeInformation] = []
        self._options = CsvOptions()

    def build(self) -> CsvSchema:
        CsvCodec(Types.ROW_NAMED(self._names, self._types), self._options)  # What cannot be, is refused here.
        return CsvSchema(Types.ROW_NAMED(self._names, self._types), self._options)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """A list of strings, or of another type; there is one separator for all such columns."""
        self._set(array_delimiter=separator)
        return self._add(name, Types.LIST(element_type or Types.STRING()))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """A LONG, or another number."""
        return self._add(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.STRING())

    def add_column(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        """A column of any type that CSV can hold."""
        return self._add(name, type_info)

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        for name, kind in zip(schema.type_info.get_field_names(), schema.type_info.get_field_types(), strict=True):
            self._add(name, kind)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._names, self._types = [], []
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Lines that begin with # are left out."""
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Columns that nobody has declared are not there."""
        raise NotSupportedError("set_any_property_name: columns without a type cannot be read")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """A list must have one element at the most."""
        return self._set(array_delimiter="\0")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """The column at this place is a string, and not a list."""
        self._types[index] = Types.STRING()
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        return self._set(array_delimiter=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        return self._set(delimiter=_character("The column separator", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(escape=_character("The escape character", char))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """What is written behind a line; reading takes any line break."""
        return self._set(line_end=_line_end(separator))

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        return self._set(null_literal=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._set(quote=_character("The quote character", char))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        return self._set(skip_first=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """The header must have these names in this order."""
        return self._set(strict_header=strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """The first line has the columns' names."""
        return self._set(header=use)

    def size(self) -> int:
        return len(self._names)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, kind: TypeInformation) -> CsvSchemaBuilder:
        self._names.append(name)
        self._types.append(kind)
        return self

    def _set(self, **options: Any) -> CsvSchemaBuilder:
        self._options = replace(self._options, **options)
        return self


class CsvReaderFormat(CsvFileFormat):
    """Reads CSV files as rows."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        return CsvReaderFormat(schema.type_info, schema.options)


class CsvBulkWriters:
    """Writes CSV files."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> FileWriterFactory:
        return CsvWriterFactory(schema.type_info, schema.options)


class _Builder:
    """What reading and writing have in common."""

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, TypeInformation):
            raise ProgramError(f"{type_info!r} is no type information", action="Give a Types.ROW_NAMED(...).")
        self._type_info = type_info
        self._options = CsvOptions()

    def _set(self, **options: Any) -> Self:
        self._options = replace(self._options, **options)
        return self

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """What stands between the elements of a list."""
        if not delimiter:
            raise ProgramError("The delimiter of a list's elements must not be empty.")
        return self._set(array_delimiter=delimiter)

    def set_quote_character(self, c: str) -> Self:
        return self._set(quote=_character("The quote character", c))

    def set_escape_character(self, c: str) -> Self:
        return self._set(escape=_character("The escape character", c))


class CsvRowDeserializationSchema(CodecDeserializationSchema):
    """Reads a line of CSV as a record: a row, a tuple or a dataclass.

    >>> from millrace.common import Types
    >>> row_type = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    >>> CsvRowDeserializationSchema.Builder(row_type).build().deserialize(b"Ada,36")
    Row(name='Ada', age=36)
    """

    class Builder(_Builder):
        """Says what the lines are like."""

        def __init__(self, type_info: TypeInformation) -> None:
            super().__init__(type_info)
            self._ignore = False

        def set_field_delimiter(self, delimiter: str) -> Self:
            return self._set(delimiter=_character("The field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Whether lines that begin with # are left out."""
            return self._set(allow_comments=allow_comments)

        def set_null_literal(self, null_literal: str) -> Self:
            """What stands for None."""
            return self._set(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Whether what cannot be read is left out, uncounted; see also `on_error` of a stream."""
            self._ignore = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            return CsvRowDeserializationSchema(
                CsvCodec(self._type_info, self._options), self._type_info, self._ignore
            )


class CsvRowSerializationSchema(CodecSerializationSchema):
    """Writes a record as a line of CSV.

    >>> from millrace.common import Types
    >>> CsvRowSerializationSchema.Builder(Types.TUPLE([Types.STRING(), Types.INT()])).build().serialize(("Ada", 36))
    b'Ada,36\\n'
    """

    class Builder(_Builder):
        """Says what the lines are to be like."""

        def set_field_delimiter(self, c: str) -> Self:
            return self._set(delimiter=_character("The field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> Self:
            """What is written behind a line, may be nothing."""
            return self._set(line_end=_line_end(delimiter))

        def disable_quote_character(self) -> Self:
            return self._set(quote=None)

        def set_null_literal(self, s: str) -> Self:
            """What stands for None."""
            return self._set(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(CsvCodec(self._type_info, self._options))


def _character(what: str, value: str) -> str:
    if not isinstance(value, str) or len(value) != 1 or value in "\r\n":
        raise ProgramError(f"{what} is one character, and not {value!r}.")
    return value


def _line_end(value: str) -> str:
    if value not in ("", "\n", "\r", "\r\n"):
        raise ProgramError(f"A line ends with a line break or nothing, and not with {value!r}.")
    return value
