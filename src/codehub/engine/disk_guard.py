"""Guards free space: looks at disks and homes again and again; below
the floor it puts to sleep what grows, and tells everybody.

It deletes nothing. What starts is held by the executor, which asks the same disks. The database
may be what a full disk has stopped, so that ending what grows, and giving the database its
reserve, need no answer of it: the wish for sleep is recorded when it answers again.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.amendments import By
from codehub.core.disk_space import DiskSpace, Usage, grown_mb, is_noticeable
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState
from codehub.core.requests import Refusal, Refused
from codehub.core.workspace import Workspace
from codehub.engine.backends import Backends
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.disks import Disk, Reserve, ResourceUse
from codehub.ports.metrics import Metrics
from codehub.ports.storage import Home
from codehub.ports.store import RoomStore, StoreUnavailable, UnknownWorkspace
from codehub.ports.system import Clock
from codehub.service.workspaces import WorkspaceService

log = structlog.get_logger()

TICK_S = 5.0
_MEASURE_S = 60.0
_AT_ONCE = 4
_ACTOR = "disk"


@dataclass
class DiskGuard:
    """`running` returns the workspaces that run and are ours to handle, whether or not the database
    answers.
    """

    backends: Backends
    store: RoomStore
    service: WorkspaceService
    running: Callable[[], Sequence[Workspace]]
    clock: Clock
    metrics: Metrics
    reserve: Reserve | None = None
    critical_mb: int = 0
    """Below this much the database may stop at any moment."""

    shortage: DiskSpace | None = None
    _reported: DiskSpace | None = None
    _has_reported: bool = False
    """Until then the database may hold the report of an earlier process."""
    _measured_s: float | None = None
    _homes_mb: dict[UUID, int] = field(default_factory=dict)
    _uses: dict[UUID, tuple[float, float]] = field(default_factory=dict)
    """The processor time that each had taken when it was measured last, and when that was."""
    _usages: dict[UUID, Usage] = field(default_factory=dict)
    _pending_sleeps: dict[UUID, int] = field(default_factory=dict)
    """Whose wish for sleep could not be recorded yet, and by how much each grew."""

    async def look(self) -> None:
        """Look once. What can't be seen, or done, is tried again by the next look."""
        self.shortage = await self._shortest()
        if self.shortage is not None:
            await self._stop_growth(self.shortage)
        else:
            self._pending_sleeps.clear()
            if self.reserve is not None:
                await self.reserve.hold()
        await self._report()

    async def measure(self) -> None:
        """Measure what has begun to run since, and everything that
        runs once a minute. Below the floor `look` does.
        """
        if self.shortage is not None:
            return
        now_s, rows = self.clock.monotonic(), self.running()
        if self._measured_s is None or now_s - self._measured_s >= _MEASURE_S:
            self._measured_s = now_s
        else:
            rows = [row for row in rows if row.id not in self._usages]
            if not rows:
                return
        await self._measure_homes(rows)
        await self._note_usage()

    async def _shortest(self) -> DiskSpace | None:
        """Return the room of the disk that has least, if that is too little."""
        rooms = [room for disk in self._disks() if (room := await _room(disk)) is not None]
        if rooms:
            least = min(rooms, key=lambda room: room.free_mb)
            self.metrics.set_disk_space(least.free_mb, least.floor_mb)
            return least if least.is_short else None
        return None

    async def _stop_growth(self, room: DiskSpace) -> None:
        """Put to sleep what grows. Where the database may stop at any
        moment, its instance is ended at once, wish or no wish.
        """
        rows = {row.id: row for row in self.running()}
        before = dict(self._homes_mb)
        await self._measure_homes(list(rows.values()))
        grown = grown_mb(before, self._homes_mb)
        self._pending_sleeps |= grown
        for workspace_id, grew in list(self._pending_sleeps.items()):
            await self._put_to_sleep(workspace_id, grew)
        if room.free_mb < self.critical_mb:
            await self._end([rows[workspace_id] for workspace_id in grown])
            if self.reserve is not None and await self.reserve.release():
                log.warning("database_reserve_released", free_mb=room.free_mb)

    async def _end(self, rows: Sequence[Workspace]) -> None:
        for row in rows:
            instances = self.backends.instances.get(row.spec.instance_backend)
            try:
                if instances is not None:
                    await instances.delete(row.id)
                    log.warning("growing_instance_ended", workspace_id=str(row.id))
            except (BackendUnreachable, ActionFailed) as error:
                log.warning("growing_instance_not_ended", workspace_id=str(row.id), reason=str(error))

    async def _put_to_sleep(self, workspace_id: UUID, grew: int) -> None:
        try:
            ruled = await self.service.set_wish(
                workspace_id, DesiredState.STANDBY, By(_ACTOR, Message(Code.GREW, {"grew": grew}))
            )
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
            return
        except UnknownWorkspace:
            del self._pending_sleeps[workspace_id]
            return
        if isinstance(ruled.ruling, Refused) and ruled.ruling.code is Refusal.OPERATION_IN_PROGRESS:
            return  # asked again when that is done, or held up
        log.warning("growing_workspace_put_to_sleep", workspace_id=str(workspace_id), grew_mb=grew)
        del self._pending_sleeps[workspace_id]

    async def _measure_homes(self, rows: Collection[Workspace]) -> None:
        """Measure the homes of what runs, few at a time: nobody else's can change."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def measure(row: Workspace) -> None:
            disk = self.backends.disks.get(row.spec.storage_backend)
            if disk is None:
                return
            try:
                async with gate:
                    used = await disk.used_mb(Home(row.id, row.spec.home_store_key))
            except (BackendUnreachable, ActionFailed) as error:
                log.info("home_not_measured", workspace_id=str(row.id), reason=str(error))
                return
            if used is not None:
                self._homes_mb[row.id] = used

        await asyncio.gather(*(measure(row) for row in rows))

    async def _note_usage(self) -> None:
        """Write what has changed so that people would see it, and let go of whoever does not run any more."""
        rows = self.running()
        try:
            now = (await self.store.load([])).now
            usages = {row.id: await self._usage(row, now) for row in rows}
            changed = {
                workspace_id: usage
                for workspace_id, usage in usages.items()
                if is_noticeable(self._usages.get(workspace_id), usage)
            }
            asleep = {
                workspace_id: Usage(None, None, usage.disk_mb, now)
                for workspace_id, usage in self._usages.items()
                if workspace_id not in usages and usage.memory_mb is not None
            }
            if changed or asleep:
                await self.store.write_usage({**changed, **asleep})
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
            return
        self._usages = {
            **{workspace_id: self._usages.get(workspace_id, usage) for workspace_id, usage in usages.items()},
            **changed,
        }
        self._homes_mb = {
            workspace_id: used for workspace_id, used in self._homes_mb.items() if workspace_id in usages
        }
        self._uses = {
            workspace_id: spent for workspace_id, spent in self._uses.items() if workspace_id in usages
        }

    async def _usage(self, row: Workspace, now: datetime) -> Usage:
        gauge = self.backends.gauges.get(row.spec.instance_backend)
        spent = None
        if gauge is not None:
            try:
                spent = await gauge.spent(row.id)
            except (BackendUnreachable, ActionFailed) as error:
                log.info("instance_not_measured", workspace_id=str(row.id), reason=str(error))
        memory_mb = None if spent is None else spent.memory_mb
        return Usage(memory_mb, self._cpu(row.id, spent), self._homes_mb.get(row.id), now)

    def _cpu(self, workspace_id: UUID, spent: ResourceUse | None) -> float | None:
        """Return how many processors it has kept busy since it was measured before."""
        if spent is None or spent.cpu_s is None:
            return None if spent is None or spent.cpu is None else round(spent.cpu, 2)
        at = self.clock.monotonic()
        before = self._uses.get(workspace_id)
        self._uses[workspace_id] = (spent.cpu_s, at)
        if before is None or at <= before[1] or spent.cpu_s < before[0]:
            return None
        return round((spent.cpu_s - before[0]) / (at - before[1]), 2)

    async def _report(self) -> None:
        """Let every process know, when it changes noticeably: the faces may run elsewhere."""
        if self._has_reported and self._is_as_reported():
            return
        try:
            await self.store.write_shortage(self.shortage)
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
            return
        if (self._reported is None) != (self.shortage is None):
            log.warning(
                "disk_short" if self.shortage else "disk_has_room",
                why="" if self.shortage is None else str(self.shortage.message),
            )
        self._reported, self._has_reported = self.shortage, True

    def _is_as_reported(self) -> bool:
        last_report, short = self._reported, self.shortage
        if last_report is None or short is None:
            return last_report is short
        return abs(last_report.free_mb - short.free_mb) < short.floor_mb / 20

    def _disks(self) -> Sequence[Disk]:
        return list({id(disk): disk for disk in self.backends.disks.values()}.values())


async def _room(disk: Disk) -> DiskSpace | None:
    try:
        return await disk.room()
    except (BackendUnreachable, ActionFailed, OSError) as error:
        log.info("disk_not_looked_at", reason=str(error))
        return None
