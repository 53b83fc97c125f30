"""Late calls: given up on by whoever made them, and done all the
same, at a time that is drawn, or just when it hurts.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

T = TypeVar("T")

_S_MAX = 900.0
_CALLS_LATER = (1, 1, 2, 2, 3, 4, 6, 8, 10)


class LateCalls:
    """Half of them come some calls later: in the middle of what
    else is being done to their workspace by then.
    """

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._waiting: dict[UUID, list[tuple[int, asyncio.Future[None]]]] = {}
        self.pending: set[str] = set()
        """At which points one is still to come: until then the backend may be too busy for another."""

    def tell(self, workspace_id: UUID) -> None:
        """A backend does something for this workspace."""
        waiting = self._waiting.pop(workspace_id, None)
        if waiting is None:
            return
        for left, arrived in waiting:
            if left > 1:
                self._waiting.setdefault(workspace_id, []).append((left - 1, arrived))
            elif not arrived.done():
                arrived.set_result(None)

    async def do(self, workspace_id: UUID, point: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self.pending.add(point)
        try:
            await self._wait(workspace_id)
        finally:
            self.pending.discard(point)
        return await work()

    async def _wait(self, workspace_id: UUID) -> None:
        if self._dice.random() < 0.5:
            await asyncio.sleep(self._dice.choice((20, 100, 500)) * self._dice.random())
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(workspace_id, []).append((self._dice.choice(_CALLS_LATER), arrived))
        await asyncio.wait([arrived], timeout=_S_MAX)
        await asyncio.sleep(self._dice.random() ** 2 * 6)
