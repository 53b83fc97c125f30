"""Finalizers in memory: which workspaces' things do not go when they are
deleted. Who deletes one waits until it is released, and not for ever.
"""

import asyncio
from contextlib import suppress
from uuid import UUID

_PATIENCE_S = 30.0


class Finalizers:
    def __init__(self) -> None:
        self.patience_s = _PATIENCE_S
        self._held: dict[UUID, asyncio.Event] = {}

    def __contains__(self, workspace_id: UUID) -> bool:
        return workspace_id in self._held

    def hold(self, workspace_id: UUID) -> None:
        self._held.setdefault(workspace_id, asyncio.Event())

    def release(self, workspace_id: UUID) -> None:
        released = self._held.pop(workspace_id, None)
        if released is not None:
            released.set()

    async def is_released(self, workspace_id: UUID) -> bool:
        """Wait for it, and return whether it came in time."""
        released = self._held.get(workspace_id)
        if released is None:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience_s):
                await released.wait()
        return released.is_set()
