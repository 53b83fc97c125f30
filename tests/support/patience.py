"""Deadlines that count only time in which this process could run, and waits for a condition until one."""

import asyncio
import inspect
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

PATIENCE_S = 120.0
"""How long anything may take that is promised without a time: only what never comes takes longer."""
_TICK_S = 0.05
_LOOK_S = 0.01

T = TypeVar("T")


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """As asyncio.timeout, for what is promised within so many seconds."""
    async with asyncio.timeout(None) as limit:

        async def count() -> None:
            for _ in range(round(seconds / _TICK_S)):
                await asyncio.sleep(_TICK_S)
            limit.reschedule(asyncio.get_running_loop().time())

        counting = asyncio.create_task(count())
        try:
            yield
        finally:
            counting.cancel()


async def until(holds: Callable[[], object], *, seconds: float = PATIENCE_S) -> None:
    """Wait for a condition that tells nobody when it comes true. It may be a coroutine function."""
    async with within(seconds):
        while True:
            answer = holds()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(_LOOK_S)


async def ask_until(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], object], *, seconds: float = PATIENCE_S
) -> T:
    """Ask again and again until a condition holds of the answer. Returns that answer."""
    async with within(seconds):
        while not holds(answer := await ask()):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(_LOOK_S)
    return answer


def block_until(holds: Callable[[], T | None], *, seconds: float = PATIENCE_S, tick_s: float = _TICK_S) -> T:
    """The same for a test without an event loop. Returns the answer."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(tick_s)
    return answer


def ends_within(process: subprocess.Popen[Any], seconds: float) -> bool:
    for _ in range(round(seconds / _TICK_S)):
        if process.poll() is not None:
            return True
        time.sleep(_TICK_S)
    return process.poll() is not None
