"""An event loop without a clock: when nothing is left to do, time
jumps to the next timer. The same input gives the same run.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

# What is to be called, and in which context.
Call = tuple[Context, Callable[..., object], tuple[Any, ...]]


class Handle:
    """What asyncio needs of a timer's handle, without what it keeps for debugging."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        self.call = None


class VirtualLoop(asyncio.AbstractEventLoop):
    """First come, first run, as in asyncio; whatever must vary is a delay that somebody draws."""

    def __init__(self) -> None:
        self._now = 0.0
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._count = 0
        self.failures: list[dict[str, Any]] = []

    def run_until(self, deadline: float, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Run until then, or until `stop` says so, which is asked whenever time is about to move."""
        asyncio._set_running_loop(self)
        try:
            ready = self._ready
            while True:
                while ready:
                    context, callback, args = ready.popleft()
                    context.run(callback, *args)
                if stop() or not self._advance(deadline):
                    return
        finally:
            asyncio._set_running_loop(None)

    def _advance(self, deadline: float) -> bool:
        timers, pop = self._timers, heapq.heappop
        while timers and timers[0][2].call is None:
            pop(timers)
        if not timers or timers[0][0] > deadline:
            self._now = max(self._now, deadline)
            return False
        now = self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            call = pop(timers)[2].call
            if call is not None:
                self._ready.append(call)
        return True

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> None:
        """Nobody here takes back what is to be called at once: there is no handle."""
        self._ready.append((context or copy_context(), callback, args))

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle((context or copy_context(), callback, args))
        self._count += 1
        heapq.heappush(self._timers, (self._now + delay, self._count, handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_later(when - self._now, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    # Asked for every future, and bool() is False without a frame of its own.
    get_debug = staticmethod(bool)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)
