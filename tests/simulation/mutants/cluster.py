"""Mutants that a cluster tells: what ends slowly or is held, and watches that are behind or broken."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.simulation import machine
from tests.simulation.backends import ProcessInstances
from tests.simulation.machine import Machine
from tests.simulation.mutants.registry import mutant, patched

from codehub.adapters.memory.contents import Disk
from codehub.adapters.memory.instances import MemoryInstance, MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.memory.watch import Watch
from codehub.core import plan, workspace
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.engine.execute import Executor
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Report, ignore_progress


@mutant
def take_an_ending_instance_for_gone() -> Any:
    def known(self: Watch[Any]) -> Mapping[UUID, Any]:
        things = original(self).items()
        return {key: thing for key, thing in things if getattr(thing, "ending_since", None) is None}

    original = Watch.known
    return patched(Watch, "known", known)


@mutant
def take_an_ending_volume_for_gone() -> Any:
    def volumes(self: MemoryStorage) -> Mapping[UUID, Volume]:
        return {key: volume for key, volume in original(self).items() if not self.disks[key].is_ending}

    original = MemoryStorage.volumes
    return patched(MemoryStorage, "volumes", volumes)


@mutant
def start_beside_an_instance_that_ends() -> Any:
    return patched(MemoryInstances, "_is_held", lambda *_: False)


@mutant
def start_on_a_volume_that_ends() -> Any:
    def require(self: MemoryStorage, workspace_id: UUID, volume_id: str) -> Disk:
        disk = self.disks.get(workspace_id)
        if disk is None or disk.volume_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
        return disk

    return [
        patched(MemoryStorage, "require", require),
        *(patched(each, "is_condemned", lambda _status: False) for each in (plan, workspace)),
    ]


@mutant
def begin_what_fills_a_full_disk() -> Any:
    async def require_room(*_: object) -> None:
        return

    return patched(Executor, "_require_room", require_room)


@mutant
def believe_two_watches_that_contradict_each_other() -> Any:
    return patched(Machine, "doubt_volumes_behind", lambda _self: None)


@mutant
def believe_a_watch_that_shows_the_volume_before() -> Any:
    """As it was once: any volume of the workspace is the one that its instance was started on."""
    return patched(machine, "is_listed", lambda _volume_id, volume: volume is not None)


@mutant
def take_a_broken_watch_for_an_empty_one() -> Any:
    original = Watch.known
    return patched(Watch, "known", lambda self: {} if self._is_broken else original(self))


@mutant
def ask_the_watch_alone_whether_a_volume_is_there() -> Any:
    async def start(
        self: ProcessInstances, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress
    ) -> None:
        del report
        known = self._machine.volumes.known().get(spec.workspace_id)
        if known is None or known.volume_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))

        async def make() -> None:
            there = self._there
            if spec.workspace_id in there.by_workspace:
                await there.start(spec, volume_id)
                return
            there.started.append(spec.workspace_id)
            made = MemoryInstance(spec, volume_id, ready_at=0.0, number=len(there.started))
            there.by_workspace[spec.workspace_id] = made

        await self._act("start", spec.workspace_id, make)

    return patched(ProcessInstances, "start", start)
