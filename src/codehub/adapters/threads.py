"""Runs blocking work in threads. Leaves no thread behind: a cancelled caller waits for its end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable

P = ParamSpec("P")
T = TypeVar("T")

# Streams hold a thread while they wait for a pipe or a disk. In asyncio's own small pool they would delay all
# other work.
_STREAMS = ThreadPoolExecutor(max_workers=64, thread_name_prefix="codehub-blocking")


def begin(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start `work` in a thread. Whoever has the future waits for it."""
    return asyncio.get_running_loop().run_in_executor(_STREAMS, lambda: work(*args, **kwargs))


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do `work` in a thread. A cancelled caller still waits until the work has ended."""
    return await wait_for(begin(work, *args, **kwargs))


class BlockingReads:
    """Reads of a disk that may never answer.

    A caller that is cancelled leaves its thread behind; until that has ended, all other reads are refused.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._abandoned: asyncio.Future[Any] | None = None

    async def ask(self, work: Callable[[], T]) -> T:
        if self._abandoned is not None and not self._abandoned.done():
            raise BackendUnreachable(Message(Code.NOT_ANSWERING, {"place": self._name}))
        future = begin(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_retrieve_exception)
            self._abandoned = future
            raise


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # nobody else will


async def wait_for(future: asyncio.Future[T], *, hurry: Callable[[], None] = lambda: None) -> T:
    """Return the result of a thread's work.

    A cancelled caller calls `hurry`, which makes it end, and waits for it.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        hurry()
        await wait_until_done(future)
        raise


async def wait_until_done(future: asyncio.Future[T]) -> None:
    """Wait until the work has ended, however it ended and however often somebody cancels."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    _retrieve_exception(future)
    if cancelled is not None:
        raise cancelled
