"""The keyed operator behind a PatternStream: orders the events of a key, and lets its partial matches see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

from millrace.common.errors import ProgramError
from millrace.common.time import MAX_WATERMARK
from millrace.common.typeinfo import TypeInformation
from millrace.runtime.batch import Batch
from millrace.runtime.failure import UserCodeError
from millrace.runtime.operators.keyed import KeyedOperator
from millrace.runtime.output_tag import OutputTag
from millrace.runtime.time_domain import TimeDomain

from .automaton import Automaton
from .conditions import ConditionError, User
from .functions import PatternContext
from .matching import Match
from .nfa import NFA, Outcome
from .saved import Search, SearchStore

# Takes a match and a context, gives results.
OnMatch = Callable[[Match, PatternContext], Iterable[Any] | None]

LATE_RECORDS = "numLateRecordsDropped"


class CepOperator(KeyedOperator):
    """Runs an automaton for each key.

    In event time, events wait in state until the watermark has passed them. A key has one timer: for the earliest
    event that waits or the earliest partial match that times out, whatever comes first.
    """

    def __init__(
        self,
        automaton: Automaton,
        function: Any,
        on_match: OnMatch,
        on_timeout: OnMatch | None = None,
        *,
        further_functions: tuple[Any, ...] = (),
        event_type: TypeInformation | None = None,
        comparator: Callable[[Any, Any], int] | None = None,
        late_tag: OutputTag | None = None,
        event_time: bool = True,
    ) -> None:
        super().__init__(function)
        self._automaton = automaton
        self._on_match = on_match
        self._on_timeout = on_timeout
        self._further_functions = further_functions
        self._event_type = event_type
        self._comparator = comparator
        self._late_tag = late_tag
        self._event_time = event_time

    # --- life ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        super().open()
        for function in self._also_opened():
            opening = getattr(function, "open", None)
            if callable(opening):
                opening(self.context.runtime_context)
        self._nfa = NFA(self._automaton, self._on_timeout is not None, lambda: self.context.processing_time)
        self._store = SearchStore(self.backends.keyed, self._event_type, self._nfa.states)
        self._searches: dict[Any, Search] = {}
        self._ctx = _Context(self)
        self._late = self.context.metrics.counter(LATE_RECORDS)
        self._order = None if self._comparator is None else cmp_to_key(self._comparator)
        self._timers = self.event_timers if self._event_time else self.processing_timers

    def _also_opened(self) -> list[Any]:
        """The timeout function, and the conditions, each once."""
        leaves: dict[int, User] = {}
        for state in self._automaton.states:
            for edge in state.edges:
                leaves.update((id(leaf.function), leaf) for leaf in edge.condition.leaves())
        return [*self._further_functions, *(leaf.function for leaf in leaves.values())]

    def close(self) -> None:
        try:
            super().close()
        finally:
            for function in self._also_opened():
                closing = getattr(function, "close", None)
                if callable(closing):
                    closing()

    def begin(self) -> None:
        # What an attempt that failed has left here does not count.
        self._searches.clear()
        super().begin()

    def end_of_epoch(self) -> None:
        if self.context.keeps_state:
            for key, search in self._searches.items():
                self.keys.key = key
                self._store.save(search)
            self._searches.clear()
        super().end_of_epoch()

    def finish_key(self) -> None:
        super().finish_key()
        self._searches.clear()

    # --- events -------------------------------------------------------------------------------------------------

    def process(self, batch: Batch, side: int) -> None:
        if not self._event_time:
            self._process_now(batch)
            return
        if batch.timestamps is None:
            error = ProgramError(
                "The records have no timestamps, and patterns are looked for in event time.",
                action="Put assign_timestamps_and_watermarks(...) before the pattern, or use in_processing_time().",
            )
            raise UserCodeError.wrap(error, self.function, batch.values[0], "event time of")
        watermark = self.watermark
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
            if timestamp > watermark:
                self._wait(value, timestamp)
            elif self._late_tag is not None:
                self.emit_side(self._late_tag, value, timestamp)
            else:
                self._late.inc()

    def _wait(self, value: Any, timestamp: int) -> None:
        search = self._search_for(value)
        search.wait(timestamp, value)
        if search.timer is None or timestamp < search.timer:
            self._set_timer(search, timestamp)

    def _process_now(self, batch: Batch) -> None:
        """Processing time: events are in order, unless a comparator has something to say about that."""
        now = self.context.processing_time
        results = _Results()
        for value in batch.values:
            if self._order is not None:
                self._wait(value, now)
                continue
            search = self._search_for(value)
            self._advance(search, now, results)
            self._see(search, value, now, results)
            self._reschedule(search)
        self._emit(results)

    def _search_for(self, value: Any) -> Search:
        """The search of the record's key, which becomes the current one."""
        try:
            key = self.keys.key = self.selectors[0](value)
        except Exception as error:
            raise UserCodeError.wrap(error, self.selectors[0], value, "the key selector") from error
        return self._searches.get(key) or self._load(key)

    def _load(self, key: Any) -> Search:
        search = self._searches[key] = self._store.load()
        # Where the program has changed since the state was saved, another timer may have been set.
        self._reschedule(search)
        return search

    # --- time ---------------------------------------------------------------------------------------------------

    def advance(self, watermark: int) -> None:
        if not self._event_time and watermark == MAX_WATERMARK:
            # No epoch comes in which the events could be put in order.
            self._fire(self.processing_timers, self.context.processing_time, TimeDomain.PROCESSING_TIME)
        super().advance(watermark)

    def _fire(self, timers: Any, until: int, domain: TimeDomain) -> None:
        results = _Results()
        while (timer := timers.pop_due(until)) is not None:
            _, _, key, _ = timer
            self.keys.key = key
            search = self._searches.get(key)
            if search is None:
                search = self._searches[key] = self._store.load()
            search.timer = None
            self._run(search, until, results)
        self._emit(results)

    def _run(self, search: Search, until: int, results: _Results) -> None:
        """Process what waits and is due, then let time go on."""
        while search.waiting and search.waiting[0][0] <= until:
            timestamp, values = search.take_next()
            self._advance(search, timestamp, results)
            for value in values if self._order is None else self._sorted(values):
                self._see(search, value, timestamp, results)
        self._advance(search, until, results)
        self._reschedule(search)

    def _sorted(self, values: list[Any]) -> list[Any]:
        try:
            return sorted(values, key=self._order)
        except Exception as error:
            raise UserCodeError.wrap(error, self._comparator, values[0], "the comparator") from error

    def on_timer(self, timestamp: int, namespace: Any, domain: TimeDomain, results: list[Any]) -> None:
        """`_fire` does it all: a key's results have timestamps of their own."""

    def _reschedule(self, search: Search) -> None:
        """Set the key's timer for what comes next."""
        due = self._nfa.deadline(search.matching)
        if search.waiting and (due is None or search.waiting[0][0] < due):
            due = search.waiting[0][0]
        if due != search.timer:
            self._set_timer(search, due)

    def _set_timer(self, search: Search, due: int | None) -> None:
        key = self.keys.key
        if search.timer is not None:
            self._timers.remove(key, None, search.timer)
        search.timer = due
        if due is not None and not self.time_is_over:
            self._timers.add(key, None, due)

    # --- matches ------------------------------------------------------------------------------------------------

    def _see(self, search: Search, value: Any, timestamp: int, results: _Results) -> None:
        try:
            matches = self._nfa.process(search.matching, value, timestamp)
        except ConditionError as error:
            if self.policy.action == "fail":
                raise UserCodeError.wrap(error.cause, error.function, value, "a condition,") from error.cause
            self.bad_record(value, error.cause)
            return
        for match in matches:
            self._tell(self._on_match, match, timestamp, results)

    def _advance(self, search: Search, timestamp: int, results: _Results) -> None:
        if search.matching.runs:
            for outcome in self._nfa.advance(search.matching, timestamp):
                self._tell_outcome(outcome, results)

    def _tell_outcome(self, outcome: Outcome, results: _Results) -> None:
        call = self._on_match if outcome.complete else self._on_timeout
        assert call is not None
        self._tell(call, outcome.match, outcome.timestamp, results)

    def _tell(self, call: OnMatch, match: Match, timestamp: int, results: _Results) -> None:
        self._ctx.now = timestamp
        try:
            found = call(match, self._ctx)
            values = [] if found is None else list(found)
        except Exception as error:
            self.bad_record(match, error)
            return
        results.values += values
        results.timestamps += [timestamp] * len(values)

    def _emit(self, results: _Results) -> None:
        if results.values:
            self.emit(results.values, results.timestamps if self._event_time else None)


class _Results:
    """What was made of matches, with timestamps."""

    __slots__ = ("timestamps", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] = []


class _Context(PatternContext):
    """`ctx` of the functions of matches."""

    def __init__(self, operator: CepOperator) -> None:
        self._operator = operator
        self.now = 0

    def timestamp(self) -> int:
        return self.now

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time

    def output(self, tag: OutputTag, value: Any) -> None:
        self._operator.emit_side(tag, value, self.now if self._operator._event_time else None)
