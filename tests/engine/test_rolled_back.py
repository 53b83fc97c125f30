"""An older dump of the database is restored while the world went on:
work is neither lost nor replaced without a person's word.
"""

from collections.abc import Mapping
from uuid import UUID

import pytest
from tests.engine.homes import NEW, OLD, failed, work
from tests.support.engine import BY, EVERYONE, Plane, breathe, collector, process, wish

from codehub.core.errors import NEWEST_ARCHIVE
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import Accepted
from codehub.core.workspace import RecoverChoice, Status, Workspace
from codehub.engine.controller import WorkspaceController
from codehub.ports.backends import BackendUnreachable

A, P, R, S = DesiredState.ARCHIVED, DesiredState.PENDING, DesiredState.RUNNING, DesiredState.STANDBY
Rows = Mapping[UUID, Workspace]


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
