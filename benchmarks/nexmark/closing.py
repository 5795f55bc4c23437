"""Auctions as they close, in event time: what the averages of queries 4 and 6 are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.nexmark.events import Auction, Bid
from millrace.common import Types
from millrace.datastream import AggregateFunction, KeyedCoProcessFunction, KeyedProcessFunction, RuntimeContext
from millrace.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

LONG = Types.LONG()


@dataclass(slots=True)
class Closed:
    """An auction that has expired and was bid for."""

    auction: int
    seller: int
    category: int
    time: int
    price: int


CLOSED = Types.DATACLASS(Closed)


class ClosingPrice(KeyedCoProcessFunction):
    """Emits an auction when it expires, with the highest bid from its beginning to its end, both included.

    A bid may come before its auction. Once the watermark has reached the bid's time, an auction that was open then
    would be there: such a bid is for an auction that is over, or was not open yet, and is forgotten.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        terms = Types.TUPLE([LONG] * 5)
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", terms))
        self.highest = runtime_context.get_state(ValueStateDescriptor("highest", LONG))
        self.early = runtime_context.get_map_state(MapStateDescriptor("early bids", LONG, LONG))

    def process_element1(self, value: Auction, ctx: Any) -> None:
        self.auction.update((value.id, value.seller, value.category, value.time, value.expires))
        prices = [price for time, price in self.early.items() if value.time <= time <= value.expires]
        if prices:
            self.highest.update(max(prices))
        self.early.clear()
        ctx.timer_service().register_event_time_timer(value.expires)

    def process_element2(self, value: Bid, ctx: Any) -> None:
        auction = self.auction.value()
        if auction is None:
            self.early.put(value.time, max(value.price, self.early.get(value.time) or 0))
            ctx.timer_service().register_event_time_timer(value.time)
        elif auction[3] <= value.time <= auction[4] and value.price > (self.highest.value() or 0):
            self.highest.update(value.price)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Closed]:
        auction, price = self.auction.value(), self.highest.value()
        if auction is None:
            self.early.remove(timestamp)
            return
        number, seller, category, _begins, expires = auction
        if expires == timestamp:
            self.auction.clear()
            self.highest.clear()
            if price is not None:
                yield Closed(number, seller, category, timestamp, price)


class AveragePrice(AggregateFunction):
    """The average of closing prices, in whole cents; the accumulator is their sum and their number."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Closed, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.price, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[0] // accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AverageOfLastTen(KeyedProcessFunction):
    """For each auction of a seller that closes, the average of the last ten prices, this one's included.

    Auctions of a seller come from several subtasks, in any order. They wait for the watermark and are
    taken in the order of time; of those that close in the same millisecond the lower number is the first.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        at_time = Types.LIST(Types.TUPLE([LONG, LONG]))
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", LONG, at_time))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last prices", LONG))

    def process_element(self, value: Closed, ctx: Any) -> None:
        self.waiting.put(value.time, [*(self.waiting.get(value.time) or ()), (value.auction, value.price)])
        ctx.timer_service().register_event_time_timer(value.time)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int]]:
        prices = list(self.last.get())
        for _auction, price in sorted(self.waiting.get(timestamp)):
            prices = [*prices, price][-10:]
            yield ctx.get_current_key(), sum(prices) // len(prices)
        self.last.update(prices)
        self.waiting.remove(timestamp)
