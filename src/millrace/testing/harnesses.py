"""A harness for each shape of function: one input or two, with keys or without, with a broadcast side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from millrace.common.typeinfo import TypeInformation
from millrace.datastream import DataStream
from millrace.state.descriptors import MapStateDescriptor

from ._program import Program, one_input, two_inputs
from .harness import Harness, HarnessOptions


def _program(inputs: int, transform: Callable[..., Any], options: HarnessOptions) -> Program:
    """The program with what the options say about it."""

    def with_policy(*streams: DataStream) -> Any:
        result = transform(*streams)
        return result.on_error(options["on_error"]) if "on_error" in options else result

    return Program.build(
        inputs,
        with_policy,
        parallelism=options.get("parallelism", 1),
        max_parallelism=options.get("max_parallelism"),
        input_types=options.get("input_types", ()),
    )


class _OneInput(Harness):
    """One input that records are pushed to."""

    def push(self, value: Any, timestamp: int | None = None) -> None:
        """Hand over one record."""
        __tracebackhide__ = True
        self._push(0, [value], None if timestamp is None else [timestamp])

    def push_all(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Hand over several records at once, as they come between two watermarks."""
        __tracebackhide__ = True
        self._push(0, list(values), None if timestamps is None else list(timestamps))


class OneInputHarness(_OneInput):
    """Runs what `stream.map`, `filter`, `flat_map`, `process`, `add_sink`, `sink_to` or
    `assign_timestamps_and_watermarks` runs.

    A bare callable is taken for one of `map`; `method="filter"` (or another of the stream's methods) says otherwise. An
    `AsyncFunctionDescriptor` runs what `AsyncDataStream` runs.

    >>> from millrace.datastream import ProcessFunction
    >>> class Positive(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value > 0:
    ...             yield value, ctx.timestamp()
    >>> with OneInputHarness(Positive()) as harness:
    ...     harness.push(-1, timestamp=10)
    ...     harness.push(2, timestamp=20)
    ...     harness.output
    [(2, 20)]
    """

    def __init__(
        self,
        function: Any,
        *,
        method: str | None = None,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        super().__init__(_program(1, one_input(function, method, output_type), options), options)


class KeyedOneInputHarness(_OneInput):
    """Runs what the same methods of `stream.key_by(key_selector)` run, and `reduce`, `sum`, `min`, ...

    >>> from millrace.common import Types
    >>> from millrace.datastream import KeyedProcessFunction
    >>> from millrace.state import ValueStateDescriptor
    >>> COUNT = ValueStateDescriptor("count", Types.LONG())
    >>> class CountUntilQuiet(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(COUNT)
    ...     def process_element(self, value, ctx):
    ...         self.count.update((self.count.value() or 0) + 1)
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.count.value()
    >>> with KeyedOneInputHarness(CountUntilQuiet(), key_selector=lambda value: value[0]) as harness:
    ...     harness.push(("a", "click"), timestamp=5)
    ...     harness.event_time_timers, harness.state(COUNT, "a")
    ...     harness.watermark(1005)
    ...     harness.output
    ([('a', 1005)], 1)
    [('a', 1)]
    """

    def __init__(
        self,
        function: Any,
        key_selector: Any,
        *,
        method: str | None = None,
        key_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        apply = one_input(function, method, output_type)
        super().__init__(
            _program(1, lambda stream: apply(stream.key_by(key_selector, key_type)), options), options
        )


class WindowHarness(_OneInput):
    """Runs windows: `build` is given the stream by key (without a `key_selector` the plain one) and says the rest.

    `entries` tells what is left of state and timers: nothing, once the watermark has passed every window.

    >>> from millrace.datastream.window import TumblingEventTimeWindows
    >>> def build(stream):
    ...     return stream.window(TumblingEventTimeWindows.of(10)).reduce(lambda one, other: (one[0], one[1] + other[1]))
    >>> with WindowHarness(build, key_selector=0) as harness:
    ...     harness.push(("a", 1), timestamp=3)
    ...     harness.push(("a", 2), timestamp=9)
    ...     harness.watermark(9)
    ...     harness.records, harness.entries
    ([(('a', 3), 9)], {})
    """

    def __init__(
        self,
        build: Callable[[Any], Any],
        key_selector: Any = None,
        *,
        key_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        def transform(stream: DataStream) -> Any:
            return build(stream if key_selector is None else stream.key_by(key_selector, key_type))

        super().__init__(_program(1, transform, options), options)


class _TwoInputs(Harness):
    """Two inputs that records are pushed to."""

    def push1(self, value: Any, timestamp: int | None = None) -> None:
        """Hand over one record of the first input."""
        __tracebackhide__ = True
        self._push(0, [value], None if timestamp is None else [timestamp])

    def push2(self, value: Any, timestamp: int | None = None) -> None:
        """Hand over one record of the second input."""
        __tracebackhide__ = True
        self._push(1, [value], None if timestamp is None else [timestamp])

    def watermark1(self, timestamp: int) -> None:
        """Event time has reached `timestamp` on the first input; the function's clock is the minimum of both."""
        __tracebackhide__ = True
        self._tell((0,), timestamp)

    def watermark2(self, timestamp: int) -> None:
        """Event time has reached `timestamp` on the second input; the function's clock is the minimum of both."""
        __tracebackhide__ = True
        self._tell((1,), timestamp)

    def idle1(self) -> None:
        """The first input has nothing to say about event time for now."""
        self._tell((0,), None)

    def idle2(self) -> None:
        """The second input has nothing to say about event time for now."""
        self._tell((1,), None)


class TwoInputHarness(_TwoInputs):
    """Runs what `stream1.connect(stream2).map`, `flat_map` or `process` runs.

    >>> from millrace.datastream import CoMapFunction
    >>> class Label(CoMapFunction):
    ...     def map1(self, value):
    ...         return f"left {value}"
    ...     def map2(self, value):
    ...         return f"right {value}"
    >>> with TwoInputHarness(Label()) as harness:
    ...     harness.push1(1)
    ...     harness.push2(2)
    ...     harness.output
    ['left 1', 'right 2']
    """

    def __init__(
        self,
        function: Any,
        *,
        method: str | None = None,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        apply = two_inputs(function, method, output_type)
        super().__init__(_program(2, lambda first, second: apply(first.connect(second)), options), options)


class KeyedTwoInputHarness(_TwoInputs):
    """Runs what `stream1.connect(stream2).key_by(selector1, selector2)` and `map`, `flat_map` or `process` run.

    >>> from millrace.datastream import KeyedCoProcessFunction
    >>> from millrace.state import ValueStateDescriptor
    >>> NAME = ValueStateDescriptor("name")
    >>> class Enrich(KeyedCoProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.name = runtime_context.get_state(NAME)
    ...     def process_element1(self, user, ctx):
    ...         self.name.update(user["name"])
    ...     def process_element2(self, order, ctx):
    ...         yield {**order, "name": self.name.value()}
    >>> with KeyedTwoInputHarness(Enrich(), "id", "user") as harness:
    ...     harness.push1({"id": 7, "name": "Ann"})
    ...     harness.push2({"user": 7, "item": "tea"})
    ...     harness.output
    [{'user': 7, 'item': 'tea', 'name': 'Ann'}]
    """

    def __init__(
        self,
        function: Any,
        key_selector1: Any,
        key_selector2: Any,
        *,
        method: str | None = None,
        key_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        apply = two_inputs(function, method, output_type)

        def transform(first: DataStream, second: DataStream) -> Any:
            return apply(first.connect(second).key_by(key_selector1, key_selector2, key_type))

        super().__init__(_program(2, transform, options), options)


class TwoStreamsHarness(_TwoInputs):
    """Runs what a callable makes of two streams: joins, for example.

    >>> from millrace.datastream import ProcessJoinFunction
    >>> class Pair(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right
    >>> def near(orders, payments):
    ...     return orders.key_by(0).interval_join(payments.key_by(0)).between(0, 1000).process(Pair())
    >>> with TwoStreamsHarness(near) as harness:
    ...     harness.push1(("a", "order"), timestamp=500)
    ...     harness.push2(("a", "payment"), timestamp=1500)
    ...     harness.output
    [(('a', 'order'), ('a', 'payment'))]
    """

    def __init__(self, transform: Callable[[DataStream, DataStream], Any], **options: Unpack[HarnessOptions]) -> None:
        super().__init__(_program(2, transform, options), options)


class _WithBroadcast(_OneInput):
    """An input, and a broadcast one."""

    def push_broadcast(self, value: Any, timestamp: int | None = None) -> None:
        """Hand over one record of the broadcast side."""
        __tracebackhide__ = True
        self._push(1, [value], None if timestamp is None else [timestamp])


class BroadcastHarness(_WithBroadcast):
    """Runs what `stream.connect(rules.broadcast(*descriptors)).process` runs.

    >>> from millrace.datastream import BroadcastProcessFunction
    >>> LIMITS = MapStateDescriptor("limits")
    >>> class Above(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value > ctx.get_broadcast_state(LIMITS).get("limit"):
    ...             yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(LIMITS).put("limit", value)
    >>> with BroadcastHarness(Above(), LIMITS) as harness:
    ...     harness.push_broadcast(10)
    ...     harness.push_all([5, 15])
    ...     harness.output, harness.broadcast_state(LIMITS)
    ([15], {'limit': 10})
    """

    def __init__(
        self,
        function: Any,
        *descriptors: MapStateDescriptor,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        def transform(stream: DataStream, rules: DataStream) -> Any:
            return stream.connect(rules.broadcast(*descriptors)).process(function, output_type)

        super().__init__(_program(2, transform, options), options)


class KeyedBroadcastHarness(_WithBroadcast):
    """Runs what `stream.key_by(key_selector).connect(rules.broadcast(*descriptors)).process` runs."""

    def __init__(
        self,
        function: Any,
        key_selector: Any,
        *descriptors: MapStateDescriptor,
        key_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        **options: Unpack[HarnessOptions],
    ) -> None:
        def transform(stream: DataStream, rules: DataStream) -> Any:
            keyed = stream.key_by(key_selector, key_type)
            return keyed.connect(rules.broadcast(*descriptors)).process(function, output_type)

        super().__init__(_program(2, transform, options), options)
