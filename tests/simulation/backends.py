"""The backends as a process sees them, across a network: slow, stale,
refusing, hanging, late; what was asked of them goes on there.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from tests.simulation.faults import Fault
from tests.simulation.truth import ASKED_AT, HAS_ROOM

from codehub.adapters.memory.disk import MemoryDisk
from codehub.adapters.memory.watch import Watch
from codehub.core.disk_space import DiskSpace
from codehub.core.observation import Archive, Instance, Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceSpec, Upstream
from codehub.ports.storage import (
    Amount,
    Home,
    MayCommit,
    Report,
    RestoredVolume,
    StoredArchive,
    ignore_progress,
)

if TYPE_CHECKING:
    from tests.simulation.machine import Machine

T = TypeVar("T")


class _Backend:
    """A backend across a network: what was asked of it goes on there, whatever becomes of who asked."""

    kind = ""

    @property
    def _watch(self) -> Watch[Any]:
        raise NotImplementedError

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    async def _look(self, point: str, call: Callable[[], Awaitable[T]]) -> T:
        machine, world = self._machine, self._machine.world
        await machine.enter(point)
        if world.is_away(self.kind) or world.strikes(Fault.LOOK_FAILED, point, machine):
            raise BackendUnreachable("the list failed")
        observation = await call()
        if world.strikes(Fault.LOOK_STALE, point, machine):
            await asyncio.sleep(world.dice.uniform(1, 12))
            await machine.thaw()
        return observation

    async def _act(self, point: str, workspace_id: UUID, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with self._machine.world.judges.acts(self._machine, point, workspace_id):
            return await self._do(point, workspace_id, work)

    async def _do(self, point: str, workspace_id: UUID, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        machine, world = self._machine, self._machine.world
        ASKED_AT.set(world.loop.time())
        point = f"{point} of {world.store.rows[workspace_id].spec.name}"
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
            await machine.thaw()
        working = world.spawn(self._learned(workspace_id, work), name=point)
        done: T = await asyncio.shield(working)
        await machine.leave(point)
        if world.strikes(Fault.ACT_LIED, point, machine):
            raise ActionFailed("it says that it failed")
        if world.strikes(Fault.ACT_UNHEARD, point, machine):
            raise BackendUnreachable("the answer was lost")
        return done

    async def _learned(self, workspace_id: UUID, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What this process has written it knows, however far its watch is behind."""
        try:
            return await work()
        finally:
            self._watch.learn(workspace_id)


class ProcessInstances(_Backend):
    kind = "instances"

    @property
    def _there(self) -> Any:
        return self._machine.world.instances

    @property
    def _watch(self) -> Watch[Any]:
        return self._machine.instances

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        del report
        await self._act("start", spec.workspace_id, lambda: self._there.start(spec, volume_id))

    async def delete(self, workspace_id: UUID) -> None:
        await self._act("delete_instance", workspace_id, lambda: self._there.delete(workspace_id))
        await self._watch.hear_of_deletion()

    async def status(self, workspace_id: UUID) -> Instance | None:
        async def ask() -> Instance | None:
            known = self._watch.known().get(workspace_id)
            return None if known is None else self._there.observe(known)

        instance: Instance | None = await self._look("status", ask)
        self._machine.world.judges.saw_instance(workspace_id, instance)
        return instance

    async def list_all(self) -> Mapping[UUID, Instance]:
        async def ask() -> Mapping[UUID, Instance]:
            self._machine.doubt_volumes_behind()
            return {each: self._there.observe(known) for each, known in self._watch.known().items()}

        instances: Mapping[UUID, Instance] = await self._look("list_instances", ask)
        self._machine.world.judges.saw_instances(instances)
        return instances

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        raise NotImplementedError

    def logs(self, workspace_id: UUID, *, tail: int = 200, follow: bool = False) -> AsyncIterator[bytes]:
        lines: AsyncIterator[bytes] = self._there.logs(workspace_id, tail=tail, follow=follow)
        return lines

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        async def heard(events: AsyncIterator[UUID]) -> AsyncIterator[UUID]:
            async for workspace_id in events:
                if not self._machine.world.strikes(Fault.EVENT_LOST, "event"):
                    yield workspace_id

        async with self._there.events() as events:
            yield heard(events)


class ProcessDisk:
    """The disk of homes. A step remembers that it has asked, and was told that there is room."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    async def room(self) -> DiskSpace:
        room = await self._disk.room()
        HAS_ROOM.set(not room.is_short)
        return room

    async def bind(self, home: Home, most_mb: int) -> None:
        await self._disk.bind(home, most_mb)

    async def used_mb(self, home: Home) -> int | None:
        return await self._disk.used_mb(home)


class ProcessStorage(_Backend):
    kind = "storage"
    _listed_at = 0.0

    @property
    def _there(self) -> Any:
        return self._machine.world.storage

    @property
    def _watch(self) -> Watch[Any]:
        return self._machine.volumes

    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        made: str = await self._act(
            "provision", home.workspace_id, lambda: self._there.provision(home, replaces=replaces)
        )
        return made

    async def adopt(self, home: Home, lost: str) -> str:
        return await self._act("adopt", home.workspace_id, lambda: self._there.adopt(home, lost))

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        made: RestoredVolume = await self._act(
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

    async def copy_archive(
        self, home: Home, archive_key: str, op_id: UUID, report: Report, may_commit: MayCommit
    ) -> str:
        made: str = await self._act(
            "copy_archive",
            home.workspace_id,
            lambda: self._there.copy_archive(home, archive_key, op_id, self._heard(report), may_commit),
        )
        return made

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        await self._act(
            "delete_volume", home.workspace_id, lambda: self._there.delete_volume(home, volume_id)
        )
        await self._watch.hear_of_deletion()

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        is_worked_on: bool = await self._look(
            "is_worked_on", lambda: self._there.is_worked_on(home, volume_id, since=since)
        )
        return is_worked_on

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        async def ask() -> Mapping[UUID, Volume]:
            self._machine.doubt_volumes_behind()
            return dict(self._watch.known())

        volumes: Mapping[UUID, Volume] = await self._look("list_volumes", ask)
        self._machine.world.judges.saw_volumes(volumes)
        return volumes

    async def head_archive(self, archive_key: str) -> Archive | None:
        archive: Archive | None = await self._look(
            "head_archive", lambda: self._there.head_archive(archive_key)
        )
        return archive

    async def has_archives(self, workspace_id: UUID) -> bool:
        has_archives: bool = await self._look("has_archives", lambda: self._there.has_archives(workspace_id))
        return has_archives

    async def list_archives(self) -> Sequence[StoredArchive]:
        asked_at = self._machine.world.loop.time()
        archives: Sequence[StoredArchive] = await self._look("list_archives", self._there.list_archives)
        self._listed_at = asked_at
        return archives

    async def list_archives_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        archives: Sequence[StoredArchive] = await self._look(
            "list_archives_of", lambda: self._there.list_archives_of(workspace_id)
        )
        return archives

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
        def report_while_alive(amount: Amount) -> None:
            if not self._machine.is_dead:
                report(amount)

        return report_while_alive
