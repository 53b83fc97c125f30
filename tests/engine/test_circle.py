"""A workspace goes round: every phase and back, with every byte of its home."""

from uuid import UUID

from tests.support.engine import BY, EVERYONE, Plane

from codehub.core.errors import ErrorReason
from codehub.core.operations import DesiredState, Operation, Phase


async def wish(plane: Plane, workspace_id: UUID, wanted: DesiredState) -> None:
    await plane.service.set_wish(workspace_id, wanted, BY)


async def test_a_workspace_goes_round_the_whole_circle_and_keeps_its_files(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    plane.instances.write(workspace_id, "notes.txt", b"every byte")
    for wanted in (DesiredState.STANDBY, DesiredState.ARCHIVED, DesiredState.STANDBY, DesiredState.RUNNING):
        await wish(plane, workspace_id, wanted)
        await plane.converge(controller)
        row = await plane.get(workspace_id)
        assert (row.status.phase.value, row.status.operation) == (wanted.value, Operation.NONE)
        assert row.status.error_info is None
    assert plane.storage.files(workspace_id) == {"notes.txt": b"every byte"}
    assert (len(plane.instances.started), len(plane.instances.deleted)) == (2, 1)
    assert (len(plane.storage.made), len(plane.storage.destroyed)) == (2, 1)


async def test_what_has_converged_is_not_written_again(plane: Plane) -> None:
    controller = plane.controller()
    await plane.create()
    await plane.converge(controller)
    assert [await controller.run_pass(EVERYONE) for _ in range(5)] == [0] * 5


async def test_a_never_started_workspace_gets_an_empty_archive(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.ARCHIVED)
    await plane.converge(controller)
    row = await plane.get(workspace_id)
    assert row.status.phase is Phase.ARCHIVED
    assert row.status.archive_key is not None
    assert plane.storage.archived_files(row.status.archive_key) == {}


async def test_a_deletion_keeps_a_last_archive_and_can_be_taken_back(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    plane.instances.write(workspace_id, "a", b"1")
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    row = await plane.get(workspace_id)
    assert row.status.phase is Phase.DELETED
    assert plane.storage.files(workspace_id) is None
    await plane.service.undelete(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.ARCHIVED
    await wish(plane, workspace_id, DesiredState.RUNNING)
    await plane.converge(controller)
    assert plane.storage.files(workspace_id) == {"a": b"1"}


async def test_a_purge_keeps_nothing(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    await plane.service.delete(workspace_id, BY, purge=True)
    await plane.converge(controller)
    row = await plane.get(workspace_id)
    assert (row.status.phase, row.status.archive_key) == (Phase.DELETED, None)
    assert plane.storage.files(workspace_id) is None
    assert not await plane.storage.has_archives(workspace_id)


async def test_the_trash_is_emptied_when_its_time_is_over(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.ARCHIVED)
    await plane.converge(controller)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert await plane.storage.has_archives(workspace_id)
    plane.clock.seconds += 1001
    await plane.converge(controller)
    assert not await plane.storage.has_archives(workspace_id)
    assert (await plane.get(workspace_id)).status.archive_key is None


async def test_an_instance_that_dies_is_started_again_until_it_is_a_crash_loop(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    for _ in range(5):
        plane.instances.kill(workspace_id)
        await plane.converge(controller)
        assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    plane.instances.kill(workspace_id)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.phase is Phase.ERROR
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.CRASH_LOOP
    await plane.service.recover(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING


async def test_a_lost_home_is_an_error_until_a_person_accepts_it(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    await wish(plane, workspace_id, DesiredState.STANDBY)
    await plane.converge(controller)
    plane.storage.lose_volume(workspace_id)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.DATA_LOST
    await plane.service.recover(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.ERROR
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
