"""The real clock, randomness, ids and tasks: the only place that reaches for them."""

import asyncio
import random
import secrets
import time
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import UUID

import structlog

log = structlog.get_logger()


class SystemClock:
    monotonic = staticmethod(time.monotonic)  # called twice in every request: without a Python frame

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRandomness:
    def fraction(self) -> float:
        return random.random()  # noqa: S311  # jitter guards nothing

    def token(self) -> str:
        return secrets.token_urlsafe(32)


class SystemIdentity:
    """UUID version 7: 48 bits of milliseconds, then 74 bits nobody can guess."""

    def new_id(self) -> UUID:
        milliseconds = time.time_ns() // 1_000_000
        value = (milliseconds & ((1 << 48) - 1)) << 80 | secrets.randbits(80)
        value = value & ~(0xF << 76) | 7 << 76
        value = value & ~(0b11 << 62) | 0b10 << 62
        return UUID(int=value)


class SystemTasks:
    """asyncio tasks that are held until they end, and whose failures are logged, never lost."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._on_end)
        return task

    @property
    def running(self) -> Sequence[asyncio.Task[Any]]:
        """Those that have not ended, the oldest first."""
        return tuple(self._running)

    async def cancel_all(self) -> None:
        running = self.running
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed", task=task.get_name(), exc_info=error)
