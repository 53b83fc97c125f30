"""A home whose identity is lost, and a row that knows nothing of it or of
what was done in it: its files go by a person's word alone.
"""

from typing import Any
from uuid import UUID

import pytest
from tests.engine.homes import THESIS, work_in_another_home
from tests.support.engine import BY, Plane, collector, wish

from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import RecoverChoice, Status
from codehub.engine.controller import WorkspaceController

A, P, R = DesiredState.ARCHIVED, DesiredState.PENDING, DesiredState.RUNNING
# With an archive that the row names, and without any.
BOTH = pytest.mark.parametrize("made", [A, P])


async def unknown_home(plane: Plane, made: DesiredState) -> tuple[UUID, WorkspaceController]:
    """A workspace at rest, as an older dump has it; somebody worked in a
    home that it knows nothing of, and whose identity is lost.
    """
    controller = plane.controller()
    workspace_id = await plane.create(made)
    await plane.converge(controller)
    await lose_another_home(plane, workspace_id)
    return workspace_id, controller


async def lose_another_home(plane: Plane, workspace_id: UUID) -> None:
    await work_in_another_home(plane, workspace_id)
    plane.storage.lose_identity(workspace_id)


async def recover(plane: Plane, controller: WorkspaceController, workspace_id: UUID, **choice: Any) -> Status:
    await plane.service.recover(workspace_id, BY, **choice)
    await plane.converge(controller)
    return (await plane.get(workspace_id)).status


def is_asked(status: Status) -> bool:
    error = status.error_info
    return (
        status.phase is Phase.ERROR
        and error is not None
        and (error.reason, error.message) == (ErrorReason.DATA_LOST, Message(Code.IDENTITY_LOST))
    )


def files(plane: Plane, workspace_id: UUID) -> object:
    disk = plane.storage.disks.get(workspace_id)
    return None if disk is None else disk.files


@BOTH
async def test_a_home_that_the_row_does_not_know_is_not_taken_for_half_a_volume(
    plane: Plane, made: DesiredState
) -> None:
    workspace_id, controller = await unknown_home(plane, made)
    assert is_asked(await wish(plane, controller, workspace_id, R))
    assert is_asked(await recover(plane, controller, workspace_id))
    assert files(plane, workspace_id) == THESIS


@BOTH
async def test_such_a_home_is_adopted_with_its_files(plane: Plane, made: DesiredState) -> None:
    workspace_id, controller = await unknown_home(plane, made)
    await wish(plane, controller, workspace_id, R)
    status = await recover(plane, controller, workspace_id, choice=RecoverChoice.ADOPT)
    assert (status.phase, status.home_ctx.dirty) == (Phase.RUNNING, True)
    assert plane.storage.files(workspace_id) == THESIS


@BOTH
async def test_such_a_home_is_replaced_when_its_loss_is_accepted_and_no_other_is(
    plane: Plane, made: DesiredState
) -> None:
    workspace_id, controller = await unknown_home(plane, made)
    await wish(plane, controller, workspace_id, R)
    status = await recover(plane, controller, workspace_id, accept_loss=True)
    assert (status.phase, status.home_ctx.replaces) == (Phase.RUNNING, None)
    assert plane.storage.files(workspace_id) == {}
    assert (await wish(plane, controller, workspace_id, A)).phase is Phase.ARCHIVED
    await lose_another_home(plane, workspace_id)
    assert is_asked(await wish(plane, controller, workspace_id, R))
    assert files(plane, workspace_id) == THESIS


async def test_who_takes_the_newest_archive_gives_up_such_a_home(plane: Plane) -> None:
    workspace_id, controller = await unknown_home(plane, A)
    await wish(plane, controller, workspace_id, R)
    status = await recover(plane, controller, workspace_id, choice=RecoverChoice.NEWEST)
    assert status.phase is Phase.RUNNING
    assert plane.storage.files(workspace_id) == {}


async def test_a_home_that_the_row_takes_for_untouched_is_not_replaced_either(plane: Plane) -> None:
    """The dump was made after a restore and before the first
    start: the id is the same, and the row is not dirty.
    """
    controller = plane.controller()
    workspace_id = await plane.create(A)
    await plane.converge(controller)
    await wish(plane, controller, workspace_id, DesiredState.STANDBY)
    plane.storage.write(workspace_id, "thesis", THESIS["thesis"])
    plane.storage.lose_identity(workspace_id)
    assert is_asked(await wish(plane, controller, workspace_id, R))
    assert files(plane, workspace_id) == THESIS


@BOTH
@pytest.mark.parametrize("is_purge", [True, False])
async def test_a_deletion_leaves_such_a_home_until_it_is_purged_or_its_loss_accepted(
    plane: Plane, made: DesiredState, is_purge: bool
) -> None:
    workspace_id, controller = await unknown_home(plane, made)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert is_asked((await plane.get(workspace_id)).status)
    assert files(plane, workspace_id) == THESIS
    if is_purge:
        await plane.service.delete(workspace_id, BY, purge=True)
        await plane.converge(controller)
    else:
        await recover(plane, controller, workspace_id, accept_loss=True)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert files(plane, workspace_id) is None


async def test_a_deletion_stops_what_runs_on_such_a_home_before_it_asks_about_the_files(plane: Plane) -> None:
    """Else what runs makes the files the only copy again and again, and the
    deletion is asked about for ever (simulator, seed 10005).
    """
    controller = plane.controller()
    workspace_id = await plane.create(R)
    await plane.converge(controller)
    plane.storage.lose_identity(workspace_id)
    await plane.converge(controller)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert is_asked(await recover(plane, controller, workspace_id, accept_loss=True))
    assert (await recover(plane, controller, workspace_id, accept_loss=True)).phase is Phase.DELETED
    assert files(plane, workspace_id) is None


async def test_garbage_collection_leaves_such_a_home_beside_an_archive(plane: Plane) -> None:
    workspace_id, _ = await unknown_home(plane, A)
    await check_that_it_stays(plane, workspace_id)


@BOTH
async def test_garbage_collection_leaves_such_a_home_of_a_deleted_workspace(
    plane: Plane, made: DesiredState
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(made)
    await plane.converge(controller)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    await lose_another_home(plane, workspace_id)
    plane.clock.seconds += 2000
    await check_that_it_stays(plane, workspace_id)


async def check_that_it_stays(plane: Plane, workspace_id: UUID) -> None:
    collected = await collector(plane).collect()
    assert collected.removed == ()
    assert [why for _, why in collected.failed] == [Message(Code.ITEM_UNIDENTIFIED)]
    assert files(plane, workspace_id) == THESIS
    await collector(plane).collect(orphans=True)
    assert files(plane, workspace_id) is None
