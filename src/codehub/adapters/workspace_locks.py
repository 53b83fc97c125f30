"""One at a time per workspace, in this process.

Between processes the platform's names decide: there is one container, or Pod, of a name.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakValueDictionary


class WorkspaceLocks:
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, workspace_id: UUID) -> AsyncIterator[None]:
        lock = self._locks.setdefault(workspace_id, asyncio.Lock())
        async with lock:
            yield
