"""Three failed log-ins of a user within a minute, with no successful one in between, and who gave up after two.

Log-ins arrive out of order by up to ten seconds; the pattern sees them in the order in which they happened. It prints

    alarm> 00:00:45 mallory failed three times, from 10.0.0.7, 10.0.0.8, 10.0.0.9
    alarm> 00:01:36 trent failed three times, from 10.0.0.3
    gave up> alice, after 2 failures

where alarms and those who gave up may take turns.
"""

from dataclasses import dataclass
from datetime import timedelta

from millrace.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
)
from millrace.common import Duration, Types, WatermarkStrategy
from millrace.datastream import OutputTag, StreamExecutionEnvironment


@dataclass(frozen=True)
class Login:
    user: str
    address: str
    failed: bool
    second: int


LOGINS = [
    Login("mallory", "10.0.0.7", True, 5),
    Login("alice", "10.0.0.1", True, 12),
    Login("mallory", "10.0.0.9", True, 45),  # It happened after the next one.
    Login("mallory", "10.0.0.8", True, 38),
    Login("alice", "10.0.0.1", False, 50),
    Login("trent", "10.0.0.3", True, 61),
    Login("alice", "10.0.0.1", True, 75),
    Login("trent", "10.0.0.3", True, 80),
    Login("alice", "10.0.0.1", True, 90),
    Login("trent", "10.0.0.3", True, 96),
    Login("bob", "10.0.0.2", False, 300),
]

GAVE_UP = OutputTag("gave up", Types.STRING())

FAILURES = (
    Pattern.begin("failures", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda login: login.failed)
    .times(3)
    .consecutive()
    .within(timedelta(minutes=1))
)


class Alarm(PatternProcessFunction, TimedOutPartialMatchHandler):
    """What is said about three failures, and about fewer when the minute is over."""

    def process_match(self, match, ctx):
        failures = match["failures"]
        addresses = ", ".join(sorted({failure.address for failure in failures}))
        time = timedelta(milliseconds=ctx.timestamp())
        yield f"{time!s:0>8} {failures[0].user} failed three times, from {addresses}"

    def process_timed_out_match(self, match, ctx):
        failures = match["failures"]
        if len(failures) > 1:
            ctx.output(GAVE_UP, f"{failures[0].user}, after {len(failures)} failures")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_assigner(
        lambda login, _: login.second * 1000
    )
    logins = env.from_collection(LOGINS, Types.DATACLASS(Login)).assign_timestamps_and_watermarks(in_time)
    by_user = logins.key_by(lambda login: login.user, Types.STRING())
    alarms = CEP.pattern(by_user, FAILURES).process(Alarm(), Types.STRING()).name("Alarm")

    alarms.print("alarm")
    alarms.get_side_output(GAVE_UP).print("gave up")
    env.execute("login failures")


if __name__ == "__main__":
    main()
