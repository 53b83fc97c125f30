"""What is deleted and does not go: the engine says what holds it, waits for as long as that takes, and
starts nothing on it.
"""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Plane, breathe
from tests.support.storages import unheard

from codehub.core.conditions import Truth
from codehub.core.messages import Code
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.rules import DEFAULT_RULES
from codehub.core.workspace import Workspace, holdup
from codehub.engine.controller import WorkspaceController
from codehub.engine.gc import GarbageCollector
from codehub.ports.storage import Home

THESIS = b"the last chapter"
RUNNING, STANDBY, ARCHIVED = DesiredState.RUNNING, DesiredState.STANDBY, DesiredState.ARCHIVED


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    for backend in (made.instances, made.storage):
        backend.finalizers.patience_s = 0
    yield made
    await made.close()


async def written_home(plane: Plane) -> tuple[UUID, WorkspaceController]:
    controller = plane.controller()
    workspace_id = await plane.create(RUNNING)
    await plane.converge(controller)
    plane.storage.write(workspace_id, "thesis", THESIS)
    return workspace_id, controller


async def let_pass(plane: Plane, controller: WorkspaceController, seconds: float) -> None:
    """Let passes follow each other for so long, whatever they come to."""
    end = plane.clock.seconds + seconds
    while plane.clock.seconds < end:
        await controller.run_pass(EVERYONE)
        await breathe()
        plane.clock.seconds += 0.5


async def wish(
    plane: Plane, controller: WorkspaceController, workspace_id: UUID, wanted: DesiredState, seconds: float
) -> Workspace:
    await plane.service.set_wish(workspace_id, wanted, BY)
    await let_pass(plane, controller, seconds)
    return await plane.get(workspace_id)


def what_holds(row: Workspace) -> str:
    held_up = holdup(row.status)
    assert held_up is not None
    return held_up.message.code


async def test_a_home_that_is_held_is_waited_for_longer_than_its_operation_may_take(plane: Plane) -> None:
    workspace_id, controller = await written_home(plane)
    plane.storage.hold(workspace_id)
    seconds = DEFAULT_RULES.time_limits[Operation.ARCHIVING].total_seconds() + 60
    row = await wish(plane, controller, workspace_id, ARCHIVED, seconds)
    assert (row.status.operation, row.status.phase) == (Operation.ARCHIVING, Phase.STANDBY)
    assert what_holds(row) == Code.CLAIM_HELD
    assert row.status.archive_key is not None
    plane.storage.release(workspace_id)
    plane.clock.seconds += DEFAULT_RULES.backoff_s_max
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.ARCHIVED


async def test_nothing_starts_on_a_home_that_ends_and_it_is_restored_once_it_is_gone(plane: Plane) -> None:
    workspace_id, controller = await written_home(plane)
    plane.storage.hold(workspace_id)
    await wish(plane, controller, workspace_id, ARCHIVED, 60)
    starts = len(plane.instances.started)
    row = await wish(plane, controller, workspace_id, RUNNING, 120)
    assert what_holds(row) == Code.CLAIM_HELD
    assert len(plane.instances.started) == starts
    plane.storage.release(workspace_id)
    plane.clock.seconds += DEFAULT_RULES.backoff_s_max
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    assert plane.storage.files(workspace_id) == {"thesis": THESIS}


async def test_an_instance_that_is_held_may_run_so_nothing_is_archived_under_it(plane: Plane) -> None:
    workspace_id, controller = await written_home(plane)
    plane.instances.hold(workspace_id)
    row = await wish(plane, controller, workspace_id, ARCHIVED, 1_000)
    assert row.status.operation is Operation.STOPPING
    assert what_holds(row) == Code.NODE_LOST
    assert row.status.conditions.container_ready.status is Truth.UNKNOWN
    assert plane.storage.archive_keys() == frozenset()
    plane.storage.write(workspace_id, "thesis", b"a later word")
    plane.instances.release(workspace_id)
    plane.clock.seconds += DEFAULT_RULES.backoff_s_max
    await plane.converge(controller)
    key = (await plane.get(workspace_id)).status.archive_key
    assert key is not None
    assert plane.storage.archived_files(key) == {"thesis": b"a later word"}


async def test_a_restore_over_a_home_that_is_held_waits_and_is_no_failure(plane: Plane) -> None:
    """What an earlier restore has left is replaced: its deletion goes on whoever asked for it."""
    workspace_id, controller = await written_home(plane)
    await wish(plane, controller, workspace_id, ARCHIVED, 60)
    row = await plane.get(workspace_id)
    assert row.status.archive_key is not None
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), row.status.archive_key, unheard)
    plane.storage.hold(workspace_id)
    row = await wish(plane, controller, workspace_id, STANDBY, 300)
    assert row.status.operation is Operation.RESTORING
    assert (what_holds(row), row.status.error_count) == (Code.CLAIM_HELD, 0)
    plane.storage.release(workspace_id)
    plane.clock.seconds += DEFAULT_RULES.backoff_s_max
    await plane.converge(controller)
    assert plane.storage.files(workspace_id) == {"thesis": THESIS}


async def test_a_purge_of_what_is_held_is_not_over_before_it_is_gone(plane: Plane) -> None:
    workspace_id, controller = await written_home(plane)
    plane.storage.hold(workspace_id)
    await plane.service.delete(workspace_id, BY, purge=True)
    await let_pass(plane, controller, 1_000)
    row = await plane.get(workspace_id)
    assert row.status.phase is not Phase.DELETED
    assert what_holds(row) == Code.CLAIM_HELD
    collected = await GarbageCollector(
        plane.store, plane.backends, grace=DEFAULT_RULES.restart_window
    ).collect()
    assert collected.failed == ()
    plane.storage.release(workspace_id)
    plane.clock.seconds += DEFAULT_RULES.backoff_s_max
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert plane.storage.disks == {}
