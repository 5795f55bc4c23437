"""Sources that the environment makes itself: functions as sources, and what Spark reads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from millrace.common.errors import NotSupportedError
from millrace.common.time import MIN_TIMESTAMP
from millrace.common.typeinfo import RowTypeInfo, TypeInformation, Types
from millrace.runtime.failure import UserCodeError
from millrace.runtime.sources.base import CHUNK_RECORDS, Chunk, Offset, Source, Split

from .functions import SourceFunction


class FunctionSource(Source):
    """Reads a SourceFunction to its end, in one split."""

    max_parallelism = 1

    def __init__(self, function: SourceFunction) -> None:
        self._function = function

    def initial_offset(self) -> Offset:
        return {"done": False}

    def latest_offset(self, start: Offset, now: int) -> Offset:
        return {"done": True}

    def at_end(self, offset: Offset) -> bool:
        return bool(offset["done"])

    def plan(self, start: Offset, end: Offset, readers: int) -> list[list[Split]]:
        share = [] if start["done"] else [Split("0", 0, None, ends=True)]
        return [share, *([] for _ in range(readers - 1))]

    def read(self, split: Split) -> Iterator[Chunk]:
        gathered = _Gathered()
        try:
            found = self._function.run(gathered)
            records = iter(gathered.values if found is None else found)
            seq = 0
            while chunk := list(islice(records, CHUNK_RECORDS)):
                place = seq * CHUNK_RECORDS
                yield Chunk(seq, chunk, gathered.stamps(place, len(chunk)) if found is None else None)
                seq += 1
        except Exception as error:
            raise UserCodeError(error, self._function, None, "run() of") from error


class _Gathered:
    """The source context of a loop that calls `collect` and does not yield."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._timestamps: list[int] = []
        self._timed = False

    def collect(self, element: Any) -> None:
        self.values.append(element)
        self._timestamps.append(MIN_TIMESTAMP)

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        self._timed = True
        self.values.append(element)
        self._timestamps.append(timestamp)

    def stamps(self, start: int, count: int) -> list[int] | None:
        """The timestamps of some records; None when no record has one."""
        return self._timestamps[start : start + count] if self._timed else None

    def emit_watermark(self, mark: Any) -> None:
        raise NotSupportedError(
            "A source function cannot emit watermarks.",
            action="Use assign_timestamps_and_watermarks(...) behind the source.",
        )


class SocketStream:
    """Makes the DataFrame of a socket's lines, once there is a session."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def __call__(self, spark: Any) -> Any:
        return spark.readStream.format("socket").option("host", self.host).option("port", self.port).load()


_SPARK_TYPES = {
    "string": Types.STRING,
    "varchar": Types.STRING,
    "char": Types.STRING,
    "boolean": Types.BOOLEAN,
    "tinyint": Types.BYTE,
    "smallint": Types.SHORT,
    "int": Types.INT,
    "bigint": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "date": Types.SQL_DATE,
    "timestamp": Types.SQL_TIMESTAMP,
    "timestamp_ntz": Types.SQL_TIMESTAMP,
}


def row_type_of(schema: Any) -> RowTypeInfo:
    """The type of a DataFrame's records, from its schema (a Spark StructType, of which only the shape is used)."""
    names = [column.name for column in schema.fields]
    return Types.ROW_NAMED(names, [_type_of(column.dataType) for column in schema.fields])


def _type_of(spark_type: Any) -> TypeInformation:
    name = spark_type.simpleString().split("(")[0]
    if hasattr(spark_type, "fields"):
        return row_type_of(spark_type)
    if hasattr(spark_type, "elementType"):
        return Types.LIST(_type_of(spark_type.elementType))
    if hasattr(spark_type, "keyType"):
        return Types.MAP(_type_of(spark_type.keyType), _type_of(spark_type.valueType))
    if name == "decimal":
        return Types.BIG_DEC()
    if name == "binary":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    make = _SPARK_TYPES.get(name, Types.PICKLED_BYTE_ARRAY)
    return make()
