"""Session, sliding and count windows in PyFlink's spelling."""

from collections.abc import Iterable

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class SecondAsTimestamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class CountAll(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: "ProcessWindowFunction.Context[TimeWindow]", elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class SumAll(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]):
        return [(key, sum(value for _, value in inputs))]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source = env.from_collection([("hi", 1), ("hi", 2), ("hi", 3), ("hi", 8), ("hi", 9), ("hi", 15)], type_info=PAIR)
    timed = source.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondAsTimestamp())
    )
    keyed = timed.key_by(lambda value: value[0], key_type=Types.STRING())
    keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(
        CountAll(), Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])
    ).print()
    keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))).trigger(
        PurgingTrigger.of(EventTimeTrigger.create())
    ).aggregate(Total(), accumulator_type=Types.LONG(), output_type=Types.LONG()).print("total")
    keyed.count_window(2).apply(SumAll(), PAIR).print("pair")
    env.execute("windows")
