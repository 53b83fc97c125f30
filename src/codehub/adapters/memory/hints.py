"""Hints in memory: ids sent come out of every listener, coalesced. A fault at "hints.send" loses the hint."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from uuid import UUID

import structlog

from codehub.adapters.memory.faults import Faults, no_faults

log = structlog.get_logger()

IDS_MAX = 100


class MemoryHints:
    def __init__(self, *, faults: Faults = no_faults) -> None:
        self._faults = faults
        self._listeners: dict[_Listener, None] = {}  # in order: a simulation must be reproducible

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        if not workspace_ids:
            return
        try:
            await self._faults("hints.send")
        except Exception as error:  # noqa: BLE001  # a hint that can't be sent, for whatever reason, is forgotten
            log.warning("hint_not_sent", reason=str(error))
            return
        for listener in self._listeners:
            listener.wake(workspace_ids if len(workspace_ids) <= IDS_MAX else ())

    def lose_connections(self) -> None:
        """Make every listener assume that it may have missed something."""
        for listener in self._listeners:
            listener.wake(())

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[frozenset[UUID]]]:
        listener = _Listener()
        self._listeners[listener] = None
        try:
            yield listener
        finally:
            del self._listeners[listener]


class _Listener:
    def __init__(self) -> None:
        self.pending: set[UUID] = set()
        """What came and nobody has taken yet."""
        self._look_at_all = False
        self._has_hints = asyncio.Event()

    def __aiter__(self) -> "_Listener":
        return self

    async def __anext__(self) -> frozenset[UUID]:
        await self._has_hints.wait()
        hints = frozenset() if self._look_at_all else frozenset(self.pending)
        self.pending.clear()
        self._look_at_all = False
        self._has_hints.clear()
        return hints

    def wake(self, workspace_ids: Collection[UUID]) -> None:
        self._look_at_all = self._look_at_all or not workspace_ids
        self.pending.update(workspace_ids)
        self._has_hints.set()
