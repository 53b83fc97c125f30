"""Blocking work goes in, its result comes out of a thread. Refuses to leave a thread behind: cancelled, it waits for its end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from codehub.ports.backends import BackendUnreachable

P = ParamSpec("P")
T = TypeVar("T")

# Streams hold a thread while they wait for a pipe or a disk. In asyncio's own small pool they would hold up everybody's looks.
_STREAMS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="codehub-blocking")


def begin(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start `work` in a thread. Whoever has the future waits for it."""
    return asyncio.get_running_loop().run_in_executor(_STREAMS, lambda: work(*args, **kwargs))


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work` in a thread. A caller that is cancelled hears of it when the work has ended, and not before."""
    return await wait_for(begin(work, *args, **kwargs))


class Looking:
    """Questions to a disk that may never answer. Whoever gives up leaves the thread behind, and until that has ended all others are refused."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._hung: asyncio.Future[Any] | None = None

    async def ask(self, work: Callable[[], T]) -> T:
        if self._hung is not None and not self._hung.done():
            raise BackendUnreachable(f"{self._what} does not answer")
        asked = begin(work)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(_looked_at)
            self._hung = asked
            raise


def _looked_at(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()  # nobody else will


async def wait_for(working: asyncio.Future[T], *, hurry: Callable[[], None] = lambda: None) -> T:
    """Return what a thread's work came to. It is waited for even if the caller is cancelled, after `hurry`, which lets it end."""
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        hurry()
        await wait_until_done(working)
        raise


async def wait_until_done(working: asyncio.Future[T]) -> None:
    """Wait until the work has ended, however it ended and however often somebody cancels."""
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    _looked_at(working)
    if cancelled is not None:
        raise cancelled
