"""Blocking work goes in, its result comes out of a thread. Refuses to leave a thread behind: cancelled, it waits for its end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Streams hold a thread while they wait for a pipe or a disk. In asyncio's own small pool they would hold up everybody's looks.
_STREAMS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="codehub-blocking")


def begin(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start `work` in a thread. Whoever has the future waits for it."""
    return asyncio.get_running_loop().run_in_executor(_STREAMS, lambda: work(*args, **kwargs))


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work` in a thread. A caller that is cancelled hears of it when the work has ended, and not before."""
    return await ended(begin(work, *args, **kwargs))


async def ended(working: asyncio.Future[T]) -> T:
    """Return what a thread's work came to. It is waited for even if the caller is cancelled."""
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await settled(working)
        raise


async def settled(working: asyncio.Future[T]) -> None:
    """Wait until the work has ended, however it ended and however often somebody cancels."""
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    if not working.cancelled():
        working.exception()  # looked at: nobody else will
    if cancelled is not None:
        raise cancelled
