"""The loop as it runs: woken by hints and events, by the clock alone when all
of them are lost, through outages and with two controllers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Dice, Plane, breathe
from tests.support.patience import PATIENCE_S, until
from tests.support.workspaces import SPEC

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemTasks
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.engine.controller import WorkspaceController
from codehub.engine.execute import readable_text
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeup
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.store import StoreUnavailable

QUICK = Cadence(idle_s=0.05, active_s=0.02, probe_s_min=0.005)
PATIENT = Cadence(idle_s=60, active_s=60, probe_s_min=0.005)


class RealTime(SystemClock):
    """The machine's time, as a plane's clock."""

    seconds = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)


def real_plane(boot_s: float = 0.0) -> Plane:
    return Plane(clock=RealTime(), boot_s=boot_s)  # type: ignore[arg-type]  # time that nobody moves


@asynccontextmanager
async def running(plane: Plane, cadence: Cadence, *names: str) -> AsyncIterator[None]:
    tasks = SystemTasks()
    system = System(plane.clock, Dice(), SystemIdentity(), tasks)
    for name in names or ("c1",):
        controller = WorkspaceController(
            name, plane.store, plane.backends, plane.hints, system, cadence=cadence
        )
        tasks.spawn(controller.run(), name=name)
    try:
        yield
    finally:
        await tasks.cancel_all()


async def arrives(plane: Plane, workspace_id: UUID, phase: Phase) -> None:
    async def is_there() -> bool:
        status = (await plane.store.get(workspace_id)).status
        return status.phase is phase and status.operation is Operation.NONE

    await until(is_there)


async def test_hints_events_and_finished_steps_carry_it_all_the_way_without_a_tick() -> None:
    plane = real_plane(boot_s=0.05)
    async with running(plane, PATIENT):
        await asyncio.sleep(0)
        workspace_id = await plane.create()
        await arrives(plane, workspace_id, Phase.RUNNING)
        await plane.service.set_wish(workspace_id, DesiredState.ARCHIVED, BY)
        await arrives(plane, workspace_id, Phase.ARCHIVED)


async def test_a_start_is_two_writes_and_one_look_at_everybody() -> None:
    plane = real_plane(boot_s=0.05)
    plane.instances.sends_events = False
    async with running(plane, PATIENT):
        workspace_id = await plane.create(DesiredState.STANDBY)
        await arrives(plane, workspace_id, Phase.STANDBY)
        plane.points.clear()
        await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
        await arrives(plane, workspace_id, Phase.RUNNING)
        await breathe()
        assert plane.points.count("hints.send") == 1 + 2  # the wish, and what was written about it
        assert plane.points.count("instances.list") == 1


async def test_a_controller_that_hears_of_its_own_write_looks_at_nothing() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.STANDBY)
    while (await plane.get(workspace_id)).status.phase is not Phase.STANDBY:
        await controller.run_pass(EVERYONE)
        await breathe()
        plane.clock.seconds += 2
    plane.points.clear()
    hinted = Wakeup(frozenset(), everyone=False)
    assert await controller.run_pass(hinted) == 0
    assert plane.points == ["load"]
    await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
    assert await controller.run_pass(hinted) == 1
    await plane.close()


async def test_a_write_whose_pass_failed_is_news_to_the_next_one() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.STANDBY)
    await plane.converge(controller)
    await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
    hinted = Wakeup(frozenset(), everyone=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller, "_tell", _fail)
        with pytest.raises(RuntimeError):
            await controller.run_pass(hinted)
    assert (await plane.get(workspace_id)).status.operation is Operation.STARTING
    await controller.run_pass(hinted)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    await plane.close()


def _fail(*_: object) -> None:
    raise RuntimeError("in the middle of a pass")


async def test_with_every_hint_and_event_lost_the_clock_alone_gets_there() -> None:
    plane = real_plane()

    async def lose(point: str) -> None:
        if point == "hints.send":
            raise ConnectionError("lost")

    plane.hook = lose
    plane.instances.sends_events = False
    async with running(plane, QUICK):
        workspace_id = await plane.create()
        await arrives(plane, workspace_id, Phase.RUNNING)
        await plane.service.set_wish(workspace_id, DesiredState.ARCHIVED, BY)
        await arrives(plane, workspace_id, Phase.ARCHIVED)


async def test_a_store_that_is_away_for_a_while_stops_nothing_for_good() -> None:
    plane = real_plane()
    is_away, was_missed = False, asyncio.Event()

    async def hook(point: str) -> None:
        if is_away and point in ("load", "persist.before_commit"):
            was_missed.set()
            raise StoreUnavailable("away")

    plane.hook = hook
    async with running(plane, QUICK):
        is_away = True
        workspace_id = await plane.create()
        async with asyncio.timeout(PATIENCE_S):
            await was_missed.wait()
        is_away = False
        await arrives(plane, workspace_id, Phase.RUNNING)


@pytest.mark.parametrize(
    "error",
    [BackendUnreachable("away"), ActionFailed("a corrupt container"), OSError("no space left")],
    ids=["an outage", "a refusal", "a mistake"],
)
async def test_a_look_at_the_instances_that_fails_freezes_what_needs_them_and_no_more(
    error: Exception,
) -> None:
    plane = real_plane()
    is_away = True

    async def hook(point: str) -> None:
        if is_away and point.startswith("instances."):
            raise error

    plane.hook = hook
    async with running(plane, QUICK):
        workspace_id = await plane.create()

        async def knows() -> bool:
            return (await plane.store.get(workspace_id)).status.conditions.container_ready.is_unknown

        await until(knows)
        status = (await plane.store.get(workspace_id)).status
        assert (status.phase, status.operation, status.error_info) == (Phase.PENDING, Operation.NONE, None)
        is_away = False
        await arrives(plane, workspace_id, Phase.RUNNING)


async def test_two_controllers_side_by_side_start_one_instance() -> None:
    plane = real_plane()
    async with running(plane, QUICK, "c1", "c2"):
        workspace_id = await plane.create()
        for wanted in (Phase.RUNNING, Phase.STANDBY, Phase.RUNNING, Phase.ARCHIVED, Phase.RUNNING):
            await plane.service.set_wish(workspace_id, DesiredState(wanted.value), BY)
            await arrives(plane, workspace_id, wanted)
            assert plane.instances.started.count(workspace_id) <= 3
    assert len(plane.instances.started) - len(plane.instances.deleted) == 1


async def test_fifty_at_once_all_arrive() -> None:
    plane = real_plane(boot_s=0.02)
    await plane.add_owner()
    async with running(plane, PATIENT):
        await asyncio.sleep(0)
        rows = [await plane.make(f"ws-{number}") for number in range(50)]
        await asyncio.gather(*(arrives(plane, row.id, Phase.RUNNING) for row in rows))
    assert sorted(plane.instances.started) == sorted(row.id for row in rows)


async def test_no_stream_of_hints_puts_off_the_looks_at_everybody() -> None:
    plane = real_plane()
    workspace_id = await plane.create(DesiredState.STANDBY)
    async with running(plane, QUICK):
        await arrives(plane, workspace_id, Phase.STANDBY)

        async def chatter() -> None:
            while True:
                await plane.hints.send([workspace_id])
                await asyncio.sleep(0)

        chatting = asyncio.create_task(chatter())
        try:
            await points(plane, "instances.list", 20)
        finally:
            chatting.cancel()


async def test_a_starting_instance_is_watched_closely_for_as_long_as_it_starts() -> None:
    plane = real_plane(boot_s=3600)
    await plane.create()
    async with running(plane, Cadence(idle_s=0.01, active_s=600, probe_s_min=0.005, probe_s_max=0.01)):
        await points(plane, "instances.status", 100)


async def points(plane: Plane, point: str, more: int) -> None:
    """Wait until it was passed so many times more."""
    wanted = plane.points.count(point) + more

    async def is_enough() -> bool:
        return plane.points.count(point) >= wanted

    await until(is_enough)


async def test_an_instance_that_ends_while_it_starts_fails_at_once_and_says_how() -> None:
    plane = real_plane(boot_s=3600)
    workspace_id = await plane.create()
    async with running(plane, PATIENT):
        await until(lambda: is_there(plane, workspace_id))
        plane.instances.kill(workspace_id)
        await until(lambda: has_failed(plane, workspace_id))
        status = (await plane.get(workspace_id)).status
    assert (status.operation, status.error_count) == (Operation.STARTING, 1)
    error = status.error_info
    assert error is not None
    assert error.message == Message(Code.ENDED_SAYING, {"exit_code": "1", "lines": "started"})
    assert error.context == {
        "exit_code": "1",
        "last_lines": "started",
        "image_ref": SPEC.image_ref,
        "ide": SPEC.ide,
    }
    assert status.retry_at is not None


async def test_what_ends_again_and_again_while_it_starts_is_not_started_for_ever() -> None:
    plane = Plane(boot_s=3600)
    controller = plane.controller()
    workspace_id = await plane.create()
    row = await plane.get(workspace_id)
    while row.status.phase is not Phase.ERROR:
        await controller.run_pass(EVERYONE)
        await breathe()
        if plane.instances.exists(workspace_id):
            plane.instances.kill(workspace_id)
        await breathe()
        row = await plane.get(workspace_id)
        plane.clock.seconds += 2
    error = row.status.error_info
    assert error is not None
    assert (error.reason, len(plane.instances.started)) == (ErrorReason.RETRY_EXCEEDED, 4)
    await plane.close()


def test_what_a_program_said_commands_no_terminal() -> None:
    assert (
        readable_text(b"\x1b[31mred\x1b]0;t\x07\r\nnext\tline\xff\n\n")
        == "[31mred ]0;t \nnext line\N{REPLACEMENT CHARACTER}"
    )


async def is_there(plane: Plane, workspace_id: UUID) -> bool:
    return plane.instances.exists(workspace_id)


async def has_failed(plane: Plane, workspace_id: UUID) -> bool:
    return (await plane.get(workspace_id)).status.error_info is not None
