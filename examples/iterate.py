"""Sends records round in a loop until they are done: how many steps does a number take to reach 1?

A step halves an even number and takes an odd one to three times itself and one (the Collatz problem). It prints

    1 takes 0 steps
    2 takes 1 steps
    4 takes 2 steps
    8 takes 3 steps
    5 takes 5 steps
    3 takes 7 steps
    6 takes 8 steps
    7 takes 16 steps
    9 takes 19 steps

in the order in which the numbers get there. What is fed back enters the loop again in the next epoch, so all numbers
take one step per epoch; the job ends when the loop is empty.
"""

from typing import NamedTuple

from millrace.datastream import StreamExecutionEnvironment


class Journey(NamedTuple):
    start: int
    now: int
    steps: int


def step(journey: Journey) -> Journey:
    """One step on the way to 1."""
    following = journey.now // 2 if journey.now % 2 == 0 else 3 * journey.now + 1
    return Journey(journey.start, following, journey.steps + 1)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    journeys = env.from_sequence(1, 9).map(lambda start: Journey(start, start, 0)).iterate()

    arrived = journeys.filter(lambda journey: journey.now == 1)
    journeys.close_with(journeys.filter(lambda journey: journey.now != 1).map(step))

    arrived.map(lambda journey: f"{journey.start} takes {journey.steps} steps").print()
    env.execute("steps to 1")


if __name__ == "__main__":
    main()
