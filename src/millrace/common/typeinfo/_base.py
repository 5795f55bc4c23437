"""What every type information can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import TypeMismatchError

if TYPE_CHECKING:
    from ..encoding import Codec

# A list of values of one type: a batch, or one field of every record of a batch. Never changed in place.
Column = Sequence[Any]

_NONE_TYPE = type(None)


class TypeInformation(ABC):
    """Describes the values of a stream, a field or a state: checks them, normalises them, encodes them.

    Two type informations that describe the same are equal, hash alike and survive pickling. ``str`` prints
    what PyFlink prints, ``repr`` what Flink's Java API prints.

    **coerce_batch(values)** is the hot path. It applies the type to a list of records and returns the list
    to go on with: the very same list object when nothing had to change, else a new one; the records
    themselves are never changed in place. Values of exactly the declared Python types are checked by C
    code, column by column; anything else goes value by value through ``coerce``.

    **coerce(value)** does the same for one value. Both raise :class:`TypeMismatchError` that says which
    field (``path``) of which record (``index``, only from ``coerce_batch``) does not fit. Coercing twice is
    the same as coercing once.

    None fits wherever a field or an element is nullable; a record itself is never None (except under
    ``Types.PICKLED_BYTE_ARRAY()``, which takes anything).
    """

    # The Python types that the fast path takes; a subclass of one of them is another type.
    _exact: frozenset[type] = frozenset()
    _codec: Codec | None = None
    #: The name under which ``Types`` makes this type, also its tag in JSON.
    tag: ClassVar[str] = ""

    # -- description -------------------------------------------------------------------------------------

    @abstractmethod
    def _args(self) -> tuple[Any, ...]:
        """The constructor's arguments, hashable: the identity of this type information."""

    @abstractmethod
    def describe(self) -> str:
        """The type as the user would write it, without ``Types.``: used in messages."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """A stable description out of dicts, lists and strings; ``type_from_json`` is its inverse."""

    def uses_pickle(self) -> bool:
        """Whether encoding a value of this type needs pickle anywhere inside it."""
        return False

    # -- Python value ↔ PyFlink's internal value ---------------------------------------------------------

    def need_conversion(self) -> bool:
        """Whether ``to_internal_type`` changes values of this type."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        return obj

    # -- checking and normalising ------------------------------------------------------------------------

    def coerce_batch(self, values: list[Any]) -> list[Any]:
        done = self._column(values, nullable=False)
        if done is None:
            return self._coerce_one_by_one(values)
        return done if isinstance(done, list) else list(done)

    def coerce(self, value: Any) -> Any:
        if value is None:
            raise self._mismatch(None)
        return self._coerce_one(value)

    def _coerce_one_by_one(self, values: Column) -> list[Any]:
        done = []
        for index, value in enumerate(values):
            try:
                done.append(self.coerce(value))
            except TypeMismatchError as error:
                error.index = index
                raise
        return done

    def _column(self, values: Column, nullable: bool = True) -> Column | None:
        """The coerced column, ``values`` itself when nothing changes, None when the slow path must look."""
        kinds = set(map(type, values))
        if kinds <= self._exact:
            return self._coerce_exact(values, kinds) if kinds else values
        if nullable and _NONE_TYPE in kinds:
            kinds.discard(_NONE_TYPE)
            if kinds <= self._exact:
                return over_present(values, lambda present: self._coerce_exact(present, kinds))
        return None

    @abstractmethod
    def _coerce_exact(self, values: Column, kinds: set[type]) -> Column | None:
        """``_column`` for values that are all of ``self._exact``, at least one, none of them None."""

    @abstractmethod
    def _coerce_one(self, value: Any) -> Any:
        """``coerce`` for a value that is not None."""

    def _coerce_part(self, value: Any, step: str, nullable: bool = True) -> Any:
        """``coerce`` for a field or element, whose place in the record an error will name."""
        if value is None and nullable:
            return None
        try:
            return self.coerce(value)
        except TypeMismatchError as error:
            raise error.inside(step) from error.__cause__

    def _mismatch(self, value: Any, reason: str = "") -> TypeMismatchError:
        return TypeMismatchError(self.describe(), value, reason)

    # -- encoding ----------------------------------------------------------------------------------------

    def codec(self) -> Codec:
        """The encoder of this type, built once."""
        if self._codec is None:
            from ..encoding import Codec

            self._codec = Codec(self)
        return self._codec

    def encode_batch(self, values: list[Any]) -> bytes:
        """Deterministic bytes for values as ``coerce_batch`` returns them."""
        return self.codec().encode_batch(values)

    def decode_batch(self, data: bytes) -> list[Any]:
        return self.codec().decode_batch(data)

    # -- identity ----------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._args() == other._args())

    def __hash__(self) -> int:
        return hash((type(self), self._args()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._args()


def over_present(values: Column, convert: Callable[[Column], Column | None]) -> Column | None:
    """Converts what is not None and leaves every None where it was."""
    present = [value for value in values if value is not None]
    if not present:
        return values
    if len(present) == len(values):
        return convert(values)
    done = convert(present)
    if done is None:
        return None
    if done is present:
        return values
    following = iter(done)
    return [None if value is None else next(following) for value in values]


def unwrap_numpy(value: Any) -> Any:
    """The Python value of a numpy scalar, anything else as it is; numpy itself is never imported."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value
