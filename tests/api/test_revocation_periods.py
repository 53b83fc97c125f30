"""Keys that ended and whose hint was lost (security 25): the API checks what it has open at least every 2 s.

No time is measured: the clock here stands still, records how long somebody waits before the next check, and
goes on when the test says so.
"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.support.engine import EPOCH, ManualClock
from tests.support.patience import until

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.system.machine import SystemTasks
from codehub.api.feed import LiveFeed
from codehub.core.access import Person, Role, Scope, User

ANN = User(UUID(int=1), "ann", Role.MEMBER, disabled=False, created_at=EPOCH)
LOOK_S_MAX = 2.0


class StillClock(ManualClock):
    """Whoever sleeps does so until the test goes on by as long as they asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._next = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self._next.wait()

    async def go_on(self) -> float:
        """Let the next wait end, and return how long it was."""
        await until(lambda: bool(self.waits))
        (waited,), self.waits = self.waits, []
        going, self._next = self._next, asyncio.Event()
        self.seconds += waited
        going.set()
        return waited


async def test_streams_and_logs_are_asked_about_at_least_every_two_seconds() -> None:
    clock, users_by_keys = StillClock(), {b"key": ANN}

    async def keys_that_open(_keys: object) -> dict[bytes, User]:
        return dict(users_by_keys)

    tasks = SystemTasks()
    parts = SimpleNamespace(
        store=None,
        hints=MemoryHints(),
        people_hints=MemoryHints(),
        tasks=tasks,
        clock=clock,
        access=SimpleNamespace(users_by_keys=keys_that_open),
        ceilings=SimpleNamespace(streams=8),
    )
    feed = LiveFeed(cast("Any", parts), cast("Any", None))
    tasks.spawn(feed.run(), name="feed")
    stream = await feed.hold(Person(ANN, Scope.WRITE, is_token=True, key_sha256=b"key", expires_at=None))
    for _ in range(3):
        assert await clock.go_on() <= LOOK_S_MAX
        await until(lambda: bool(clock.waits))
        assert not stream.is_ended.is_set()
    users_by_keys.clear()
    assert await clock.go_on() <= LOOK_S_MAX
    await until(stream.is_ended.is_set)
    await tasks.cancel_all()
