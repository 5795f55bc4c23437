"""Dates, times of day and timestamps."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from ._base import Column, TypeInformation, unwrap_numpy

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SqlTimeTypeInfo(TypeInformation):
    """The SQL time types. Internal forms are PyFlink's, with naive values read as UTC on every machine.

    >>> SqlTimeTypeInfo.DATE().to_internal_type(date(1970, 1, 2))
    1
    """

    _java_name = ""

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()

    def _args(self) -> tuple[Any, ...]:
        return ()

    def describe(self) -> str:
        return self.tag

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag}

    def need_conversion(self) -> bool:
        return True

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return values

    def _coerce_one(self, value: Any) -> Any:
        adapted = self._adapt(unwrap_numpy(value))
        if type(adapted) not in self._exact:
            raise self._mismatch(value)
        return adapted

    @abstractmethod
    def _adapt(self, value: Any) -> Any:
        """Turns a subclass's value into the plain one."""

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return self._java_name


class DateTypeInfo(SqlTimeTypeInfo):
    """Type information of a ``datetime.date``; a datetime is not a date."""

    tag = "SQL_DATE"
    _java_name = "Date"
    _exact = frozenset({date})

    def to_internal_type(self, obj: date | None) -> int | None:
        return None if obj is None else obj.toordinal() - _EPOCH_ORDINAL

    def from_internal_type(self, obj: int | None) -> date | None:
        return None if obj is None else date.fromordinal(obj + _EPOCH_ORDINAL)

    def _adapt(self, value: Any) -> Any:
        if isinstance(value, date) and not isinstance(value, datetime):
            return date(value.year, value.month, value.day)
        return value


class TimeTypeInfo(SqlTimeTypeInfo):
    """Type information of a ``datetime.time``."""

    tag = "SQL_TIME"
    _java_name = "Time"
    _exact = frozenset({time})

    def to_internal_type(self, obj: time | None) -> int | None:
        if obj is None:
            return None
        span = timedelta(hours=obj.hour, minutes=obj.minute, seconds=obj.second, microseconds=obj.microsecond)
        return (span - (obj.utcoffset() or timedelta())) // _MICROSECOND

    def from_internal_type(self, obj: int | None) -> time | None:
        return None if obj is None else (_EPOCH + obj * _MICROSECOND).time()

    def _adapt(self, value: Any) -> Any:
        if isinstance(value, time):
            return time(value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold)
        return value


class TimestampTypeInfo(SqlTimeTypeInfo):
    """Type information of a ``datetime.datetime``. Of its zone, durable forms keep the offset but not the name."""

    tag = "SQL_TIMESTAMP"
    _java_name = "Timestamp"
    _exact = frozenset({datetime})

    def to_internal_type(self, obj: datetime | None) -> int | None:
        if obj is None:
            return None
        return ((obj if obj.tzinfo else obj.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND

    def from_internal_type(self, obj: int | None) -> datetime | None:
        return None if obj is None else (_EPOCH + obj * _MICROSECOND).replace(tzinfo=None)

    def _adapt(self, value: Any) -> Any:
        return datetime.combine(value.date(), value.timetz()) if isinstance(value, datetime) else value
