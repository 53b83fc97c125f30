"""Garbage collection against a whole plane: what goes, what
stays, what is only reported, what a dry run says.
"""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.engine import BY, EVERYONE, Plane, collector
from tests.support.storages import unheard

from codehub.core.errors import ErrorReason
from codehub.core.garbage import Thing
from codehub.core.messages import Code, Message, verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.gc import GarbageCollector
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home


async def archived_twice(plane: Plane) -> UUID:
    """A workspace whose first archive nobody needs any more."""
    controller = plane.controller()
    workspace_id = await plane.create()
    for wanted in (DesiredState.RUNNING, DesiredState.ARCHIVED, DesiredState.RUNNING, DesiredState.ARCHIVED):
        await plane.service.set_wish(workspace_id, wanted, BY)
        await plane.converge(controller)
    return workspace_id


async def test_an_old_archive_goes_after_its_grace_time_and_the_new_one_stays(plane: Plane) -> None:
    workspace_id = await archived_twice(plane)
    key = (await plane.get(workspace_id)).status.archive_key
    assert len(await plane.storage.list_archives()) == 2
    assert (await collector(plane).collect()).removed == ()
    plane.clock.seconds += 2 * 3600
    planned = await collector(plane).collect(dry_run=True)
    assert [removal.item.thing for removal in planned.removed] == [Thing.ARCHIVE]
    assert len(await plane.storage.list_archives()) == 2
    assert (await collector(plane).collect()).removed == planned.removed
    assert [archive.key for archive in await plane.storage.list_archives()] == [key]


async def test_an_old_archive_stays_while_the_meta_of_the_new_one_is_cut(plane: Plane) -> None:
    workspace_id = await archived_twice(plane)
    key = (await plane.get(workspace_id)).status.archive_key
    assert key is not None
    plane.storage.damage_archive(key)
    plane.clock.seconds += 2 * 3600
    collected = await collector(plane).collect()
    assert (collected.removed, collected.failed) == ((), ())
    assert len(await plane.storage.list_archives()) == 2


async def test_what_the_database_does_not_know_goes_only_if_asked_for(plane: Plane) -> None:
    stray = Home(uuid4(), "")
    await plane.storage.provision(stray)
    collected = await collector(plane).collect()
    assert [thing.workspace_id for thing in collected.unknown] == [stray.workspace_id]
    assert plane.storage.volume_id(stray.workspace_id) is not None
    await collector(plane).collect(orphans=True)
    assert plane.storage.volume_id(stray.workspace_id) is None


async def restored_unrecorded(plane: Plane) -> UUID:
    """A workspace that the database knows as archived: a restore of it was never recorded."""
    workspace_id = await archived_twice(plane)
    row = await plane.get(workspace_id)
    assert row.status.archive_key is not None
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), row.status.archive_key, unheard)
    return workspace_id


async def test_what_a_restore_left_that_was_never_recorded_goes(plane: Plane) -> None:
    workspace_id = await restored_unrecorded(plane)
    collected = await collector(plane).collect()
    assert [removal.item.thing for removal in collected.removed] == [Thing.VOLUME]
    assert plane.storage.volume_id(workspace_id) is None


async def test_a_home_that_an_instance_runs_on_stays_though_the_row_knows_neither(plane: Plane) -> None:
    """The row may be older than both, as after an older dump was
    restored: a container goes before its volume (contract 8).
    """
    workspace_id = await restored_unrecorded(plane)
    row = await plane.get(workspace_id)
    volume_id = plane.storage.volume_id(workspace_id)
    assert volume_id is not None
    spec = row.spec
    await plane.instances.start(
        InstanceSpec(
            row.id, spec.storage_backend, spec.home_store_key, spec.image_ref, spec.ide, spec.resources
        ),
        volume_id,
    )
    collected = await collector(plane).collect()
    assert [why for _, why in collected.failed] == [Message(Code.INSTANCE_RUNS_ON_IT)]
    assert plane.storage.volume_id(workspace_id) == volume_id


async def test_the_last_copy_of_an_archive_that_is_gone_stays_though_the_row_does_not_know_it(
    plane: Plane,
) -> None:
    workspace_id = await archived_twice(plane)
    row = await plane.get(workspace_id)
    lost = f"{workspace_id}/{UUID(int=7)}/home.tar.zst"
    plane.storage.put_archive(lost, {"thesis": b"the last chapter"}, plane.clock.now())
    await plane.storage.restore(Home(workspace_id, row.spec.home_store_key), lost, unheard)
    plane.storage.lose_archive(lost)
    collected = await collector(plane).collect()
    assert [why for _, why in collected.failed] == [Message(Code.ITEM_LAST_COPY)]
    assert plane.storage.files(workspace_id) == {"thesis": b"the last chapter"}


async def test_a_home_whose_workspace_changes_while_it_is_looked_through_stays(plane: Plane) -> None:
    workspace_id = await restored_unrecorded(plane)

    async def wished_for(point: str) -> None:
        if point == "storage.is_worked_on":
            await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)

    plane.hook = wished_for
    collected = await collector(plane).collect()
    assert [why for _, why in collected.failed] == [Message(Code.CHANGED_MEANWHILE)]
    assert plane.storage.volume_id(workspace_id) is not None


async def test_what_a_purge_has_begun_to_delete_is_left_to_it(plane: Plane) -> None:
    """Garbage collection looks at a DELETED workspace, and meanwhile
    its deletion is taken back and a purge asked for.
    """
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    row = await plane.get(workspace_id)
    now, wish = plane.clock.now(), DesiredState.PENDING
    over = replace(row.spec, desired_state=wish, deleted_at=now, purge_at=now)
    gone = replace(row, spec=over, status=replace(row.status, phase=Phase.DELETED))
    plane.store.roll_back({workspace_id: gone})

    async def begin(point: str) -> None:
        if point == "storage.list_archives_of":
            plane.hook = None
            await controller.run_pass(EVERYONE)

    plane.hook = begin
    collected = await collector(plane).collect()
    assert collected.removed == ()
    assert {why for _removal, why in collected.failed} <= {
        Message(Code.CHANGED_MEANWHILE),
        Message(Code.NEEDED_BY_NOW),
    }
    assert (await plane.get(workspace_id)).status.operation is Operation.DELETING


async def forgotten_by_an_older_dump(plane: Plane) -> UUID:
    """A workspace that the database knows as archived: it was restored and worked in since."""
    workspace_id = await restored_unrecorded(plane)
    plane.storage.write(workspace_id, "thesis", b"the last chapter")
    return workspace_id


async def test_a_home_that_is_newer_than_the_database_is_told_and_goes_only_if_asked_for(
    plane: Plane,
) -> None:
    workspace_id = await forgotten_by_an_older_dump(plane)
    collected = await collector(plane).collect()
    assert [removal.item.thing for removal, _ in collected.failed] == [Thing.VOLUME]
    assert plane.storage.files(workspace_id) is not None
    await collector(plane).collect(orphans=True)
    assert plane.storage.files(workspace_id) is None


async def test_a_home_that_is_newer_than_the_database_is_not_replaced_by_the_archive_before_a_person_says_so(
    plane: Plane,
) -> None:
    workspace_id = await forgotten_by_an_older_dump(plane)
    controller = plane.controller()
    await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
    await plane.converge(controller)
    error = (await plane.get(workspace_id)).status.error_info
    assert error is not None
    assert error.reason is ErrorReason.DATA_LOST
    files = plane.storage.files(workspace_id)
    assert files is not None
    assert files["thesis"] == b"the last chapter"
    await plane.service.recover(workspace_id, BY, accept_loss=True)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING


async def test_a_backend_that_is_away_is_named_and_the_others_are_looked_at(plane: Plane) -> None:
    await archived_twice(plane)
    plane.clock.seconds += 2 * 3600

    async def away(point: str) -> None:
        if point == "instances.list":
            raise BackendUnreachable("the engine is away")

    plane.hook = away
    collected = await collector(plane).collect()
    assert collected.unreachable == (
        Message(Code.OF_BACKEND, {"backend": "local-process", "message": verbatim("the engine is away")}),
    )
    assert len(collected.removed) == 1


async def test_an_archive_that_vanished_is_noticed_by_the_next_sweep() -> None:
    plane = Plane()
    controller = plane.controller()
    workspace_id = await plane.create(DesiredState.ARCHIVED)
    await plane.converge(controller)
    key = (await plane.get(workspace_id)).status.archive_key
    assert key is not None
    plane.storage.lose_archive(key)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.ARCHIVED
    plane.clock.seconds += 3600
    await plane.converge(controller)
    status = (await plane.get(workspace_id)).status
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.DATA_LOST
    await plane.close()


async def test_a_left_over_is_told_once_however_many_backends_its_adapter_serves(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leftovers() -> list[str]:
        return ["trash-1"]

    monkeypatch.setattr(plane.storage, "list_leftovers", leftovers)
    both = {StorageBackend.LOCAL_DIR: plane.storage, StorageBackend.OBJECT_STORE: plane.storage}
    backends = Backends(plane.backends.instances, both)
    collected = await GarbageCollector(plane.store, backends, grace=timedelta(hours=2)).collect(dry_run=True)
    assert collected.leftovers == ("trash-1",)


async def test_what_is_left_of_a_forgotten_workspace_is_told_kept_and_collected_when_its_time_is_over(
    plane: Plane,
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    plane.instances.write(workspace_id, "notes.txt", b"mine")
    plane.clock.seconds += 120  # whatever clock its files have their times by, it was before the deletion

    async def away(point: str) -> None:
        if point in ("instances.list", "instances.status"):
            raise BackendUnreachable("the engine is away")

    plane.hook = away
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    await plane.service.forget(workspace_id, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    plane.hook = None
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.DELETED
    collected = await collector(plane).collect()
    assert [thing.thing for thing in collected.forgotten] == [Thing.INSTANCE, Thing.VOLUME]
    assert collected.removed == ()
    assert plane.storage.files(workspace_id) == {"notes.txt": b"mine"}
    plane.clock.seconds += 1000
    await plane.converge(controller)
    over = await collector(plane).collect()
    assert ([removal.item.thing for removal in over.removed], over.failed) == (
        [Thing.INSTANCE, Thing.VOLUME],
        (),
    )
    assert plane.storage.volume_id(workspace_id) is None


async def test_what_was_written_after_a_deletion_that_was_forgotten_is_kept_until_somebody_ends_it(
    plane: Plane,
) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)

    async def away(point: str) -> None:
        if point in ("instances.list", "instances.status"):
            raise BackendUnreachable("the engine is away")

    plane.hook = away
    await plane.service.delete(workspace_id, BY)
    plane.clock.seconds += 1
    plane.instances.write(workspace_id, "notes.txt", b"mine")
    await plane.converge(controller)
    await plane.service.forget(workspace_id, BY)
    await plane.converge(controller)
    plane.hook = None
    plane.clock.seconds += 1000
    await plane.converge(controller)
    kept = await collector(plane).collect()
    assert kept.removed == ()
    assert [removal.item.thing for removal, _why in kept.failed] == [Thing.INSTANCE, Thing.VOLUME]
    assert {why for _removal, why in kept.failed} <= {Message(Code.ITEM_WORKED_ON_SINCE)}
    assert plane.storage.files(workspace_id) == {"notes.txt": b"mine"}
    ended = await collector(plane).collect(orphans=True)
    assert ([removal.item.thing for removal in ended.removed], ended.failed) == (
        [Thing.INSTANCE, Thing.VOLUME],
        (),
    )
    assert plane.storage.volume_id(workspace_id) is None


async def test_a_forgotten_workspace_that_is_taken_back_has_its_files(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)
    plane.instances.write(workspace_id, "notes.txt", b"mine")

    async def away(point: str) -> None:
        if point.startswith(("instances.", "storage.list")):
            raise BackendUnreachable("everything is away")

    plane.hook = away
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    await plane.service.forget(workspace_id, BY)
    await plane.converge(controller)
    plane.hook = None
    await plane.service.undelete(workspace_id, BY)
    await plane.service.set_wish(workspace_id, DesiredState.RUNNING, BY)
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).status.phase is Phase.RUNNING
    assert plane.storage.files(workspace_id) == {"notes.txt": b"mine"}


async def test_a_workspace_that_is_taken_back_while_it_is_being_forgotten_is_not_let_go(plane: Plane) -> None:
    controller = plane.controller()
    workspace_id = await plane.create()
    await plane.converge(controller)

    async def away(point: str) -> None:
        if point.startswith("instances."):
            raise BackendUnreachable("the engine is away")

    plane.hook = away
    await plane.service.delete(workspace_id, BY)
    await plane.converge(controller)
    await plane.service.forget(workspace_id, BY)

    async def take_back(point: str) -> None:
        if point == "persist.before_commit":
            plane.hook = None
            await plane.service.undelete(workspace_id, BY)

    plane.hook = take_back
    await plane.converge(controller)
    assert (await plane.get(workspace_id)).spec.deleted_at is None
    assert "DELETED" not in {each.event.after for each in await plane.store.history(workspace_id)}
