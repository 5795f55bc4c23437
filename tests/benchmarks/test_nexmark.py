"""Nexmark's programs answer what Spark SQL answers over the same events; and the events are Nexmark's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, is_dataclass
from itertools import accumulate
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.nexmark.batch import answers, make_tables
from benchmarks.nexmark.closing import Closed, ClosingPrice
from benchmarks.nexmark.events import BASE_TIME, Auction, Bid, Event, Generator, Person, read
from benchmarks.nexmark.queries import QUERIES
from millrace.common import Configuration, Types
from millrace.datastream import StreamExecutionEnvironment
from millrace.testing import InProcessExecutor, KeyedTwoInputHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 20_000
# A hundred seconds of event time, so that there are windows enough; half a second of it is shuffled.
GENERATOR = Generator(events_per_second=200, out_of_order=100)
# No divisor of a group, of a window or of the whole.
EPOCH_RECORDS = 2_999


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[SparkSession]:
    partitions = "spark.sql.shuffle.partitions"
    before = spark.conf.get(partitions)
    assert before is not None
    spark.conf.set(partitions, "2")  # Spark's 200 take ten seconds for a query.
    make_tables(spark, GENERATOR, COUNT)
    yield spark
    spark.conf.set(partitions, before)
    for name in ("person", "auction", "bid"):
        spark.catalog.dropTempView(name)


def answered(env: StreamExecutionEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    stream = QUERIES[query](read(env, GENERATOR, COUNT))
    return Counter(astuple(record) if is_dataclass(record) else record for record in stream.execute_and_collect())


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_a_program_answers_what_spark_sql_answers(tables: SparkSession, query: str) -> None:
    wanted = Counter(answers(tables, query))
    assert sum(wanted.values()) >= 10
    env = StreamExecutionEnvironment.get_execution_environment()
    assert answered(env.set_parallelism(2), query) == wanted
    cut = Configuration().set_integer("millrace.epoch.max-records", EPOCH_RECORDS)
    env = StreamExecutionEnvironment.get_execution_environment(cut)
    assert answered(env.set_parallelism(2), query) == wanted


@pytest.mark.parametrize("query", QUERIES)
def test_epochs_and_parallelism_do_not_change_the_answers(query: str) -> None:
    found = []
    for parallelism, records in ((1, COUNT), (3, 197)):
        env = StreamExecutionEnvironment.create_with_executor(InProcessExecutor(every_epoch=True))
        env.configure(Configuration().set_integer("millrace.epoch.max-records", records))
        found.append(answered(env.set_parallelism(parallelism), query))
    assert found[0] == found[1]


# --- events -----------------------------------------------------------------------------------------------------


def of_kind(kind: type, events: list[Event]) -> list[Any]:
    return [event for event in events if type(event) is kind]


def size(event: Event) -> int:
    return sum(len(field) if isinstance(field, str) else 8 for field in astuple(event))


def test_an_event_depends_on_its_number_alone() -> None:
    generator = Generator()
    numbers = range(3_000)
    assert [generator(number) for number in numbers] == [generator(number) for number in reversed(numbers)][::-1]


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_are_bids() -> None:
    events = [Generator()(number) for number in range(500)]
    assert Counter(map(type, events)) == {Person: 10, Auction: 30, Bid: 460}
    assert [person.id for person in of_kind(Person, events)] == list(range(1000, 1010))
    assert [auction.id for auction in of_kind(Auction, events)] == list(range(1000, 1030))


@pytest.mark.parametrize(("kind", "average"), [(Person, 200), (Auction, 500), (Bid, 100)])
def test_events_have_the_average_size_of_their_kind(kind: type, average: int) -> None:
    events = of_kind(kind, [Generator()(number) for number in range(20_000)])
    assert mean(map(size, events)) == pytest.approx(average, rel=0.06)


def test_half_of_the_bids_are_for_the_hot_auction_and_prices_are_uniform_in_their_logarithm() -> None:
    bids = of_kind(Bid, [Generator()(number) for number in range(50_000)])
    hot = [bid for bid in bids if bid.auction % 100 == 0]
    assert len(hot) / len(bids) == pytest.approx(0.5, abs=0.02)
    for decade in range(2, 8):
        share = sum(10**decade <= bid.price < 10 ** (decade + 1) for bid in bids) / len(bids)
        assert share == pytest.approx(1 / 6, abs=0.01)


def test_three_auctions_of_four_are_the_hot_sellers_and_three_bids_of_four_the_hot_bidders() -> None:
    events = [Generator()(number) for number in range(100_000)]
    auctions, bids = of_kind(Auction, events), of_kind(Bid, events)
    assert mean(auction.seller % 100 == 0 for auction in auctions) == pytest.approx(0.75, abs=0.02)
    assert mean(bid.bidder % 100 == 1 for bid in bids) == pytest.approx(0.75, abs=0.02)


def test_auctions_are_open_for_as_long_as_a_hundred_more_take_to_come() -> None:
    auctions = of_kind(Auction, [Generator()(number) for number in range(100_000)])
    assert mean(auction.expires - auction.time for auction in auctions) == pytest.approx(100 / 3 * 50 / 10, rel=0.03)


def test_times_are_evenly_spaced_and_shuffled_within_a_group() -> None:
    in_order = [Generator(events_per_second=1000)(number).time for number in range(1000)]
    assert in_order == list(range(BASE_TIME, BASE_TIME + 1000))
    shuffling = Generator(events_per_second=1000, out_of_order=100)
    shuffled = [shuffling(number).time for number in range(1000)]
    assert shuffled != in_order
    assert sorted(shuffled) == in_order
    behind = [latest - time for latest, time in zip(accumulate(shuffled, max), shuffled, strict=True)]
    assert 90 <= max(behind) <= shuffling.disorder


# --- closing auctions -------------------------------------------------------------------------------------------


def auction(begins: int, expires: int) -> Auction:
    return Auction(7, "item", "", 1, 1, begins, expires, 3, 10, "")


def bid(time: int, price: int) -> Bid:
    return Bid(7, 1, price, time, "")


@pytest.fixture
def closing() -> Iterator[KeyedTwoInputHarness]:
    harness = KeyedTwoInputHarness(
        ClosingPrice(), lambda auction: auction.id, lambda bid: bid.auction, key_type=Types.LONG()
    )
    with harness:
        yield harness


def test_an_auction_closes_at_the_highest_bid_from_its_beginning_to_its_end(closing: KeyedTwoInputHarness) -> None:
    closing.push1(auction(10, 20), 10)
    for time, price in ((9, 500), (10, 100), (20, 300), (21, 600)):
        closing.push2(bid(time, price), time)
    closing.watermark(20)
    assert closing.records == [(Closed(7, 3, 10, 20, 300), 20)]


def test_a_bid_may_come_before_its_auction(closing: KeyedTwoInputHarness) -> None:
    for time, price in ((9, 500), (10, 100), (15, 300), (15, 200), (21, 600)):
        closing.push2(bid(time, price), time)
    closing.push1(auction(10, 20), 10)
    closing.watermark(20)
    assert closing.records == [(Closed(7, 3, 10, 20, 300), 20)]


def test_what_nobody_bid_for_is_not_sold_and_nothing_of_it_is_kept(closing: KeyedTwoInputHarness) -> None:
    closing.push2(bid(5, 100), 5)
    closing.watermark(5)
    closing.push1(auction(10, 20), 10)
    closing.watermark(20)
    closing.push2(bid(30, 100), 30)
    closing.watermark(30)
    closing.end_epoch()
    assert closing.records == []
    assert closing.entries == {}
