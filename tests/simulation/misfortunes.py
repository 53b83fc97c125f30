"""Misfortunes: what just happens to backends, watches, homes and instances, by the
minute and not by the call. Each ends by itself, or when everything is calm.
"""

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.faults import Fault
from tests.simulation.numbers import FREE_MB

from codehub.core.operations import Phase
from codehub.core.recoveries import is_recovered
from codehub.core.workspace import Workspace

if TYPE_CHECKING:
    from tests.simulation.world import World

_PERIOD_S = 20.0


class Misfortunes:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._away: dict[str, float] = {}

    def is_away(self, kind: str) -> bool:
        return bool(self._away) and self._world.loop.time() < self._away.get(kind, 0.0)

    async def strike_on(self) -> None:
        world = self._world
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._strike_backends()
            world.strike_database()
            self._strike_watches()
            self._strike_disk()
            for row in world.rows():
                self._strike_workspace(row)
                self._strike_ends(row)

    def end(self) -> None:
        """What is away comes back, what is held goes, what is full has room."""
        world = self._world
        self._away.clear()
        world.judges.commits.end_outages(world.loop.time())
        self.release_all()
        self._make_room()

    def release_all(self) -> None:
        for row in self._world.rows():
            self._world.instances.release(row.id)
            self._world.storage.release(row.id)

    def _strike_backends(self) -> None:
        world = self._world
        for kind in ("store", "instances", "storage"):
            if world.strikes(Fault.OUTAGE, kind):
                until = world.loop.time() + world.dice.choice((5, 30, 120, 420))
                self._away[kind] = max(until, self._away.get(kind, 0.0))
                world.judges.commits.outage(world.loop.time(), until)
        if world.strikes(Fault.ENGINE_RESTART, "instances"):
            for workspace_id in list(world.instances.by_workspace):
                world.instances.vanish(workspace_id)

    def _strike_watches(self) -> None:
        world = self._world
        for machine in world.controllers.values():
            for kind, watch in (("instances", machine.instances), ("volumes", machine.volumes)):
                if world.strikes(Fault.WATCH_BEHIND, f"watch of {kind}", machine):
                    watch.fall_behind()
                    world.loop.call_later(world.dice.choice((3, 15, 40, 88)), watch.catch_up)
                elif world.strikes(Fault.WATCH_BROKEN, f"watch of {kind}", machine):
                    watch.break_off()
                    world.loop.call_later(world.dice.choice((5, 30, 120)), watch.catch_up)

    def _strike_disk(self) -> None:
        world = self._world
        if world.strikes(Fault.DISK_FULL, "disk"):
            world.disk.free_mb = 0
            world.loop.call_later(world.dice.choice((10, 60, 300)), self._make_room)

    def _make_room(self) -> None:
        self._world.disk.free_mb = FREE_MB

    def _strike_ends(self, row: Workspace) -> None:
        """For a while nothing that is deleted of it goes at once."""
        world = self._world
        for kind, backend in (("instance", world.instances), ("volume", world.storage)):
            point = f"{kind} of {row.spec.name}"
            if row.id in backend.finalizers:
                continue
            if world.strikes(Fault.ENDS_SLOWLY, point):
                seconds = world.dice.uniform(1, 25)
            elif world.strikes(Fault.ENDS_LATE, point):
                seconds = world.dice.uniform(60, 600)
            else:
                continue
            backend.hold(row.id)
            world.loop.call_later(seconds, backend.release, row.id)

    def _strike_workspace(self, row: Workspace) -> None:
        world = self._world
        if row.id in world.instances.by_workspace:
            if world.strikes(Fault.INSTANCE_DIED, row.spec.name):
                world.instances.kill(row.id)
            elif world.strikes(Fault.INSTANCE_SICK, row.spec.name):
                world.instances.sicken(row.id)
                world.loop.call_later(world.dice.uniform(1, 40), self._heal, row.id)
            elif world.strikes(Fault.INSTANCE_GONE, row.spec.name):
                world.instances.vanish(row.id)
        if row.id in world.storage.disks and world.strikes(Fault.VOLUME_GONE, row.spec.name):
            disk = world.storage.disks[row.id]
            with world.judges.misfortune(row.id):
                world.storage.lose_volume(row.id)
            # After a rollback the row may not know of it, so that nobody can miss it.
            if world.has_rolled_back and (disk.volume_id or disk.former_id) != row.status.home_ctx.volume_id:
                world.judges.forget_what_nothing_holds(row.id)
        if world.storage.volume_id(row.id) is not None and world.strikes(Fault.IDENTITY_GONE, row.spec.name):
            with world.judges.misfortune(row.id):
                world.storage.lose_identity(row.id)
        key = row.status.archive_key or ""
        if key in world.storage.objects and world.strikes(Fault.ARCHIVE_GONE, row.spec.name):
            with world.judges.misfortune(row.id):
                world.storage.lose_archive(key)

    def strike_chosen(self, workspace_id: UUID) -> None:
        """Let the archive vanish that a person has just taken, where no pass has carried that out."""
        world = self._world
        row = world.store.rows[workspace_id]
        key, error = row.spec.recover_offered_key or "", row.status.error_info
        is_open = row.status.phase is Phase.ERROR and error is not None and is_recovered(row.spec, error)
        if is_open and key in world.storage.objects and world.strikes(Fault.CHOSEN_GONE, row.spec.name):
            with world.judges.misfortune(workspace_id):
                world.storage.lose_archive(key)

    def _heal(self, workspace_id: UUID) -> None:
        if workspace_id in self._world.instances.by_workspace:
            self._world.instances.sicken(workspace_id, sick=False)
