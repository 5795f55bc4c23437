"""Lists and arrays: many elements of one type."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, ClassVar

from ..errors import ProgramError
from ._base import Column, TypeInformation
from ._basic import BasicType, BasicTypeInfo

_PRIMITIVES = frozenset(BasicType) - {
    BasicType.STRING,
    BasicType.BIG_INT,
    BasicType.BIG_DEC,
    BasicType.INSTANT,
}


class _SequenceTypeInfo(TypeInformation):
    """Values are Python lists; a tuple, an ``array.array`` and a numpy array are taken and become lists."""

    _exact = frozenset({list})
    _element_may_be_none = True
    _java_format: ClassVar[str] = ""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = element_type

    def get_element_type(self) -> TypeInformation:
        return self._element_type

    def _args(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def describe(self) -> str:
        return f"{self.tag}({self._element_type.describe()})"

    def to_json(self) -> dict[str, Any]:
        return {"type": self.tag, "element": self._element_type.to_json()}

    def uses_pickle(self) -> bool:
        return self._element_type.uses_pickle()

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        elements = list(chain.from_iterable(values))
        done = self._element_type._column(elements, self._element_may_be_none)
        return values if done is elements else done and regroup(done, values)

    def _coerce_one(self, value: Any) -> Any:
        elements = self._elements_of(value)
        coerce, nullable = self._element_type._coerce_part, self._element_may_be_none
        done = [coerce(element, f"[{index}]", nullable) for index, element in enumerate(elements)]
        return value if type(value) is list and all(a is b for a, b in zip(done, value, strict=True)) else done

    def _elements_of(self, value: Any) -> Sequence[Any]:
        if isinstance(value, (list, tuple)):
            return value
        if isinstance(value, array) or (type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0):
            elements: list[Any] = value.tolist()
            return elements
        raise self._mismatch(value)

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"

    def __repr__(self) -> str:
        return self._java_format.format(repr(self._element_type))


class ListTypeInfo(_SequenceTypeInfo):
    """Type information of a list.

    >>> info = ListTypeInfo(BasicTypeInfo.DOUBLE_TYPE_INFO())
    >>> info, str(info)
    (List<Double>, 'ListTypeInfo<Double>')
    >>> info.coerce([1, None, 2.5])
    [1.0, None, 2.5]
    """

    tag = "LIST"
    _java_format = "List<{}>"

    @property
    def elem_type(self) -> TypeInformation:
        return self._element_type


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    """Type information of an array of any type, in Python a list."""

    tag = "OBJECT_ARRAY"
    _java_format = "ObjectArray<{}>"


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """Type information of an array of boxed primitives or strings, in Python a list; elements may be None."""

    tag = "BASIC_ARRAY"
    _java_format = "{}[]"

    def __init__(self, element_type: TypeInformation) -> None:
        _require_element(self.tag, element_type, _PRIMITIVES | {BasicType.STRING})
        super().__init__(element_type)


class PrimitiveArrayTypeInfo(_SequenceTypeInfo):
    """Type information of an array of primitives, whose elements are never None.

    In Python a list, and for BYTE a ``bytes``, which also takes a bytearray, a memoryview or a list of BYTEs.

    >>> PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO()).coerce(bytearray(b"ab"))
    b'ab'
    """

    tag = "PRIMITIVE_ARRAY"
    _java_format = "{}[]"
    _element_may_be_none = False

    def __init__(self, element_type: TypeInformation) -> None:
        _require_element(self.tag, element_type, _PRIMITIVES)
        super().__init__(element_type)
        self.is_bytes = element_type == BasicTypeInfo.BYTE_TYPE_INFO()
        self._exact = frozenset({bytes}) if self.is_bytes else frozenset({list})

    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        return values if self.is_bytes else super()._coerce_exact(values, kinds)

    def _coerce_one(self, value: Any) -> Any:
        if not self.is_bytes:
            return super()._coerce_one(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return value if type(value) is bytes else bytes(value)
        return array("b", super()._coerce_one(value)).tobytes()


def regroup(elements: Column, like: Column) -> list[Any]:
    """Cuts the elements of all lists into lists as long as those of ``like``.

    >>> regroup([1, 2, 3], [["a"], [], ["b", "c"]])
    [[1], [], [2, 3]]
    """
    following = iter(elements)
    return [list(islice(following, length)) for length in map(len, like)]


def _require_element(tag: str, element_type: TypeInformation, allowed: frozenset[BasicType]) -> None:
    if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in allowed):
        names = ", ".join(kind.name for kind in BasicType if kind in allowed)
        shown = element_type.describe() if isinstance(element_type, TypeInformation) else repr(element_type)
        raise ProgramError(
            f"a {tag} cannot have elements of {shown}",
            action=f"Take one of {names}, or Types.OBJECT_ARRAY.",
        )
