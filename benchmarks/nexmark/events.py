"""The events: number n is computed from n alone, so that any reader can make any part of the stream, and make it again.

Proportions, ratios and sizes are those of Nexmark's generator. Its random numbers are not: see `_random_bits`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from millrace.common import Types, WatermarkStrategy
from millrace.datastream import DataStream, StreamExecutionEnvironment
from millrace.datastream.connectors import DataGeneratorSource

# Of 50 events the first is a person, the next three are auctions, and 46 are bids.
PERSONS, AUCTIONS, EVENTS = 1, 3, 50

FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
CATEGORIES = 5

# All bids but one of two are for the hot auction, all auctions but one of four by the hot seller, and so on.
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
# A hot one stays so until a hundred more have come.
HOT_FOR = 100

# The others are among the last so many, and up to ten that are yet to come.
OPEN_AUCTIONS, ACTIVE_PERSONS, LEAD = 100, 1000, 10

# Average sizes in bytes; the field `extra` fills them up.
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100

# Midnight of 15 July 2015, UTC: windows of whole seconds begin with it.
BASE_TIME = 1_436_918_400_000

_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland",
    "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip

# Strings are pieces of this text, which begin at one of so many places.
_PLACES = 4096
_TEXT = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz ", k=_PLACES + 2 * AUCTION_BYTES))
# A price is drawn from so many steps between 1.00 and 1,000,000.00, each the same factor above the one before.
_PRICE_STEPS = 1 << 20


@dataclass(slots=True)
class Person:
    """Somebody signs up."""

    id: int
    name: str
    email: str
    credit_card: str
    city: str
    state: str
    time: int
    extra: str


@dataclass(slots=True)
class Auction:
    """Somebody offers something, until `expires`."""

    id: int
    item: str
    description: str
    initial_bid: int
    reserve: int
    time: int
    expires: int
    seller: int
    category: int
    extra: str


@dataclass(slots=True)
class Bid:
    """Somebody bids, in cents."""

    auction: int
    bidder: int
    price: int
    time: int
    extra: str


Event = Person | Auction | Bid
PERSON, AUCTION, BID = Types.DATACLASS(Person), Types.DATACLASS(Auction), Types.DATACLASS(Bid)


@dataclass(frozen=True)
class Generator:
    """Makes the event with a number. In groups of `out_of_order` events the order of their times is shuffled."""

    events_per_second: int = 10_000
    out_of_order: int = 1

    def __call__(self, number: int) -> Event:
        cycle, place = divmod(number, EVENTS)
        bits = _random_bits(number)
        if place < PERSONS:
            return _person(cycle, self.time_of(number), bits)
        if place < PERSONS + AUCTIONS:
            time = self.time_of(number)
            return _auction(cycle, cycle * AUCTIONS + place - PERSONS, time, self._twice_average_length, bits)
        return _bid(cycle, cycle * AUCTIONS + AUCTIONS - 1, self.time_of(number), bits)

    def time_of(self, number: int) -> int:
        """When an event happened. 953 is prime, so that each event of a group has a time of its own."""
        place = number % self.out_of_order
        shuffled = number - place + number * 953 % self.out_of_order
        return BASE_TIME + shuffled * 1000 // self.events_per_second

    @property
    def _twice_average_length(self) -> int:
        """Auctions are open, on the average, until `OPEN_AUCTIONS` more have come."""
        events = OPEN_AUCTIONS * EVENTS // AUCTIONS
        return max(1, 2 * events * 1000 // self.events_per_second)

    @property
    def disorder(self) -> int:
        """By how many milliseconds an event can be behind one before it."""
        return self.out_of_order * 1000 // self.events_per_second + 1


def time_of(event: Event, _before: int) -> int:
    """An event's timestamp."""
    return event.time


def read(env: StreamExecutionEnvironment, generator: Generator, count: int) -> DataStream:
    """The first `count` events as a stream with timestamps and watermarks."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(generator.disorder).with_timestamp_assigner(time_of)
    return env.from_source(DataGeneratorSource(generator, count), strategy, "Nexmark")


# --- events ---------------------------------------------------------------------------------------------------

_MASK = (1 << 64) - 1


def _random_bits(number: int) -> int:
    """128 bits that look random and depend on the number alone: SplitMix64, twice.

    They are used up from below: `bits, choice = divmod(bits, choices)`.
    """
    return _mix(2 * number) << 64 | _mix(2 * number + 1)


def _mix(number: int) -> int:
    bits = (number + 1) * 0x9E3779B97F4A7C15 & _MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31


def _person(number: int, time: int, bits: int) -> Person:
    bits, first = divmod(bits, len(_FIRST_NAMES))
    bits, last = divmod(bits, len(_LAST_NAMES))
    bits, city = divmod(bits, len(_CITIES))
    bits, state = divmod(bits, len(_STATES))
    bits, card = divmod(bits, 10**16)
    bits, mailbox = divmod(bits, _PLACES)
    bits, domain = divmod(bits, _PLACES)
    digits = f"{card:016}"
    name = f"{_FIRST_NAMES[first]} {_LAST_NAMES[last]}"
    email = f"{_TEXT[mailbox : mailbox + 7]}@{_TEXT[domain : domain + 5]}.com"
    credit_card = f"{digits[:4]} {digits[4:8]} {digits[8:12]} {digits[12:]}"
    used = 8 + len(name) + len(email) + len(credit_card) + len(_CITIES[city]) + 2
    extra = _extra(bits, PERSON_BYTES - used)
    return Person(FIRST_PERSON + number, name, email, credit_card, _CITIES[city], _STATES[state], time, extra)


def _auction(person: int, number: int, time: int, twice_average_length: int, bits: int) -> Auction:
    bits, choice = divmod(bits, HOT_SELLERS)
    bits, other = _any_person(bits, person)
    seller = person // HOT_FOR * HOT_FOR if choice else other
    bits, category = divmod(bits, CATEGORIES)
    bits, initial_bid = _price(bits)
    bits, above = _price(bits)
    bits, length = divmod(bits, twice_average_length)
    bits, item = divmod(bits, _PLACES)
    return Auction(
        FIRST_AUCTION + number,
        _TEXT[item : item + 3 + item % 17],
        _TEXT[item : item + 3 + item % 97],
        initial_bid,
        initial_bid + above,
        time,
        time + 1 + length,
        FIRST_PERSON + seller,
        FIRST_CATEGORY + category,
        _extra(bits, AUCTION_BYTES - 6 * 8 - 3 - item % 17 - 3 - item % 97),
    )


def _bid(person: int, last_auction: int, time: int, bits: int) -> Bid:
    bits, choice = divmod(bits, HOT_AUCTIONS)
    if choice:
        auction = last_auction // HOT_FOR * HOT_FOR
    else:
        oldest = max(0, last_auction - OPEN_AUCTIONS)
        bits, ahead = divmod(bits, last_auction - oldest + 1 + LEAD)
        auction = oldest + ahead
    bits, choice = divmod(bits, HOT_BIDDERS)
    bits, other = _any_person(bits, person)
    # The one behind the hot seller: these two do not meet.
    bidder = person // HOT_FOR * HOT_FOR + 1 if choice else other
    bits, price = _price(bits)
    return Bid(FIRST_AUCTION + auction, FIRST_PERSON + bidder, price, time, _extra(bits, BID_BYTES - 4 * 8))


def _any_person(bits: int, newest: int) -> tuple[int, int]:
    active = min(newest + 1, ACTIVE_PERSONS)
    bits, ahead = divmod(bits, active + LEAD)
    return bits, newest + 1 - active + ahead


def _price(bits: int) -> tuple[int, int]:
    bits, step = divmod(bits, _PRICE_STEPS)
    return bits, round(10 ** (step / _PRICE_STEPS * 6) * 100)


def _extra(bits: int, average: int) -> str:
    """A text of about this length, a fifth more or less."""
    bits, start = divmod(bits, _PLACES)
    fifth = round(average * 0.2)
    return _TEXT[start : start + average - fifth + bits % (2 * fifth)]
