"""The quick path of session windows: most records only move the end of their key's one session."""

from __future__ import annotations

from typing import Any

from .assigners import EventTimeSessionWindows
from .assigners.base import require_timestamp
from .fast import FastWindowOperator
from .spec import WindowSpec

# A session: where it begins and ends, its accumulator, the namespace that this is kept under (None: not in state
# yet), the namespace that the session itself has in state, and the other sessions of the key (None: there are none).
_START, _END, _ACCUMULATOR, _KEPT, _KNOWN, _OTHERS = range(6)

_Session = list[Any]


class SessionWindowOperator(FastWindowOperator):
    """Sessions of event time with one gap, that take no late records.

    A session that began in this epoch is looked at when it would have ended then; if it is longer by now, it is
    looked at again at its new end. So a record need not move a timer. At the end of the epoch timers and state are
    what the general path has.
    """

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assert isinstance(spec.assigner, EventTimeSessionWindows)
        self._gap = spec.assigner.gap

    def _forget(self) -> None:
        super()._forget()
        # Key → its first session, of the keys that this epoch has touched.
        self._sessions: dict[Any, _Session] = {}

    # --- records ------------------------------------------------------------------------------------------------

    def _add_each(self, records: Any) -> None:
        add, known, gap = self._add_value, self._sessions.get, self._gap
        for key, value, stamp in records:
            session = known(key)
            if session is not None and session[0] <= stamp <= session[1] and session[5] is None:
                session[2] = add(value, session[2])
                if stamp + gap > session[1]:  # noqa: PLR1730 (a call of max costs more)
                    session[1] = stamp + gap
            else:
                self.keys.key = key
                self._place(value, stamp)

    def _place(self, value: Any, stamp: int) -> None:
        """Add a record to the session that it begins, or that it makes of those that it touches."""
        start, end = require_timestamp(stamp), stamp + self._gap
        found = self._of_key()
        touched = sorted(session for session in found if session[_START] <= end and start <= session[_END])
        if not touched:
            if end - 1 <= self.watermark:
                self.drop_late(value, stamp)
                return
            created = self._create()
            accumulator = value if created is None else self._add_value(value, created)
            found.append([start, end, accumulator, None, None, None])
            self._look_again(end - 1)
        else:
            first = touched[0]
            for other in touched[1:]:
                self._swallow(first, other)
                found.remove(other)
            first[_START], first[_END] = min(start, first[_START]), max(end, first[_END])
            first[_ACCUMULATOR] = self._add_value(value, first[_ACCUMULATOR])
        self._keep(found)

    def _swallow(self, session: _Session, other: _Session) -> None:
        session[_END] = max(session[_END], other[_END])
        session[_ACCUMULATOR] = self._merge(session[_ACCUMULATOR], other[_ACCUMULATOR])
        self._erase_session(other)

    def _of_key(self) -> list[_Session]:
        """The sessions of the current key."""
        first = self._sessions.get(self.keys.key)
        if first is not None:
            return [first, *(first[_OTHERS] or ())]
        if not self._may_hold:
            return []
        assert self._in_flight is not None
        return [[*window, self._read(kept), kept, window, None] for window, kept in self._in_flight.items()]

    def _keep(self, found: list[_Session]) -> None:
        """These are the sessions of the current key now."""
        if found:
            self._sessions[self.keys.key] = found[0]
            found[0][_OTHERS] = found[1:] or None
        else:
            self._sessions.pop(self.keys.key, None)

    # --- time ---------------------------------------------------------------------------------------------------

    def _due(self, timestamp: int) -> None:
        """A session of the current key would end now, if no record had come since that was noted."""
        found = self._of_key()
        last_record = timestamp + 1 - self._gap
        for session in found:
            start, end = session[_START], session[_END]
            if end - 1 == timestamp:
                found.remove(session)
                self._erase_session(session)
                self._keep(found)
                self._emit_result(start, end, session[_ACCUMULATOR])
                self._end_window(start, end)
                return
            if start <= last_record < end:
                self._look_again(end - 1)
                return

    # --- state --------------------------------------------------------------------------------------------------

    def _erase_session(self, session: _Session) -> None:
        """Take out of state what is there of a session of the current key."""
        known = session[_KNOWN]
        if known is not None:
            assert self._in_flight is not None
            self._in_flight.forget(known)
            self._erase(session[_KEPT])
            self.event_timers.remove(self.keys.key, known, known[1] - 1)

    def _save(self) -> None:
        keys = self.keys
        for keys.key, first in self._sessions.items():
            self._save_session(first)
            for session in first[_OTHERS] or ():
                self._save_session(session)

    def _save_session(self, session: _Session) -> None:
        window, known = (session[_START], session[_END]), session[_KNOWN]
        kept = session[_KEPT] or window
        if known != window:
            assert self._in_flight is not None
            if known is not None:
                self._in_flight.forget(known)
                self.event_timers.remove(self.keys.key, known, known[1] - 1)
            self._in_flight.remember(window, kept)
            self.event_timers.add(self.keys.key, window, window[1] - 1)
        self._write(kept, session[_ACCUMULATOR])
