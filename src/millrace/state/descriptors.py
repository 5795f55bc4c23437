"""Descriptors: the name, the type and the settings of a state, as a program declares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.state.errors import StateDescriptorError

if TYPE_CHECKING:
    from millrace.common.typeinfo import TypeInformation
    from millrace.state.ttl import StateTtlConfig


class StateDescriptor:
    """What all descriptors have: a name, unique within its operator, and a type.

    A type of None means that values are pickled. Give a type: typed state can be read, checked and carried to
    changed programs without running any code from the file.
    """

    kind = "state"

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a state is a non-empty string, not {name!r}")
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_name: str | None = None

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let entries of this state expire. See `StateTtlConfig`."""
        self._ttl_config = ttl_config
        self._refuse_queries_with_ttl()

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The time to live that was asked for, or None (also where it was asked for as disabled)."""
        config = self._ttl_config
        return config if config is not None and config.is_enabled() else None

    def set_queryable(self, queryable_state_name: str) -> None:
        """Let the state be read from outside of the job, under this name. Only keyed state without a time to live.

        >>> totals = ValueStateDescriptor("total")
        >>> totals.set_queryable("totals-by-user")
        >>> totals.is_queryable(), totals.get_queryable_state_name()
        (True, 'totals-by-user')
        """
        if not isinstance(queryable_state_name, str) or not queryable_state_name:
            raise ValueError(f"the name that a state is queried by is a non-empty string, not {queryable_state_name!r}")
        if self._queryable_name not in {None, queryable_state_name}:
            raise StateDescriptorError(
                f"state {self.name!r} is queried as {self._queryable_name!r}, and now as {queryable_state_name!r}",
                action="Call set_queryable once.",
            )
        self._queryable_name = queryable_state_name
        self._refuse_queries_with_ttl()

    def _refuse_queries_with_ttl(self) -> None:
        # As in Flink. A query sees a copy without the job's clock, and would return what has long expired.
        if self._queryable_name is not None and self.ttl_config is not None:
            raise StateDescriptorError(
                f"state {self.name!r} has a time to live, and cannot be queried as {self._queryable_name!r}",
                action="Leave out set_queryable or enable_time_to_live.",
            )

    def is_queryable(self) -> bool:
        return self._queryable_name is not None

    def get_queryable_state_name(self) -> str | None:
        return self._queryable_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a `ValueState`."""

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a `ListState`, or an operator's list state."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, elem_type_info)
        self.elem_type_info = elem_type_info


class MapStateDescriptor(StateDescriptor):
    """Describes a `MapState` or a `BroadcastState`."""

    kind = "map"

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, value_type_info)
        self.key_type_info = key_type_info
        self.value_type_info = value_type_info


class ReducingStateDescriptor(StateDescriptor):
    """Describes a `ReducingState`. The function is a `ReduceFunction` or a plain callable of two values."""

    kind = "reducing"

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None = None) -> None:
        super().__init__(name, type_info)
        if not callable(reduce_function) and not hasattr(reduce_function, "reduce"):
            raise TypeError(
                f"state {name!r} needs a ReduceFunction or a callable of two values, not {reduce_function!r}"
            )
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        return self._reduce_function

    def reducer(self) -> Callable[[Any, Any], Any]:
        """The function as a plain callable of two values."""
        method = getattr(self._reduce_function, "reduce", None)
        callable_: Callable[[Any, Any], Any] = self._reduce_function if method is None else method
        return callable_


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an `AggregatingState`; its type is that of the accumulator, which is what is kept."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, state_type_info)
        missing = [
            method for method in ("create_accumulator", "add", "get_result") if not hasattr(agg_function, method)
        ]
        if missing:
            raise TypeError(f"state {name!r} needs an AggregateFunction; {agg_function!r} has no {', '.join(missing)}")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        return self._agg_function
