"""The quick path of session windows: most records only move the end of their key's one session."""

from __future__ import annotations

from typing import Any

from millrace.runtime.time_domain import TimeDomain

from .assigners import EventTimeSessionWindows
from .assigners.base import require_timestamp
from .fast import FastWindowOperator
from .namespaces import Namespace
from .spec import WindowSpec

# A session: where it begins and ends, its accumulator, the namespace that this is kept under (None: not in state
# yet), and the namespace that the session itself has in state.
_START, _END, _ACCUMULATOR, _KEPT, _KNOWN = range(5)


class SessionWindowOperator(FastWindowOperator):
    """Sessions of event time with one gap, that take no late records.

    A session has at least one timer at or before its end. One that finds the session longer by now is set anew, so that
    a record need not move a timer. At the end of the epoch timers and state are what the general path has.
    """

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, EventTimeSessionWindows)
        self._gap = spec.assigner.gap

    def _forget(self) -> None:
        # Key → its sessions, of the keys that this epoch has touched.
        self._sessions: dict[Any, list[list[Any]]] = {}

    # --- records ------------------------------------------------------------------------------------------------

    def _add_each(self, records: Any) -> None:
        add, sessions, gap = self._add_value, self._sessions, self._gap
        for key, value, stamp in records:
            found = sessions.get(key)
            if found is not None and len(found) == 1:
                session = found[0]
                if session[0] <= stamp <= session[1]:
                    session[2] = add(value, session[2])
                    session[1] = max(session[1], stamp + gap)
                    continue
            self.keys.key = key
            self._place(self._of_key(key) if found is None else found, value, stamp)

    def _of_key(self, key: Any) -> list[list[Any]]:
        """The sessions of a key at its first record of the epoch."""
        found = self._sessions[key] = []
        if self._may_hold:
            assert self._in_flight is not None
            for window, kept in self._in_flight.items():
                found.append([*window, self._read(kept), kept, window])
        return found

    def _place(self, found: list[list[Any]], value: Any, stamp: int) -> None:
        """Add a record to the session that it begins, or that it makes of those that it touches."""
        start, end = require_timestamp(stamp), stamp + self._gap
        touched = sorted(session for session in found if session[_START] <= end and start <= session[_END])
        if not touched:
            if end - 1 <= self.watermark:
                if not found:
                    del self._sessions[self.keys.key]
                self.drop_late(value, stamp)
                return
            created = self._create()
            accumulator = value if created is None else self._add_value(value, created)
            self.event_timers.add(self.keys.key, (start, end), end - 1)
            found.append([start, end, accumulator, None, None])
            return
        first = touched[0]
        for other in touched[1:]:
            self._swallow(first, other)
            found.remove(other)
        first[_START], first[_END] = min(start, first[_START]), max(end, first[_END])
        first[_ACCUMULATOR] = self._add_value(value, first[_ACCUMULATOR])

    def _swallow(self, session: list[Any], other: list[Any]) -> None:
        session[_END] = max(session[_END], other[_END])
        session[_ACCUMULATOR] = self._merge(session[_ACCUMULATOR], other[_ACCUMULATOR])
        self._erase_session(other)

    # --- timers -------------------------------------------------------------------------------------------------

    def on_window_timer(self, timestamp: int, namespace: Namespace, domain: TimeDomain) -> None:
        key = self.keys.key
        found = self._sessions.get(key)
        if found is None:
            found = self._of_key(key)
        for session in list(found):
            start, end = session[_START], session[_END]
            if end - 1 == timestamp:
                found.remove(session)
                self._erase_session(session)
                self._emit_result(start, end, session[_ACCUMULATOR])
                self._end_window(start, end)
            elif start <= namespace[0] < end:
                self.event_timers.add(key, (start, end), end - 1)
        if not found:
            del self._sessions[key]

    # --- state --------------------------------------------------------------------------------------------------

    def _erase_session(self, session: list[Any]) -> None:
        """Take out of state what is there of a session of the current key."""
        if session[_KNOWN] is not None:
            assert self._in_flight is not None
            self._in_flight.forget(session[_KNOWN])
            self._erase(session[_KEPT])

    def _save(self) -> None:
        self._may_hold = True
        for self.keys.key, found in self._sessions.items():
            for session in found:
                self._save_session(session)
        self._sessions = {}

    def _save_session(self, session: list[Any]) -> None:
        window = (session[_START], session[_END])
        kept = session[_KEPT] or window
        if session[_KNOWN] != window:
            assert self._in_flight is not None
            if session[_KNOWN] is not None:
                self._in_flight.forget(session[_KNOWN])
            self._in_flight.remember(window, kept)
            self.event_timers.add(self.keys.key, window, window[1] - 1)
        self._write(kept, session[_ACCUMULATOR])
