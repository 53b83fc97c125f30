"""Time to live: an idle workspace is stopped, then archived; one that is used, or kept awake, is not."""

from tests.support.engine import BY, Plane

from codehub.core.operations import DesiredState, Phase
from codehub.engine.ttl import TtlManager


async def test_an_idle_workspace_is_stopped_after_its_ttl_and_archived_after_the_next(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    assert await TtlManager(plane.store, plane.service).run_round() == 0
    plane.clock.seconds += 300
    assert await TtlManager(plane.store, plane.service).run_round() == 1
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
    plane.clock.seconds += 86400
    assert await TtlManager(plane.store, plane.service).run_round() == 1
    await plane.converge(controller)
    row = await plane.get(workspace_id)
    assert (row.status.phase, row.spec.desired_state) == (Phase.ARCHIVED, DesiredState.ARCHIVED)
    reasons = [recorded.event.actor for recorded in await plane.store.history(workspace_id)]
    assert reasons.count("ttl") == 2


async def test_a_workspace_that_is_used_stays_awake(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    plane.clock.seconds += 299
    await plane.service.touch({workspace_id: plane.clock.now()})
    plane.clock.seconds += 299
    assert await TtlManager(plane.store, plane.service).run_round() == 0


async def test_a_workspace_that_is_kept_awake_stays_awake(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    await plane.service.keep_awake(workspace_id, BY, seconds=3600)
    plane.clock.seconds += 3600
    assert await TtlManager(plane.store, plane.service).run_round() == 0
    plane.clock.seconds += 300
    assert await TtlManager(plane.store, plane.service).run_round() == 1


async def test_one_that_was_used_just_before_the_row_was_locked_is_left_alone(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    plane.clock.seconds += 300

    async def use(point: str) -> None:
        if point == "amend.before_commit":
            plane.hook = None
            await plane.service.touch({workspace_id: plane.clock.now()})

    plane.hook = use
    assert await TtlManager(plane.store, plane.service).run_round() == 0
    assert (await plane.get(workspace_id)).spec.desired_state is DesiredState.RUNNING
