"""The questions, as programs: each takes the stream of events and gives the stream of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.nexmark.closing import CLOSED, AverageOfLastTen, AveragePrice, ClosingPrice
from benchmarks.nexmark.events import AUCTION, BID, PERSON, Auction, Bid, Person
from millrace.common import Duration, Types
from millrace.datastream import (
    AggregateFunction,
    DataStream,
    KeyedCoProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from millrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from millrace.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

PERIOD = Duration.of_seconds(10)
LONG, STRING = Types.LONG(), Types.STRING()


def persons(events: DataStream) -> DataStream:
    """The people among the events."""
    return events.flat_map(lambda event: (event,) if type(event) is Person else (), PERSON).name("Persons")


def auctions(events: DataStream) -> DataStream:
    """The auctions among the events."""
    return events.flat_map(lambda event: (event,) if type(event) is Auction else (), AUCTION).name("Auctions")


def bids(events: DataStream) -> DataStream:
    """The bids among the events."""
    return events.flat_map(lambda event: (event,) if type(event) is Bid else (), BID).name("Bids")


# --- record by record -----------------------------------------------------------------------------------------


def q0_pass_through(events: DataStream) -> DataStream:
    """Every bid as it is: what reading and giving on cost."""
    return bids(events)


def q1_currency_conversion(events: DataStream) -> DataStream:
    """Every bid in euros."""
    return bids(events).map(in_euros, BID)


def in_euros(bid: Bid) -> Bid:
    """At 0.908 to the dollar, in whole cents."""
    return Bid(bid.auction, bid.bidder, bid.price * 908 // 1000, bid.time, bid.extra)


def q2_selection(events: DataStream) -> DataStream:
    """Auction and price of the bids for some auctions."""
    chosen = bids(events).filter(lambda bid: bid.auction % 123 == 0)
    return chosen.map(lambda bid: (bid.auction, bid.price), Types.TUPLE([LONG, LONG]))


# --- a join without windows -----------------------------------------------------------------------------------


def q3_local_item_suggestion(events: DataStream) -> DataStream:
    """Who sells something of category 10 in Oregon, Idaho or California, and in which auction."""
    nearby = persons(events).filter(lambda person: person.state in {"OR", "ID", "CA"})
    wanted = auctions(events).filter(lambda auction: auction.category == 10)
    sellers = nearby.connect(wanted).key_by(lambda person: person.id, lambda auction: auction.seller, LONG)
    return sellers.process(LocalItems(), Types.TUPLE([STRING, STRING, STRING, LONG]))


class LocalItems(KeyedCoProcessFunction):
    """Keeps each person for good; auctions wait for a seller who is yet to sign up."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seller = runtime_context.get_state(ValueStateDescriptor("seller", Types.TUPLE([STRING, STRING, STRING])))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", LONG))

    def process_element1(self, value: Person, ctx: Any) -> Iterator[tuple[str, str, str, int]]:
        seller = value.name, value.city, value.state
        self.seller.update(seller)
        for auction in self.waiting.get():
            yield *seller, auction
        self.waiting.clear()

    def process_element2(self, value: Auction, ctx: Any) -> Iterator[tuple[str, str, str, int]]:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(value.id)
        else:
            yield *seller, value.id


# --- what auctions close at -----------------------------------------------------------------------------------


def closed_auctions(events: DataStream) -> DataStream:
    """Each auction with a bid, when it expires, and the highest bid made while it was open."""
    both = auctions(events).connect(bids(events))
    by_auction = both.key_by(lambda auction: auction.id, lambda bid: bid.auction, LONG)
    return by_auction.process(ClosingPrice(), CLOSED)


def q4_average_price_for_a_category(events: DataStream) -> DataStream:
    """What the auctions of a category that closed in the last ten seconds were sold for, every five seconds."""
    windows = SlidingEventTimeWindows.of(PERIOD, Duration.of_seconds(5))
    by_category = closed_auctions(events).key_by(lambda closed: closed.category, LONG).window(windows)
    return by_category.aggregate(AveragePrice(), WithEnd(), Types.TUPLE([LONG, LONG]), Types.TUPLE([LONG] * 3))


def q6_average_selling_price_by_seller(events: DataStream) -> DataStream:
    """What the last ten auctions of a seller were sold for, each time that one closes."""
    by_seller = closed_auctions(events).key_by(lambda closed: closed.seller, LONG)
    return by_seller.process(AverageOfLastTen(), Types.TUPLE([LONG, LONG]))


# --- windows --------------------------------------------------------------------------------------------------


def q5_hot_items(events: DataStream) -> DataStream:
    """Which auctions have the most bids of the last ten seconds, every two seconds."""
    slide = Duration.of_seconds(2)
    windows = bids(events).key_by(lambda bid: bid.auction, LONG).window(SlidingEventTimeWindows.of(PERIOD, slide))
    counts = windows.aggregate(Count(), WithEnd(), LONG, Types.TUPLE([LONG] * 3))
    # A count has its window's last millisecond as its time: those of one sliding window are in one of two seconds.
    return counts.window_all(TumblingEventTimeWindows.of(slide)).process(Most(), Types.TUPLE([LONG] * 3))


class Count(AggregateFunction):
    """How many."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class WithEnd(ProcessWindowFunction[Any, Any, Any, Any]):
    """A window's only element, with its key and its end."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[tuple[int, int, int]]:
        for element in elements:
            yield key, context.window().end, element


class Most(ProcessAllWindowFunction[Any, Any, Any]):
    """Those with the greatest count, all of them if there are several."""

    def process(self, context: Any, elements: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
        counts = list(elements)
        most = max(count for _, _, count in counts)
        return (found for found in counts if found[2] == most)


def q7_highest_bid(events: DataStream) -> DataStream:
    """The highest bids of each ten seconds: first of each auction, and then of all."""
    windows = TumblingEventTimeWindows.of(PERIOD)
    of_each = bids(events).key_by(lambda bid: bid.auction, LONG).window(windows).aggregate(HighestBids())
    of_all = of_each.flat_map(lambda highest: highest, BID).window_all(windows).aggregate(HighestBids())
    return of_all.flat_map(lambda highest: highest, BID)


class HighestBids(AggregateFunction):
    """The bids with the highest price."""

    def create_accumulator(self) -> list[Bid]:
        return []

    def add(self, value: Bid, accumulator: list[Bid]) -> list[Bid]:
        if not accumulator or value.price > accumulator[0].price:
            return [value]
        if value.price == accumulator[0].price:
            accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Bid]) -> list[Bid]:
        return accumulator

    def merge(self, acc_a: list[Bid], acc_b: list[Bid]) -> list[Bid]:
        for bid in acc_b:
            acc_a = self.add(bid, acc_a)
        return acc_a


def q8_monitor_new_users(events: DataStream) -> DataStream:
    """Who signed up and offered something in the same ten seconds, and for how much at least."""
    joined = persons(events).join(auctions(events)).where(lambda person: person.id, LONG)
    in_windows = joined.equal_to(lambda auction: auction.seller).window(TumblingEventTimeWindows.of(PERIOD))
    return in_windows.apply(
        lambda person, auction: (person.id, person.name, auction.reserve), Types.TUPLE([LONG, STRING, LONG])
    )


Query = Callable[[DataStream], DataStream]

QUERIES: dict[str, Query] = {
    "q0": q0_pass_through,
    "q1": q1_currency_conversion,
    "q2": q2_selection,
    "q3": q3_local_item_suggestion,
    "q4": q4_average_price_for_a_category,
    "q5": q5_hot_items,
    "q6": q6_average_selling_price_by_seller,
    "q7": q7_highest_bid,
    "q8": q8_monitor_new_users,
}
