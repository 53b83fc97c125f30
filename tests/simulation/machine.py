"""A simulated process, and the database as it sees it: its clock runs
wrong, its calls take time, fail, or are cut off by its death.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from tests.simulation.backends import ProcessDisk, ProcessInstances, ProcessStorage
from tests.simulation.faults import Fault

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.watch import Watch
from codehub.adapters.system.machine import SystemTasks
from codehub.core.amendments import RulingRecord, Running
from codehub.core.history import Event
from codehub.core.membership import Member, Members
from codehub.core.observation import Volume
from codehub.core.progress import Progress
from codehub.core.workspace import InstanceBackend, Spec, StorageBackend, Workspace
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import (
    Admit,
    Change,
    Changes,
    Key,
    LoadedWorkspaces,
    Recorded,
    Ruled,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

    from codehub.core.requests import Refused

T = TypeVar("T")


class Crashed(BaseException):
    """The process is dead: it does nothing any more."""


def is_listed(volume_id: str, volume: Volume | None) -> bool:
    """Whether it is this very volume, with or without its identity."""
    return volume is not None and volume.name == volume_id


class Machine:
    """One process. Whatever it calls passes `enter` and `leave`, where it may be slow, stopped or killed."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.thaws_at = 0.0
        self.tasks = SystemTasks()
        self.rate = 1 + world.dice.uniform(-0.02, 0.02)
        self.offset = world.dice.uniform(0, 1e6)
        self.asked: dict[UUID, UUID] = {}
        """Of which workspace the database said last that it carries which operation."""
        self.instances = Watch(lambda: world.instances.by_workspace)
        self.volumes = Watch(world.storage.volumes)
        self.system = System(self, self, self, self.tasks)
        self.store = ProcessStore(self)
        self.hints = ProcessHints(self)

    def connect(self) -> Backends:
        return Backends(
            {InstanceBackend.LOCAL_PROCESS: ProcessInstances(self)},
            {StorageBackend.LOCAL_DIR: ProcessStorage(self)},
            disks={StorageBackend.LOCAL_DIR: ProcessDisk(self.world.disk)},
        )

    def doubt_volumes_behind(self) -> None:
        """As the adapter does: an instance whose very volume is not listed shows
        that the watch of volumes is behind.
        """
        with suppress(BackendUnreachable):
            volumes = self.volumes.known() if self.volumes.is_behind else None
            if volumes is not None and not all(
                is_listed(instance.volume_id, volumes.get(workspace_id))
                for workspace_id, instance in self.instances.known().items()
            ):
                self.volumes.catch_up()

    # The ports of the machine.

    def monotonic(self) -> float:
        return self.offset + self.world.loop.time() * self.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)
        if self.thaws_at or self.is_dead:
            await self.thaw()

    def fraction(self) -> float:
        return self.world.dice.random()

    def token(self) -> str:
        return "x" * 43

    def new_id(self) -> UUID:
        return self.world.new_id()

    # Life and death.

    async def enter(self, point: str) -> None:
        """Pass into a call: nothing of it has happened yet."""
        world = self.world
        if self.is_dead:
            raise Crashed
        if world.strikes(Fault.PAUSE, point, self):
            self.thaws_at = world.loop.time() + world.dice.uniform(5, 90)
        if world.strikes(Fault.CRASH, point, self):
            world.crash(self)
            raise Crashed
        if (delay := world.latency()) > 0:
            await asyncio.sleep(delay)
        if self.thaws_at or self.is_dead:
            await self.thaw()

    async def leave(self, point: str) -> None:
        """Pass out of a call: it has happened."""
        if self.is_dead:
            raise Crashed
        if self.world.strikes(Fault.CRASH, point, self):
            self.world.crash(self)
            raise Crashed
        if self.thaws_at:
            await self.thaw()

    async def thaw(self) -> None:
        """Wait until it goes on, if it was stopped or killed."""
        while (rest := self.thaws_at - self.world.loop.time()) > 0:  # noqa: ASYNC110  # it may be stopped again
            await asyncio.sleep(rest)
        self.thaws_at = 0.0
        if self.is_dead:
            raise Crashed


class ProcessHints:
    """What one process hears, and what it says."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        await self._machine.world.hints.send(workspace_ids)

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[frozenset[UUID]]]:
        async with self._machine.world.hints.listen() as hints:
            yield hints


class LossyHints(MemoryHints):
    """Hints that are lost, doubled, late and so out of order."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        if not workspace_ids:
            return
        world = self._world
        for listener in self._listeners:
            if world.strikes(Fault.HINT_LOST, "hint"):
                continue
            delay = world.dice.uniform(0, 20) if world.strikes(Fault.HINT_LATE, "hint") else 0.001
            for _ in range(2 if world.strikes(Fault.HINT_TWICE, "hint") else 1):
                world.loop.call_later(delay, listener.wake, set(workspace_ids))


class ProcessStore:
    """The one store, over this process's connection."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._store = machine.world.store

    async def _read(self, point: str, call: Callable[[], Awaitable[T]]) -> T:
        machine, world = self._machine, self._machine.world
        await machine.enter(point)
        if world.is_away("store") or world.strikes(Fault.STORE_AWAY, point, machine):
            raise StoreUnavailable("away")
        return await call()

    async def _write(self, point: str, call: Callable[[], Awaitable[T]]) -> T:
        machine, world = self._machine, self._machine.world
        await machine.enter(point)
        if world.is_away("store") or world.strikes(Fault.COMMIT_LOST, point, machine):
            raise StoreUnavailable("the connection was lost")
        done = await call()
        await machine.leave(point)
        if world.strikes(Fault.COMMIT_UNKNOWN, point, machine):
            raise StoreUnavailable(
                "the connection was lost, and nobody knows whether before or after the commit"
            )
        return done

    async def changes(self, cursor: str | None) -> Changes:
        self._machine.world.passes += 1
        return await self._read("changes", lambda: self._store.changes(cursor))

    async def holds(self, workspace_id: UUID, op_id: UUID) -> datetime | None:
        answer = await self._read("holds", lambda: self._store.holds(workspace_id, op_id))
        if answer is not None:
            self._machine.asked[workspace_id] = op_id
        return answer

    async def load_idle(self, *, limit: int = 10_000) -> LoadedWorkspaces:
        return await self._read("load_idle", lambda: self._store.load_idle(limit=limit))

    async def load(self, workspace_ids: Sequence[UUID]) -> LoadedWorkspaces:
        return await self._read("load", lambda: self._store.load(workspace_ids))

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        if not changes:
            return frozenset()

        async def persist() -> frozenset[UUID]:
            lost = await self._store.persist(changes)
            won = [change for change in changes if change.workspace_id not in lost]
            self._machine.world.judges.issued(self._machine, won)
            return lost

        return await self._write("persist", persist)

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        await self._write("progress", lambda: self._store.write_progress(progress, ended))

    async def forget_history(self, older_than: timedelta) -> int:
        return await self._write("forget_history", lambda: self._store.forget_history(older_than))

    async def beat(self, member: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        return await self._write(
            "beat", lambda: self._store.beat(member, alive_s=alive_s, looked_at=looked_at)
        )

    async def leave(self, member_id: UUID) -> None:
        await self._write("leave", lambda: self._store.leave(member_id))

    async def create_workspace(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], key: Key | None = None
    ) -> Workspace:
        return await self._write(
            "create", lambda: self._store.create_workspace(workspace_id, spec, events, key)
        )

    async def create_counted(
        self,
        workspace_id: UUID,
        spec: Spec,
        events: Sequence[Event],
        admit: Admit,
        key: Key | None = None,
    ) -> "Workspace | Refused":
        return await self._write(
            "create", lambda: self._store.create_counted(workspace_id, spec, events, admit, key)
        )

    async def get(self, workspace_id: UUID) -> Workspace:
        return await self._read("get", lambda: self._store.get(workspace_id))

    async def amend(self, workspace_id: UUID, rule: Callable[[Workspace, datetime], RulingRecord]) -> Ruled:
        return await self._write("amend", lambda: self._store.amend(workspace_id, rule))

    async def amend_counted(
        self, workspace_id: UUID, rule: Callable[[Workspace, datetime, Running], RulingRecord]
    ) -> Ruled:
        return await self._write("amend", lambda: self._store.amend_counted(workspace_id, rule))

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        await self._write("touch", lambda: self._store.touch(accesses))

    async def progress(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Progress]:
        return await self._read("progress", lambda: self._store.progress(workspace_ids))

    async def history(
        self, workspace_id: UUID, *, limit: int = 50, before_seq: int | None = None
    ) -> Sequence[Recorded]:
        return await self._read(
            "history", lambda: self._store.history(workspace_id, limit=limit, before_seq=before_seq)
        )
