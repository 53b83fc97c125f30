"""Several things awaited at once, of which one decides.

Whatever is still under way is ended before the answer is given.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Return, or raise, as the first of them does."""
    tasks = [asyncio.ensure_future(work) for work in works]  # noqa: TID251  # joined below, whatever happens
    try:
        done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Return what it returns, or None if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return None
