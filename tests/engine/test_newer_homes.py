"""An older dump of the database was restored, and somebody worked
in a home since: nothing of that is lost in silence.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.engine.homes import THESIS, work_in_another_home
from tests.support.engine import BY, Plane, wish
from tests.support.storages import unheard

from codehub.core.errors import ErrorReason
from codehub.core.observation import Volume
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act
from codehub.core.workspace import Workspace
from codehub.engine.controller import WorkspaceController
from codehub.engine.execute import Executor, Superseded
from codehub.ports.storage import Home

EARLIER = datetime(2000, 1, 1, tzinfo=UTC)


async def archived(plane: Plane, controller: WorkspaceController) -> UUID:
    workspace_id = await plane.create(DesiredState.ARCHIVED)
    await plane.converge(controller)
    return workspace_id


async def standby(plane: Plane, controller: WorkspaceController) -> UUID:
    """A workspace that was restored and that nobody has started since."""
    workspace_id = await archived(plane, controller)
    status = await wish(plane, controller, workspace_id, DesiredState.STANDBY)
    assert (status.phase, status.home_ctx.dirty) == (Phase.STANDBY, False)
    return workspace_id


async def reason(plane: Plane, workspace_id: UUID) -> ErrorReason | None:
    error = (await plane.get(workspace_id)).status.error_info
    return None if error is None else error.reason


async def test_a_home_that_nobody_touched_is_not_archived_again(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await standby(plane, controller)
    key = (await plane.get(workspace_id)).status.archive_key
    status = await wish(plane, controller, workspace_id, DesiredState.ARCHIVED)
    assert (status.phase, status.archive_key) == (Phase.ARCHIVED, key)
    assert len(await plane.storage.list_archives()) == 1


async def test_a_home_that_is_newer_than_its_row_is_archived_before_it_is_deleted(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await standby(plane, controller)
    plane.storage.write(workspace_id, "thesis", THESIS["thesis"])
    status = await wish(plane, controller, workspace_id, DesiredState.ARCHIVED)
    assert status.archive_key is not None
    assert plane.storage.archived_files(status.archive_key) == THESIS


async def test_a_deletion_keeps_a_home_that_is_newer_than_its_row_in_the_trash(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await standby(plane, controller)
    plane.storage.write(workspace_id, "thesis", THESIS["thesis"])
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.phase is Phase.DELETED
    assert status.archive_key is not None
    assert plane.storage.archived_files(status.archive_key) == THESIS


@pytest.mark.parametrize("made", [DesiredState.ARCHIVED, DesiredState.PENDING])
async def test_a_deletion_leaves_a_home_that_the_row_does_not_know_and_a_purge_does_not(
    plane: Plane, made: DesiredState
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(made)
    await plane.converge(controller)
    await work_in_another_home(plane, workspace_id)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert await reason(plane, workspace_id) is ErrorReason.DATA_LOST
    await plane.service.delete(workspace_id, BY)  # asking again changes nothing
    await plane.converge(controller)
    assert plane.storage.files(workspace_id) == THESIS
    await plane.service.delete(workspace_id, BY, purge=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert plane.storage.volume_id(workspace_id) is None


async def test_a_deletion_goes_on_when_the_loss_of_such_a_home_is_accepted(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    await work_in_another_home(plane, workspace_id)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert (status.phase, plane.storage.volume_id(workspace_id)) == (Phase.DELETED, None)
    assert status.archive_key is not None


async def test_what_an_unrecorded_restore_has_left_is_deleted_with_its_workspace(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    row = await plane.get(workspace_id)
    assert row.status.archive_key is not None
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), row.status.archive_key, unheard)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert plane.storage.volume_id(workspace_id) is None


async def test_a_loss_that_was_accepted_once_is_no_word_about_what_came_later(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    await work_in_another_home(plane, workspace_id)
    await wish(plane, controller, workspace_id, DesiredState.RUNNING)
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    status = await wish(plane, controller, workspace_id, DesiredState.ARCHIVED)
    assert status.phase is Phase.ARCHIVED
    await work_in_another_home(plane, workspace_id)
    await wish(plane, controller, workspace_id, DesiredState.RUNNING)
    assert await reason(plane, workspace_id) is ErrorReason.DATA_LOST
    assert plane.storage.files(workspace_id) == THESIS


async def restored_from_a_lost_archive(plane: Plane, workspace_id: UUID) -> None:
    """Let a home be there that the row knows nothing of, as it
    was restored from an archive that is gone by now.
    """
    row = await plane.get(workspace_id)
    assert row.status.archive_key is not None
    key = f"{workspace_id}/{UUID(int=7)}/home.tar.zst"
    plane.storage.put_archive(key, THESIS, plane.clock.now())
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), key, unheard)
    plane.storage.lose_archive(key)


async def test_the_last_copy_of_a_lost_archive_is_not_replaced_unless_its_loss_is_accepted(
    plane: Plane,
) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    await restored_from_a_lost_archive(plane, workspace_id)
    await wish(plane, controller, workspace_id, DesiredState.STANDBY)
    assert await reason(plane, workspace_id) is ErrorReason.DATA_LOST
    assert plane.storage.files(workspace_id) == THESIS
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.STANDBY
    assert plane.storage.files(workspace_id) == {}


@pytest.mark.parametrize("is_over", [False, True])
async def test_the_last_copy_of_a_lost_archive_survives_a_deletion_and_the_end_of_the_trashs_time(
    plane: Plane, is_over: bool
) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    await plane.service.delete(workspace_id, BY)
    if is_over:
        await plane.converge(controller)
        deletion = await plane.get(workspace_id)
        assert deletion.spec.purge_at is not None
        plane.clock.seconds += (deletion.spec.purge_at - plane.clock.now()).total_seconds() + 1
    await restored_from_a_lost_archive(plane, workspace_id)
    await plane.converge(controller)
    assert await reason(plane, workspace_id) is ErrorReason.DATA_LOST
    assert plane.storage.files(workspace_id) == THESIS


async def test_a_home_whose_archive_is_there_is_no_last_copy(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await archived(plane, controller)
    row = await plane.get(workspace_id)
    key = f"{workspace_id}/{UUID(int=7)}/home.tar.zst"
    plane.storage.put_archive(key, THESIS, EARLIER)
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), key, unheard)
    status = await wish(plane, controller, workspace_id, DesiredState.STANDBY)
    assert (status.phase, plane.storage.files(workspace_id)) == (Phase.STANDBY, {})


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        (Operation.RESTORING, Step.RESTORE),
        (Operation.DELETING, Step.DELETE_VOLUME),
        (Operation.ARCHIVING, Step.ARCHIVE),
    ],
)
async def test_the_row_is_asked_again_after_a_look_through_a_home_which_may_take_long(
    plane: Plane, operation: Operation, step: Step
) -> None:
    workspace_id = await standby(plane, plane.controller())
    row = await plane.get(workspace_id)
    if step is Step.ARCHIVE:
        plane.storage.write(workspace_id, "thesis", THESIS["thesis"])
    begun = _begun(row, operation, plane.clock.now())
    before = (plane.storage.volume_id(workspace_id), len(await plane.storage.list_archives()))
    is_mine = True

    async def holds(_workspace_id: UUID, _op_id: UUID) -> datetime | None:
        return plane.clock.now() if is_mine else None

    async def taken_over(point: str) -> None:
        nonlocal is_mine
        is_mine = is_mine and point != "storage.is_worked_on"

    plane.hook = taken_over
    volume = Volume(plane.storage.volume_id(workspace_id))
    with pytest.raises(Superseded):
        await Executor(plane.backends, holds).run(
            begun, Act(operation, step), volume, plane.clock.now(), unheard
        )
    plane.hook = None
    assert before == (plane.storage.volume_id(workspace_id), len(await plane.storage.list_archives()))


def _begun(row: Workspace, operation: Operation, now: datetime) -> Workspace:
    asked: dict[str, Any] = {"deleted_at": now} if operation is Operation.DELETING else {}
    return replace(row, spec=replace(row.spec, **asked), status=replace(row.status, operation=operation))
