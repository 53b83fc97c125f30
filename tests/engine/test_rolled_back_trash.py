"""An older dump of the database is restored and the time in the trash is over: what was worked on since
then is kept, unless a person purges it.
"""

from uuid import UUID

import pytest
from tests.engine.homes import NEW, OLD, failed, work
from tests.support.engine import BY, Plane, collector, wish

from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Accepted, Refused
from codehub.core.workspace import RecoverChoice
from codehub.engine.controller import WorkspaceController

A, P, R = DesiredState.ARCHIVED, DesiredState.PENDING, DesiredState.RUNNING


async def dumped_in_the_trash(
    plane: Plane, made: DesiredState, *, is_archived: bool
) -> tuple[UUID, WorkspaceController]:
    """Deleted, dumped, taken back and worked on; then the dump
    is restored, when its time in the trash is over.
    """
    controller = plane.controller()
    workspace_id = await plane.create(made)
    await plane.converge(controller)
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    dump = plane.store.dump()
    await plane.service.undelete(workspace_id, BY)
    await plane.converge(controller)
    await wish(plane, controller, workspace_id, R)
    plane.instances.write(workspace_id, "thesis", NEW["thesis"])
    if is_archived:
        await wish(plane, controller, workspace_id, A)
    plane.store.roll_back(dump)
    plane.clock.seconds += 2000
    return workspace_id, plane.controller("after")


def kept(plane: Plane, workspace_id: UUID) -> bool:
    archived = [plane.storage.archived_files(key) for key in plane.storage.archive_keys()]
    return NEW in (plane.storage.files(workspace_id), *archived)


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("made", [A, P])
async def test_what_was_worked_on_after_the_deletion_outlives_the_trash(
    plane: Plane, made: DesiredState, is_archived: bool
) -> None:
    workspace_id, controller = await dumped_in_the_trash(plane, made, is_archived=is_archived)
    await plane.converge(controller)
    plane.clock.seconds += 9 * 3600
    collected = await collector(plane).collect()
    await plane.converge(controller)
    assert kept(plane, workspace_id)
    is_told = (await plane.get(workspace_id)).status.phase is Phase.ERROR or collected.newer
    assert is_told


async def test_what_outlived_the_trash_can_be_undeleted_and_gone_on_with(plane: Plane) -> None:
    workspace_id, controller = await dumped_in_the_trash(plane, A, is_archived=True)
    await plane.converge(controller)
    await failed(plane, workspace_id)
    assert isinstance((await plane.service.undelete(workspace_id, BY)).ruling, Accepted)
    await plane.service.recover(workspace_id, BY, choice=RecoverChoice.NEWEST)
    await plane.converge(controller)
    assert (await wish(plane, controller, workspace_id, R)).phase is Phase.RUNNING
    assert plane.storage.files(workspace_id) == NEW


async def test_the_newest_is_not_taken_of_what_is_being_deleted(plane: Plane) -> None:
    workspace_id, controller = await dumped_in_the_trash(plane, A, is_archived=True)
    await plane.converge(controller)
    ruled = await plane.service.recover(workspace_id, BY, choice=RecoverChoice.NEWEST)
    assert isinstance(ruled.ruling, Refused)
    assert ruled.ruling.message == Message(Code.DELETION_WAS_ASKED_FOR)


async def test_the_end_of_the_trash_leaves_a_home_whose_identity_is_lost_until_a_person_accepts_that(
    plane: Plane,
) -> None:
    workspace_id, controller = await dumped_in_the_trash(plane, A, is_archived=False)
    plane.storage.lose_identity(workspace_id)
    await plane.converge(controller)
    await failed(plane, workspace_id)
    assert plane.storage.disks[workspace_id].files == NEW
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert workspace_id not in plane.storage.disks


@pytest.mark.parametrize("is_archived", [False, True])
async def test_a_purge_that_a_person_asks_for_keeps_nothing(plane: Plane, is_archived: bool) -> None:
    workspace_id, controller = await dumped_in_the_trash(plane, A, is_archived=is_archived)
    await plane.converge(controller)
    await failed(plane, workspace_id)
    await plane.service.delete(workspace_id, BY, purge=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert not kept(plane, workspace_id)
    assert not await plane.storage.has_archives(workspace_id)


async def test_the_trash_ends_as_before_for_what_nobody_worked_on_since(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    await work(plane, controller, workspace_id, OLD)
    await wish(plane, controller, workspace_id, R)
    plane.instances.write(workspace_id, "thesis", NEW["thesis"])
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    plane.clock.seconds += 2000
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    assert not await plane.storage.has_archives(workspace_id)


@pytest.mark.parametrize(("behind_s", "phase"), [(30, Phase.ERROR), (120, Phase.DELETED)])
async def test_the_end_of_the_trash_takes_nothing_that_a_slow_clock_may_have_dated_before_the_deletion(
    plane: Plane, behind_s: int, phase: Phase
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(R)
    await plane.converge(controller)
    plane.instances.write(workspace_id, "thesis", NEW["thesis"])
    plane.clock.seconds += behind_s
    await plane.service.delete(workspace_id, BY)
    plane.clock.seconds += 2000  # nothing of it was done in all its time in the trash
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is phase
    assert kept(plane, workspace_id) is (phase is Phase.ERROR)
