"""A simulated process, and the world as it sees it: its clock runs wrong, its calls take time, fail, hang or are cut off by its death."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from tests.simulation.faults import Fault
from tests.simulation.judges import ASKED_AT

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.system.machine import SystemTasks
from codehub.core.history import Event
from codehub.core.membership import Member, Members
from codehub.core.progress import Progress
from codehub.core.seen import Archive, Instance, Volume
from codehub.core.workspace import InstanceBackend, Spec, StorageBackend, Workspace
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceSpec, Upstream
from codehub.ports.storage import Amount, Home, MayCommit, Report, Restored, StoredArchive, tell_nobody
from codehub.ports.store import (
    Admit,
    Change,
    Changes,
    Judgement,
    Key,
    Loaded,
    Recorded,
    Ruled,
    Running,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

    from codehub.core.wishes import Refused

T = TypeVar("T")


class Crashed(BaseException):
    """The process is dead: it does nothing any more."""


class Machine:
    """One process. Whatever it calls passes `enter` and `leave`, where it may be slow, stopped or killed."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.prefix = f"{name}: "
        self.is_dead = False
        self.thaws_at = 0.0
        self.tasks = SystemTasks()
        self.rate = 1 + world.dice.uniform(-0.02, 0.02)
        self.offset = world.dice.uniform(0, 1e6)
        self.asked: dict[UUID, UUID] = {}
        """Of which workspace the database said last that it carries which operation."""
        self.system = System(self, self, self, self.tasks)
        self.store = ProcessStore(self)
        self.hints = ProcessHints(self)

    def connect(self) -> Platforms:
        return Platforms(
            {InstanceBackend.LOCAL_PROCESS: ProcessInstances(self)},
            {StorageBackend.LOCAL_DIR: ProcessStorage(self)},
        )

    # The ports of the machine.

    def monotonic(self) -> float:
        return self.offset + self.world.loop.time() * self.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)
        await self._thaw()

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
        await self._thaw()

    async def leave(self, point: str) -> None:
        """Pass out of a call: it has happened."""
        if self.is_dead:
            raise Crashed
        if self.world.strikes(Fault.CRASH, point, self):
            self.world.crash(self)
            raise Crashed
        await self._thaw()

    async def _thaw(self) -> None:
        while (rest := self.thaws_at - self.world.loop.time()) > 0:  # noqa: ASYNC110  # it may be stopped again
            await asyncio.sleep(rest)
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

    async def holds(self, workspace_id: UUID, op_id: UUID) -> bool:
        answer = await self._read("holds", lambda: self._store.holds(workspace_id, op_id))
        if answer:
            self._machine.asked[workspace_id] = op_id
        return answer

    async def load_due(self, *, limit: int = 10_000) -> Loaded:
        return await self._read("load_due", lambda: self._store.load_due(limit=limit))

    async def load_idle(self, *, limit: int = 10_000) -> Loaded:
        return await self._read("load_idle", lambda: self._store.load_idle(limit=limit))

    async def load(self, workspace_ids: Sequence[UUID]) -> Loaded:
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

    async def beat(self, member: Member, *, alive_s: float) -> Members:
        return await self._write("beat", lambda: self._store.beat(member, alive_s=alive_s))

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

    async def amend(self, workspace_id: UUID, judge: Callable[[Workspace, datetime], Judgement]) -> Ruled:
        return await self._write("amend", lambda: self._store.amend(workspace_id, judge))

    async def amend_counted(
        self, workspace_id: UUID, judge: Callable[[Workspace, datetime, Running], Judgement]
    ) -> Ruled:
        return await self._write("amend", lambda: self._store.amend_counted(workspace_id, judge))

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


class _Backend:
    """A backend across a network: what was asked of it goes on there, whatever becomes of who asked."""

    kind = ""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def _look(self, point: str, call: Callable[[], Awaitable[T]]) -> T:
        machine, world = self._machine, self._machine.world
        await machine.enter(point)
        if world.is_away(self.kind) or world.strikes(Fault.LOOK_FAILED, point, machine):
            raise BackendUnreachable("the list failed")
        seen = await call()
        if world.strikes(Fault.LOOK_STALE, point, machine):
            await asyncio.sleep(world.dice.uniform(1, 12))
            await machine._thaw()
        return seen

    async def _act(self, point: str, workspace_id: UUID, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        machine, world = self._machine, self._machine.world
        world.judges.acts(machine, point, workspace_id)
        ASKED_AT.set(world.loop.time())
        point = f"{point} of {world.store._workspaces[workspace_id].spec.name}"
        await machine.enter(point)
        if world.is_away(self.kind) or world.strikes(Fault.ACT_REFUSED, point, machine):
            raise BackendUnreachable("connection refused")
        if world.strikes(Fault.ACT_FAILED, point, machine):
            raise ActionFailed("it failed")
        if world.strikes(Fault.ACT_LATE, point, machine):
            if point in world.late.pending:
                raise ActionFailed("busy with the call before")
            world.late.tell(workspace_id)
            world.spawn(world.late.do(workspace_id, point, work), name=f"late {point}")
            await asyncio.sleep(world.dice.uniform(0, 10))
            await machine.leave(point)
            raise ActionFailed("no answer in time")
        world.late.tell(workspace_id)
        if world.strikes(Fault.ACT_HUNG, point, machine):
            await asyncio.sleep(world.dice.uniform(30, 240))
            await machine._thaw()
        working = world.spawn(work(), name=point)
        done: T = await asyncio.shield(working)
        await machine.leave(point)
        if world.strikes(Fault.ACT_LIED, point, machine):
            raise ActionFailed("it says that it failed")
        if world.strikes(Fault.ACT_UNHEARD, point, machine):
            raise BackendUnreachable("the answer was lost")
        return done


class ProcessInstances(_Backend):
    kind = "instances"

    @property
    def _there(self) -> Any:
        return self._machine.world.instances

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = tell_nobody) -> None:
        del report
        await self._act("start", spec.workspace_id, lambda: self._there.start(spec, volume_id))

    async def delete(self, workspace_id: UUID) -> None:
        await self._act("delete_instance", workspace_id, lambda: self._there.delete(workspace_id))

    async def status(self, workspace_id: UUID) -> Instance | None:
        found: Instance | None = await self._look("status", lambda: self._there.status(workspace_id))
        self._machine.world.judges.saw_instance(workspace_id, found)
        return found

    async def list_all(self) -> Mapping[UUID, Instance]:
        found: Mapping[UUID, Instance] = await self._look("list_instances", self._there.list_all)
        self._machine.world.judges.saw_instances(found)
        return found

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        raise NotImplementedError

    def logs(self, workspace_id: UUID, *, tail: int = 200, follow: bool = False) -> AsyncIterator[bytes]:
        raise NotImplementedError

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        async def heard(events: AsyncIterator[UUID]) -> AsyncIterator[UUID]:
            async for workspace_id in events:
                if not self._machine.world.strikes(Fault.EVENT_LOST, "event"):
                    yield workspace_id

        async with self._there.events() as events:
            yield heard(events)


class ProcessStorage(_Backend):
    kind = "storage"
    _listed_at = 0.0

    @property
    def _there(self) -> Any:
        return self._machine.world.storage

    async def provision(self, home: Home) -> str:
        made: str = await self._act("provision", home.workspace_id, lambda: self._there.provision(home))
        return made

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> Restored:
        made: Restored = await self._act(
            "restore",
            home.workspace_id,
            lambda: self._there.restore(home, archive_key, self._heard(report), replaces=replaces),
        )
        return made

    async def archive(
        self, home: Home, volume_id: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        made: str = await self._act(
            "archive",
            home.workspace_id,
            lambda: self._there.archive(home, volume_id, op_id, self._heard(report), may_commit),
        )
        return made

    async def create_empty_archive(self, home: Home, op_id: UUID, may_commit: MayCommit) -> str:
        made: str = await self._act(
            "create_empty_archive",
            home.workspace_id,
            lambda: self._there.create_empty_archive(home, op_id, may_commit),
        )
        return made

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        await self._act(
            "delete_volume", home.workspace_id, lambda: self._there.delete_volume(home, volume_id)
        )

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        found: Mapping[UUID, Volume] = await self._look("list_volumes", self._there.list_volumes)
        self._machine.world.judges.saw_volumes(found)
        return found

    async def head_archive(self, archive_key: str) -> Archive | None:
        found: Archive | None = await self._look(
            "head_archive", lambda: self._there.head_archive(archive_key)
        )
        return found

    async def has_archives(self, workspace_id: UUID) -> bool:
        found: bool = await self._look("has_archives", lambda: self._there.has_archives(workspace_id))
        return found

    async def list_archives(self) -> Sequence[StoredArchive]:
        asked_at = self._machine.world.loop.time()
        found: Sequence[StoredArchive] = await self._look("list_archives", self._there.list_archives)
        self._listed_at = asked_at
        return found

    async def delete_archive(self, archive_key: str) -> None:
        workspace_id = UUID(archive_key.split("/", maxsplit=1)[0])
        self._machine.world.judges.removes_archive(archive_key, self._listed_at)
        await self._act("delete_archive", workspace_id, lambda: self._there.delete_archive(archive_key))

    async def purge(self, home: Home) -> None:
        await self._act("purge", home.workspace_id, lambda: self._there.purge(home))

    async def list_leftovers(self) -> Sequence[str]:
        return []

    async def remove_leftovers(self, older_than: datetime) -> int:
        del older_than
        return 0

    def _heard(self, report: Report) -> Report:
        def told(amount: Amount) -> None:
            if not self._machine.is_dead:
                report(amount)

        return told
