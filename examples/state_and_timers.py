"""Cuts the clicks of a web site's visitors into visits, with keyed state and event-time timers.

A visit ends when its visitor has been silent for 30 minutes. Clicks arrive out of order by up to five minutes, so the
function keeps them until the watermark says that nothing earlier will come. It prints

    ann's visit 1: /home /shoes /cart, 20 minutes
    bob's visit 1: /home /shoes /help, 40 minutes
    ann's visit 2: /home, 0 minutes

Each line appears when event time has passed the end of the visit by half an hour, and not before.
"""

from typing import NamedTuple

from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from millrace.datastream.state import ListStateDescriptor, ValueStateDescriptor

MINUTE = 60_000
SILENCE = 30 * MINUTE


class Click(NamedTuple):
    visitor: str
    minute: int
    page: str


CLICKS = [
    Click("ann", 0, "/home"),
    Click("bob", 2, "/home"),
    Click("ann", 20, "/cart"),
    Click("ann", 17, "/shoes"),  # Three minutes out of order.
    Click("bob", 27, "/shoes"),
    Click("bob", 42, "/help"),
    Click("ann", 90, "/home"),
]


class Visits(KeyedProcessFunction):
    """Gathers the clicks of a visitor until half an hour passes without one.

    Every click sets a timer. When it fires, all clicks up to its time are known, and the visit is over if none of
    them came in the half hour before.
    """

    def open(self, runtime_context: RuntimeContext):
        self.clicks = runtime_context.get_list_state(ListStateDescriptor("clicks", Types.PICKLED_BYTE_ARRAY()))
        self.visits = runtime_context.get_state(ValueStateDescriptor("visits", Types.INT()))

    def process_element(self, click: Click, ctx: KeyedProcessFunction.Context):
        self.clicks.add(click)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + SILENCE)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext):
        clicks = sorted(self.clicks.get(), key=lambda click: click.minute)
        visit = [click for click in clicks if click.minute * MINUTE <= timestamp - SILENCE]
        later = clicks[len(visit) :]
        if later and later[0].minute * MINUTE < timestamp:
            return  # The visit goes on; the timer of a later click will end it.
        self.clicks.update(later)
        self.visits.update((self.visits.value() or 0) + 1)
        pages = " ".join(click.page for click in visit)
        minutes = visit[-1].minute - visit[0].minute
        yield f"{ctx.get_current_key()}'s visit {self.visits.value()}: {pages}, {minutes} minutes"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5)).with_timestamp_assigner(
        lambda click, _: click.minute * MINUTE
    )
    (
        env.from_collection(CLICKS)
        .assign_timestamps_and_watermarks(in_event_time)
        .key_by(lambda click: click.visitor)
        .process(Visits(), Types.STRING())
        .print()
    )
    env.execute("visits")


if __name__ == "__main__":
    main()
