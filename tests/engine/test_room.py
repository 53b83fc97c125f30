"""A disk that fills up: nothing starts, what grows is put to
sleep, what makes room goes on, and everybody is told.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Plane, breathe

from codehub.adapters.memory.disk import MemoryDisk
from codehub.core.disk_space import DiskSpace
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.controller import WorkspaceController
from codehub.engine.disk_guard import DiskGuard
from codehub.ports.disks import ResourceUse
from codehub.ports.metrics import NoMetrics
from codehub.ports.store import StoreUnavailable


class Kept:
    """A reserve that says what became of it."""

    def __init__(self) -> None:
        self.is_held = False
        self.actions: list[str] = []

    async def hold(self) -> None:
        if not self.is_held:
            self.actions.append("held")
        self.is_held = True

    async def release(self) -> bool:
        was_held, self.is_held = self.is_held, False
        self.actions.append("released")
        return was_held


class Counting:
    """A gauge: every instance has taken a processor since it began, and some memory."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.memory_mb = 300
        self.cpu: float | None = None

    async def spent(self, _workspace_id: UUID) -> ResourceUse | None:
        if self.cpu is not None:
            return ResourceUse(self.memory_mb, cpu=self.cpu)
        return ResourceUse(self.memory_mb, self.plane.clock.monotonic())


@dataclass
class Scene:
    plane: Plane
    disk: MemoryDisk
    gauge: Counting
    reserve: Kept
    controller: WorkspaceController
    keeper: DiskGuard
    demo: UUID

    async def look_later(self) -> None:
        """Look a little later, when time enough for a retry has passed."""
        self.plane.clock.seconds += 6
        await self.keeper.look()

    async def passes(self, count: int) -> None:
        for _ in range(count):
            await self.controller.run_pass(EVERYONE)
            await breathe()
            self.plane.clock.seconds += 6


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A workspace runs, its home was measured, and there is room."""
    plane, disk, reserve = Plane(), MemoryDisk(free_mb=5000, floor_mb=1000), Kept()
    gauge = Counting(plane)
    plane.backends = replace(
        plane.backends,
        disks={StorageBackend.LOCAL_DIR: disk},
        gauges={InstanceBackend.LOCAL_PROCESS: gauge},
    )
    controller = plane.controller()
    keeper = DiskGuard(
        plane.backends,
        plane.store,
        plane.service,
        controller.running,
        plane.clock,
        NoMetrics(),
        reserve,
        critical_mb=100,
    )
    demo = await plane.create(DesiredState.RUNNING)
    disk.homes_mb[demo] = 200
    await plane.converge(controller)
    await keeper.look()
    await keeper.measure()
    yield Scene(plane, disk, gauge, reserve, controller, keeper, demo)
    await plane.close()


async def test_below_the_floor_a_start_waits_as_for_an_outage_and_goes_on_when_there_is_room(
    scene: Scene,
) -> None:
    scene.disk.free_mb = 999
    other = (await scene.plane.make("other")).id
    await scene.passes(20)
    held = await scene.plane.get(other)
    error = held.status.error_info
    assert (held.status.phase, held.status.operation) == (Phase.PENDING, Operation.PROVISIONING)
    assert error is not None
    assert (error.reason, error.message) == (ErrorReason.UNREACHABLE, DiskSpace(999, 1000).message)
    assert held.status.error_count == 0
    scene.disk.free_mb = 1000
    scene.plane.clock.seconds += 6
    await scene.plane.converge(scene.controller)
    assert (await scene.plane.get(other)).status.phase is Phase.RUNNING


async def test_below_the_floor_what_runs_can_be_stopped_archived_and_purged(scene: Scene) -> None:
    scene.disk.free_mb = 0
    await scene.plane.service.set_wish(scene.demo, DesiredState.ARCHIVED, BY)
    await scene.plane.converge(scene.controller)
    assert (await scene.plane.get(scene.demo)).status.phase is Phase.ARCHIVED
    await scene.plane.service.delete(scene.demo, BY, purge=True)
    await scene.plane.converge(scene.controller)
    assert (await scene.plane.get(scene.demo)).status.phase is Phase.DELETED


async def test_below_the_floor_a_home_that_grows_is_put_to_sleep_and_others_run_on(scene: Scene) -> None:
    other = (await scene.plane.make("other")).id
    scene.disk.homes_mb[other] = 4000
    await scene.plane.converge(scene.controller)
    await scene.keeper.measure()
    scene.disk.free_mb, scene.disk.homes_mb[scene.demo] = 900, 3000
    await scene.look_later()
    await scene.plane.converge(scene.controller)
    slept, ran = await scene.plane.get(scene.demo), await scene.plane.get(other)
    assert (slept.status.phase, slept.spec.desired_state) == (Phase.STANDBY, DesiredState.STANDBY)
    assert ran.status.phase is Phase.RUNNING
    reasons = [event.event.reason for event in await scene.plane.store.history(scene.demo)]
    assert Message(Code.GREW, {"grew": 2800}) in reasons
    assert slept.status.home_ctx.volume_id is not None, "nothing of it is deleted"


async def test_above_the_floor_a_home_may_grow(scene: Scene) -> None:
    scene.disk.homes_mb[scene.demo] = 3000
    await scene.look_later()
    assert (await scene.plane.get(scene.demo)).spec.desired_state is DesiredState.RUNNING


async def test_everybody_is_told_of_a_shortage_and_of_its_end(scene: Scene) -> None:
    scene.disk.free_mb = 900
    await scene.look_later()
    assert await scene.plane.store.shortage() == DiskSpace(900, 1000)
    scene.disk.free_mb = 5000
    await scene.look_later()
    assert await scene.plane.store.shortage() is None


async def test_what_an_earlier_process_said_of_a_shortage_is_taken_back(scene: Scene) -> None:
    await scene.plane.store.write_shortage(DiskSpace(1, 1000))
    keeper = DiskGuard(
        scene.plane.backends,
        scene.plane.store,
        scene.plane.service,
        scene.controller.running,
        scene.plane.clock,
        NoMetrics(),
    )
    await keeper.look()
    assert await scene.plane.store.shortage() is None


async def test_where_the_database_may_stop_what_grows_is_ended_without_it_and_the_reserve_is_given_up(
    scene: Scene,
) -> None:
    scene.disk.free_mb, scene.disk.homes_mb[scene.demo] = 0, 5000

    async def is_away(_point: str) -> None:
        if _point.startswith(("amend", "usage")):
            raise StoreUnavailable("no space left on device")

    scene.plane.hook = is_away
    await scene.look_later()
    assert scene.reserve.actions == ["held", "released"]
    assert await scene.plane.instances.list_all() == {}
    scene.plane.hook = None
    await scene.look_later()
    assert (await scene.plane.get(scene.demo)).spec.desired_state is DesiredState.STANDBY
    scene.disk.free_mb = 5000
    await scene.look_later()
    assert scene.reserve.actions[-1] == "held"


async def test_usage_is_measured_once_a_minute_and_what_did_not_change_is_not_written(scene: Scene) -> None:
    first = (await scene.plane.store.usages([scene.demo]))[scene.demo]
    assert (first.memory_mb, first.cpu, first.disk_mb) == (300, None, 200)
    scene.plane.clock.seconds += 60
    await scene.keeper.measure()
    second = (await scene.plane.store.usages([scene.demo]))[scene.demo]
    assert (second.memory_mb, second.cpu, second.disk_mb) == (300, 1.0, 200)
    scene.plane.points.clear()
    scene.plane.clock.seconds += 60
    await scene.keeper.measure()
    assert not any(point.startswith("usage") for point in scene.plane.points)
    scene.gauge.memory_mb = 600
    scene.plane.clock.seconds += 30
    await scene.keeper.measure()
    assert (await scene.plane.store.usages([scene.demo]))[scene.demo] == second
    scene.plane.clock.seconds += 30
    await scene.keeper.measure()
    assert (await scene.plane.store.usages([scene.demo]))[scene.demo].memory_mb == 600


async def test_a_platform_may_tell_how_many_processors_are_busy_instead_of_their_time(scene: Scene) -> None:
    scene.gauge.cpu = 0.756
    scene.plane.clock.seconds += 60
    await scene.keeper.measure()
    usage = (await scene.plane.store.usages([scene.demo]))[scene.demo]
    assert (usage.memory_mb, usage.cpu, usage.disk_mb) == (300, 0.76, 200)


async def test_what_sleeps_takes_no_memory_and_keeps_its_size(scene: Scene) -> None:
    await scene.plane.service.set_wish(scene.demo, DesiredState.STANDBY, BY)
    await scene.plane.converge(scene.controller)
    scene.plane.clock.seconds += 60
    await scene.keeper.measure()
    asleep = (await scene.plane.store.usages([scene.demo]))[scene.demo]
    assert (asleep.memory_mb, asleep.cpu, asleep.disk_mb) == (None, None, 200)
