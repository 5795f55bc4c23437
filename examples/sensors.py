"""Watches the temperatures of twenty sensors: `make demo` runs this.

Readings arrive out of order, and a few far too late. The program

  - puts readings that come behind the watermark on a side output,
  - raises an alarm when a sensor's temperature has risen for ten seconds without falling once,
  - averages each sensor's temperature over every ten seconds.

A minute of the sensors' time passes in twenty seconds. It prints a line for every ten seconds and for every alarm,
then the averages of each sensor, and ends with

    8000 readings, 62 of them too late, 3 alarms.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import (
    AggregateFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millrace.datastream.connectors import DataGeneratorSource
from millrace.datastream.state import ValueStateDescriptor
from millrace.datastream.window import TumblingEventTimeWindows

SENSORS = 20
READINGS = 8000
READINGS_PER_SECOND = 400
# A minute of event time, evenly spread over all readings.
MILLIS_PER_READING = 60_000 / READINGS

SECOND = 1000
WINDOW = 10 * SECOND
RISES_FOR = 10 * SECOND
# These sensors heat up, from a moment on and for 14 seconds.
HEATING = {4: 8 * SECOND, 11: 21 * SECOND, 17: 38 * SECOND}

LATE = OutputTag("late")


class Reading(NamedTuple):
    sensor: int
    at: int
    temperature: float


# --- the sensors -------------------------------------------------------------------------------------------------


def reading(index: int) -> Reading:
    """The reading that arrives as number `index`; the same index always gives the same reading."""
    chance = random.Random(index)
    sensor, now = index % SENSORS, int(index * MILLIS_PER_READING)
    straggles = now > 10 * SECOND and chance.random() < 0.01
    delay = chance.randrange(20 * SECOND, 30 * SECOND) if straggles else chance.randrange(1500)
    at = max(now - delay, 0)
    return Reading(sensor, at, temperature(sensor, at) + chance.uniform(-0.001, 0.001))


def temperature(sensor: int, at: int) -> float:
    """Ups and downs around 20 °C; a sensor that heats up gains half a degree per second."""
    normal = 20 + sensor / 4 + math.sin(at / 900 + sensor)
    heating = at - HEATING.get(sensor, at)
    return normal if not 0 < heating < 14 * SECOND else 20 + sensor / 4 + heating / 2000


# --- the program -------------------------------------------------------------------------------------------------


class SetLateAside(ProcessFunction):
    """Sends on what is in time, and the rest to the side output."""

    def process_element(self, value: Reading, ctx: ProcessFunction.Context):
        if ctx.timestamp() > ctx.timer_service().current_watermark():
            yield value
        else:
            yield LATE, value


class AlarmOnRise(KeyedProcessFunction):
    """Sets a timer when a temperature begins to rise, and takes it back when it falls before the timer has fired."""

    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))
        self.alarm_at = runtime_context.get_state(ValueStateDescriptor("alarm at", Types.LONG()))

    def process_element(self, value: Reading, ctx: KeyedProcessFunction.Context):
        last, alarm_at = self.last.value(), self.alarm_at.value()
        if last is not None and value.at <= last.at:
            return  # Out of order: a later reading has spoken already.
        self.last.update(value)
        if last is None:
            return
        if value.temperature > last.temperature and alarm_at is None:
            ctx.timer_service().register_event_time_timer(last.at + RISES_FOR)
            self.alarm_at.update(last.at + RISES_FOR)
        elif value.temperature < last.temperature and alarm_at is not None and value.at <= alarm_at:
            ctx.timer_service().delete_event_time_timer(alarm_at)
            self.alarm_at.clear()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext):
        self.alarm_at.clear()
        last = self.last.value()
        if timestamp - last.at < SECOND:  # Nobody knows about a sensor that has fallen silent.
            yield "alarm", ctx.get_current_key(), timestamp, last.temperature


class Average(AggregateFunction):
    """The average temperature: sum and number are all that a window keeps."""

    def create_accumulator(self):
        return 0.0, 0

    def add(self, value: Reading, accumulator: tuple[float, int]):
        return accumulator[0] + value.temperature, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction):
    """Says which sensor and which ten seconds an average is of."""

    def process(self, key: int, context: ProcessWindowFunction.Context, elements: list[float]):
        [average] = elements
        yield "average", key, context.window().end, average


def build(env: StreamExecutionEnvironment) -> DataStream:
    """Everything that the program has to say, as one stream of tuples."""
    source = DataGeneratorSource(reading, READINGS, READINGS_PER_SECOND)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
        lambda value, _: value.at
    )
    in_time = env.from_source(source, in_event_time, "Sensors").process(SetLateAside()).name("Set late aside")
    by_sensor = in_time.key_by(lambda value: value.sensor)
    alarms = by_sensor.process(AlarmOnRise()).name("Alarm on rise")
    windows = by_sensor.window(TumblingEventTimeWindows.of(Duration.of_millis(WINDOW)))
    averages = windows.aggregate(Average(), WithWindow(), Types.TUPLE([Types.DOUBLE(), Types.LONG()]))
    late = in_time.get_side_output(LATE).map(lambda value: ("late", value.sensor, value.at, value.temperature))
    return alarms.union(averages, late)


# --- what is shown -----------------------------------------------------------------------------------------------


def say(*words: str) -> None:
    print(*words, flush=True)


def clock(millis: int) -> str:
    return f"{millis // 60_000:02}:{millis // SECOND % 60:02}"


def show(results: Iterable[tuple[str, int, int, float]]) -> None:
    """Print results as they come, and a summary at the end."""
    windows: dict[int, dict[int, float]] = defaultdict(dict)
    late = alarms = 0
    for kind, sensor, at, value in results:
        if kind == "late":
            late += 1
        elif kind == "alarm":
            alarms += 1
            say(f"{clock(at)}  ALARM: sensor {sensor} has been rising for ten seconds, {value:.1f} °C now")
        else:
            windows[at][sensor] = value
            if len(windows[at]) == SENSORS:
                low, high = min(windows[at].values()), max(windows[at].values())
                say(f"{clock(at)}  averages from {low:.1f} to {high:.1f} °C; {late} readings too late so far")
    say("\nAverages in °C, for the ten seconds up to\n")
    say("  sensor", *(f"{clock(end):>6}" for end in sorted(windows)))
    for sensor in range(SENSORS):
        say(f"  {sensor:>6}", *(f"{windows[end][sensor]:6.1f}" for end in sorted(windows)))
    say(f"\n{READINGS} readings, {late} of them too late, {alarms} alarms.")


def main() -> None:
    say("Starting Spark; the sensors then report for about twenty seconds.")
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    with build(env).execute_and_collect("sensors") as results:
        show(results)


if __name__ == "__main__":
    main()
