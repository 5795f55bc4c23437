"""Many asynchronous calls at once, on an event loop that turns only while its owner waits.

    submit ─► waiting ─► in flight (at most `capacity`) ─► finished

The loop runs on the caller's own thread, and nothing is handed on from inside it: whoever waits looks at the finished
calls once the loop has stopped. So a function is called on one thread only, and an operator behind it may have a loop
of its own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from millrace.runtime.failure import PROGRAM_ENDS, UserCodeError

# What calls that are given up may take to clean up behind themselves.
_FAREWELL_SECONDS = 5.0


class Call:
    """One record on its way through a function; `results` or `error` is set when it is finished."""

    __slots__ = ("error", "group", "results", "stamp", "value")

    def __init__(self, value: Any, stamp: int | None, group: CallGroup) -> None:
        self.value = value
        self.stamp = stamp
        self.group = group
        self.results: list[Any] = []
        self.error: Exception | None = None


class CallGroup(Protocol):
    """Whoever wants to know that a call is finished."""

    def finish(self, call: Call) -> None:
        """Take note. Runs inside the loop: nothing may be emitted here."""


class CallPool:
    """Calls `answer(value)` for each submitted call, at most `capacity` at a time, in the order of submission.

    What ends a program (or a task) and is raised inside the loop stops it, and is raised by `run_until`.
    """

    def __init__(self, function: Any, capacity: int, answer: Callable[[Any], Awaitable[list[Any]]]) -> None:
        self._function = function
        self._capacity = capacity
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._on_stray)
        self._waiting: deque[Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reached: Callable[[], bool] = bool
        self._fatal: BaseException | None = None
        self._dropping = False

    @property
    def waiting(self) -> int:
        """How many calls are not begun yet."""
        return len(self._waiting)

    def submit(self, calls: Iterable[Call]) -> None:
        """Take calls; they begin while somebody waits."""
        self._waiting.extend(calls)
        self._fill()

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Turn the loop until something is reached by finishing calls."""
        self._reached = reached
        if not reached() and self._fatal is None:
            self._loop.run_forever()
        self._raise_fatal()

    def poll(self) -> None:
        """Turn the loop once: what is ready goes on, nothing is waited for."""
        self._reached = bool
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        self._raise_fatal()

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function inside the loop; what it gives is awaited if it can be."""

        async def call() -> Any:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result

        return self._loop.run_until_complete(call())

    def fail(self, error: BaseException) -> None:
        """Stop the loop with an error, from inside it."""
        self._fatal = self._fatal or error
        self._loop.stop()

    def drop(self) -> None:
        """Give up all calls, and let those in flight clean up."""
        self._waiting.clear()
        tasks, self._tasks = self._tasks, set()
        if tasks:
            self._dropping = True
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_FAREWELL_SECONDS))
            self._dropping = False
        self._fatal = None

    def close(self) -> None:
        """Close the loop. Threads that a function has left behind are not waited for."""
        try:
            self.drop()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._capacity:
            self._tasks.add(self._loop.create_task(self._run(self._waiting.popleft())))

    async def _run(self, call: Call) -> None:
        try:
            call.results = await self._answer(call.value)
        except asyncio.CancelledError:
            if self._dropping:
                raise
            call.error = RuntimeError("the asynchronous call was cancelled")
        except Exception as error:
            call.error = error
        except GeneratorExit:
            raise
        except PROGRAM_ENDS as error:
            self.fail(UserCodeError.wrap(error, self._function, call.value))
        except BaseException as error:  # The task is being cancelled: asyncio would keep that to itself.
            self.fail(error)
        task = asyncio.current_task()
        if task not in self._tasks:  # It was given up, and has taken its time to notice: its answer does not count.
            return
        self._tasks.discard(task)
        call.group.finish(call)
        self._fill()
        if self._reached():
            self._loop.stop()

    def _on_stray(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What was raised in the loop outside of any call."""
        error = context.get("exception")
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            self.fail(error)
        else:
            loop.default_exception_handler(context)

    def _raise_fatal(self) -> None:
        if self._fatal is not None:
            raise self._fatal
