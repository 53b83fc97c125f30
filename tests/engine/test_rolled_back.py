"""An older dump of the database is restored while the world went on:
work is neither lost nor replaced without a person's word.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from uuid import UUID

import pytest
from tests.support.engine import BY, EVERYONE, Plane, breathe, process

from codehub.core.errors import NEWEST_ARCHIVE, ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Accepted, Refused
from codehub.core.workspace import RecoverChoice, Status, Workspace
from codehub.engine.controller import WorkspaceController
from codehub.engine.gc import GarbageCollector
from codehub.ports.backends import BackendUnreachable

OLD, NEW = {"thesis": b"chapter one"}, {"thesis": b"chapter two"}
A, P, R, S = DesiredState.ARCHIVED, DesiredState.PENDING, DesiredState.RUNNING, DesiredState.STANDBY
Rows = Mapping[UUID, Workspace]


@pytest.fixture
async def plane() -> AsyncIterator[Plane]:
    made = Plane()
    yield made
    await made.close()


async def wish(
    plane: Plane, controller: WorkspaceController, workspace_id: UUID, wanted: DesiredState
) -> Status:
    await plane.service.set_wish(workspace_id, wanted, BY)
    await plane.converge(controller)
    return (await plane.get(workspace_id)).status


async def work(
    plane: Plane, controller: WorkspaceController, workspace_id: UUID, files: Mapping[str, bytes]
) -> str:
    """Start it, write this, archive it, and return the archive's key."""
    await wish(plane, controller, workspace_id, R)
    for path, content in files.items():
        plane.instances.write(workspace_id, path, content)
    status = await wish(plane, controller, workspace_id, A)
    assert status.phase is Phase.ARCHIVED
    assert status.archive_key is not None
    return status.archive_key


async def dumped_before_the_last_archive(plane: Plane) -> tuple[UUID, str, str, WorkspaceController]:
    """The row names the older of two archives. Returns both
    keys, and a controller that has just been started.
    """
    controller = plane.controller()
    workspace_id = await plane.create(P)
    older = await work(plane, controller, workspace_id, OLD)
    dump = plane.store.dump()
    newer = await work(plane, controller, workspace_id, NEW)
    plane.store.roll_back(dump)
    return workspace_id, older, newer, plane.controller("after")


async def failed(plane: Plane, workspace_id: UUID) -> Status:
    status = (await plane.get(workspace_id)).status
    assert status.error_info is not None
    assert (status.phase, status.error_info.reason) == (Phase.ERROR, ErrorReason.DATA_LOST)
    return status


def newest_named(status: Status) -> str | None:
    return None if status.error_info is None else status.error_info.context.get(NEWEST_ARCHIVE)


async def test_an_older_archive_is_not_restored_while_a_newer_one_is_there(plane: Plane) -> None:
    workspace_id, _, newer, controller = await dumped_before_the_last_archive(plane)
    await wish(plane, controller, workspace_id, R)
    status = await failed(plane, workspace_id)
    assert newest_named(status) == newer
    assert plane.storage.files(workspace_id) is None


async def test_a_person_takes_the_newest_archive(plane: Plane) -> None:
    workspace_id, _, newer, controller = await dumped_before_the_last_archive(plane)
    await wish(plane, controller, workspace_id, R)
    await plane.service.recover(workspace_id, BY, choice=RecoverChoice.NEWEST)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert (status.phase, status.archive_key) == (Phase.RUNNING, newer)
    assert plane.storage.files(workspace_id) == NEW


async def test_who_accepts_the_loss_gets_the_older_one_as_the_newest(plane: Plane) -> None:
    workspace_id, older, newer, controller = await dumped_before_the_last_archive(plane)
    await wish(plane, controller, workspace_id, S)
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.phase is Phase.STANDBY
    assert plane.storage.files(workspace_id) == OLD
    assert status.archive_key not in (None, older, newer)
    times = {each.key: each.committed_at for each in await plane.storage.list_archives_of(workspace_id)}
    last = times[status.archive_key or ""]
    assert last is not None
    assert all(at is not None and at < last for key, at in times.items() if key != status.archive_key)
    assert (await wish(plane, controller, workspace_id, A)).phase is Phase.ARCHIVED
    assert (await wish(plane, controller, workspace_id, S)).phase is Phase.STANDBY


async def test_a_recovery_without_a_choice_asks_again(plane: Plane) -> None:
    workspace_id, _, _, controller = await dumped_before_the_last_archive(plane)
    await wish(plane, controller, workspace_id, R)
    await plane.service.recover(workspace_id, BY)
    await plane.converge(controller)
    await failed(plane, workspace_id)


async def test_who_accepted_the_loss_of_a_volume_was_not_asked_about_a_newer_archive(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    await work(plane, controller, workspace_id, OLD)
    await wish(plane, controller, workspace_id, R)
    dump = plane.store.dump()
    await wish(plane, controller, workspace_id, S)
    newer = await work(plane, controller, workspace_id, NEW)
    plane.store.roll_back(dump)
    controller = plane.controller("after")
    await plane.converge(controller)
    assert newest_named(await failed(plane, workspace_id)) is None
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert newest_named(await failed(plane, workspace_id)) == newer


@pytest.mark.parametrize("wanted", [A, R])
@pytest.mark.parametrize("choice", [RecoverChoice.NEWEST, None])
async def test_a_home_is_not_begun_anew_while_an_archive_of_it_is_there(
    plane: Plane, wanted: DesiredState, choice: RecoverChoice | None
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    dump = plane.store.dump()
    newer = await work(plane, controller, workspace_id, NEW)
    plane.store.roll_back(dump)
    controller = plane.controller("after")
    await wish(plane, controller, workspace_id, wanted)
    assert newest_named(await failed(plane, workspace_id)) == newer
    await plane.service.recover(workspace_id, BY, accept_loss=choice is None, choice=choice)
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.phase == wanted.value
    # What is restored is committed anew first: nobody knows whether it was the last.
    assert (status.archive_key == newer) is (choice is not None and wanted is A)
    assert (await wish(plane, controller, workspace_id, R)).phase is Phase.RUNNING
    assert plane.storage.files(workspace_id) == (NEW if choice is not None else {})


# What a step committed, and was let go before anybody recorded it


async def let_go_after_its_commit(
    plane: Plane, workspace_id: UUID, controller: WorkspaceController, step: str, instead: DesiredState
) -> str:
    """Let the step commit its archive and then not answer; somebody wishes
    for something else meanwhile. Returns the archive's key.
    """
    before = plane.storage.archive_keys()

    async def silent(point: str) -> None:
        if point == f"storage.{step}.after_effect":
            raise BackendUnreachable("the store does not answer")

    plane.hook = silent
    process.set(controller.name)
    while (await plane.get(workspace_id)).status.held_up is None:
        await controller.run_pass(EVERYONE)
        await breathe()
        plane.clock.seconds += 0.1
    plane.hook = None
    assert isinstance((await plane.service.set_wish(workspace_id, instead, BY)).ruling, Accepted)
    await plane.converge(controller)
    (made,) = plane.storage.archive_keys() - before
    assert plane.storage.archived_files(made) is not None
    return made


async def test_an_empty_archive_that_was_never_recorded_locks_nobody_out(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(A)
    await let_go_after_its_commit(plane, workspace_id, controller, "create_empty_archive", R)
    status = (await plane.get(workspace_id)).status
    assert (status.phase, status.archive_key) == (Phase.RUNNING, None)


async def test_a_copy_that_was_never_recorded_asks_nobody_twice(plane: Plane) -> None:
    workspace_id, older, _, controller = await dumped_before_the_last_archive(plane)
    await wish(plane, controller, workspace_id, S)
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    copied = await let_go_after_its_commit(plane, workspace_id, controller, "copy_archive", A)
    assert (await plane.get(workspace_id)).status.archive_key == older
    status = await wish(plane, controller, workspace_id, S)
    assert status.phase is Phase.STANDBY
    assert status.archive_key not in (older, copied)
    assert plane.storage.files(workspace_id) == OLD


async def test_an_archive_that_was_never_recorded_is_outdone_by_the_next(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    await work(plane, controller, workspace_id, OLD)
    await wish(plane, controller, workspace_id, R)
    plane.instances.write(workspace_id, "thesis", NEW["thesis"])
    await wish(plane, controller, workspace_id, S)
    await plane.service.set_wish(workspace_id, A, BY)
    unrecorded = await let_go_after_its_commit(plane, workspace_id, controller, "archive", S)
    status = await wish(plane, controller, workspace_id, A)
    assert (status.phase, status.archive_key == unrecorded) == (Phase.ARCHIVED, False)
    assert (await wish(plane, controller, workspace_id, S)).phase is Phase.STANDBY
    assert plane.storage.files(workspace_id) == NEW


async def test_an_archive_that_was_never_recorded_is_told_of_when_the_volume_is_lost(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    await wish(plane, controller, workspace_id, R)
    plane.instances.write(workspace_id, "thesis", NEW["thesis"])
    await wish(plane, controller, workspace_id, S)
    await plane.service.set_wish(workspace_id, A, BY)
    unrecorded = await let_go_after_its_commit(plane, workspace_id, controller, "archive", S)
    plane.storage.lose_volume(workspace_id)
    await plane.converge(controller)
    await failed(plane, workspace_id)
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert newest_named(await failed(plane, workspace_id)) == unrecorded


async def test_nothing_begins_while_the_archives_can_not_be_listed(plane: Plane) -> None:
    workspace_id, _, _, controller = await dumped_before_the_last_archive(plane)

    async def away(point: str) -> None:
        if point == "storage.list_archives_of":
            raise BackendUnreachable("the store is away")

    plane.hook = away
    await plane.service.set_wish(workspace_id, R, BY)
    for _ in range(5):
        await controller.run_pass(EVERYONE)
        plane.clock.seconds += 2
    assert plane.storage.files(workspace_id) is None
    assert (await plane.get(workspace_id)).status.phase is Phase.ARCHIVED


async def test_garbage_collection_leaves_an_archive_that_is_newer_than_the_row_s(plane: Plane) -> None:
    _, older, newer, _ = await dumped_before_the_last_archive(plane)
    plane.clock.seconds += 9 * 3600
    collected = await collector(plane).collect()
    assert collected.removed == ()
    assert [archive.name for archive in collected.newer] == [newer]
    assert {each.key for each in await plane.storage.list_archives()} == {older, newer}


async def test_the_grace_counts_from_when_an_archive_was_replaced(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    older = await work(plane, controller, workspace_id, OLD)
    plane.clock.seconds += 9 * 3600
    newer = await work(plane, controller, workspace_id, NEW)
    assert (await collector(plane).collect()).removed == ()
    plane.clock.seconds += 2 * 3600
    assert [removal.item.name for removal in (await collector(plane).collect()).removed] == [older]
    assert [each.key for each in await plane.storage.list_archives()] == [newer]


async def test_a_clock_that_was_set_back_makes_no_archive_older(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create(P)
    await work(plane, controller, workspace_id, OLD)
    plane.clock.seconds -= 3600
    newer = await work(plane, controller, workspace_id, NEW)
    assert (await wish(plane, controller, workspace_id, R)).phase is Phase.RUNNING
    assert (await plane.get(workspace_id)).status.archive_key == newer
    assert plane.storage.files(workspace_id) == NEW


# The end of the trash's time


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


def collector(plane: Plane) -> GarbageCollector:
    return GarbageCollector(plane.store, plane.backends, grace=timedelta(hours=2))
