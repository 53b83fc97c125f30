"""The contract of storage, for every adapter: identity, idempotency, order, and that a half-done thing never counts."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.docker import DOCKER_SUITE, Docker
from tests.support.storages import (
    COMMITTED_AT,
    Files,
    Storage,
    denied,
    granted,
    new_home,
    opened_storage,
    unheard,
)

from codehub.core.errors import ErrorReason
from codehub.core.observation import UNTOLD, Archive, Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home, MayCommit, RestoredVolume, StorageProvider

FILES: Files = {"notes.txt": b"hello\n", "src/deep/main.py": b"print()\n" * 1000, "empty": b""}


@pytest.fixture(
    params=["memory", "local-dir and file://", pytest.param("docker-volume and file://", marks=DOCKER_SUITE)]
)
async def storage(request: pytest.FixtureRequest, tmp_path: Path, docker: Docker) -> AsyncIterator[Storage]:
    async with opened_storage(request.param, tmp_path, docker) as opened:
        yield opened


@pytest.fixture
def provider(storage: Storage) -> StorageProvider:
    return storage.provider


@pytest.fixture
def home() -> Home:
    return new_home()


async def filled(storage: Storage, home: Home, files: Files = FILES) -> str:
    """Provision a home, fill it, and return its volume_id."""
    volume_id = await storage.provider.provision(home)
    storage.write(home, files)
    return volume_id


async def restored(storage: Storage, home: Home, key: str) -> RestoredVolume:
    """Restore as the engine does: over the volume that was seen."""
    there = (await storage.provider.list_volumes()).get(home.workspace_id)
    return await storage.provider.restore(
        home, key, unheard, replaces=None if there is None else there.volume_id
    )


async def archived(storage: Storage, home: Home, files: Files = FILES) -> str:
    """Archive such a home, delete its volume, and return the archive's key."""
    volume_id = await filled(storage, home, files)
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    await storage.provider.delete_volume(home, volume_id)
    return key


# Volumes


async def test_a_provisioned_volume_is_empty_and_listed_with_its_id(storage: Storage, home: Home) -> None:
    volume_id = await storage.provider.provision(home)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == {}


async def test_provisioning_again_finds_the_same_volume_and_keeps_its_files(
    storage: Storage, home: Home
) -> None:
    volume_id = await filled(storage, home)
    assert await storage.provider.provision(home) == volume_id
    assert storage.files(home) == FILES


async def test_every_volume_has_an_id_of_its_own(provider: StorageProvider, home: Home) -> None:
    first = await provider.provision(home)
    await provider.delete_volume(home, first)
    assert await provider.provision(home) != first
    assert await provider.provision(new_home()) != first


async def test_half_a_volume_is_listed_without_an_id_and_replaced_by_provisioning(
    storage: Storage, home: Home
) -> None:
    storage.leave_half_a_volume(home)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(None)}
    volume_id = await storage.provider.provision(home)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == {}


async def test_a_deleted_volume_is_gone_and_deleting_again_is_success(storage: Storage, home: Home) -> None:
    volume_id = await filled(storage, home)
    for _ in range(2):
        await storage.provider.delete_volume(home, volume_id)
        assert await storage.provider.list_volumes() == {}


async def test_a_volume_of_a_workspace_that_nobody_knows_is_found_by_its_id(
    storage: Storage, home: Home
) -> None:
    volume_id = await filled(storage, home)
    for _ in range(2):
        await storage.provider.delete_volume(Home(home.workspace_id, ""), volume_id)
        assert await storage.provider.list_volumes() == {}


async def test_deleting_refuses_any_other_volume(storage: Storage, home: Home) -> None:
    volume_id = await filled(storage, home)
    for other in (str(uuid4()), None):
        with pytest.raises(ActionFailed):
            await storage.provider.delete_volume(home, other)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == FILES


async def test_half_a_volume_is_deleted_by_the_name_of_none_alone(storage: Storage, home: Home) -> None:
    storage.leave_half_a_volume(home)
    with pytest.raises(ActionFailed):
        await storage.provider.delete_volume(home, str(uuid4()))
    await storage.provider.delete_volume(home, None)
    assert await storage.provider.list_volumes() == {}


async def test_a_volume_that_somebody_worked_on_is_told_from_one_that_is_as_it_was_made(
    storage: Storage, home: Home
) -> None:
    key = await archived(storage, home)
    made = await restored(storage, home, key)
    await storage.let_a_moment_pass()
    assert not await storage.provider.is_worked_on(home, made.volume_id)
    storage.write(home, {"src/deep/main.py": b"pass\n"})
    assert await storage.provider.is_worked_on(home, made.volume_id)
    with pytest.raises(ActionFailed):
        await storage.provider.is_worked_on(home, "another")


async def test_work_that_was_done_before_a_moment_is_told_from_what_came_after_it(
    storage: Storage, home: Home
) -> None:
    made = await restored(storage, home, await archived(storage, home))
    await storage.let_a_moment_pass()
    storage.write(home, {"src/deep/main.py": b"pass\n"})
    await storage.let_a_moment_pass()
    moment = datetime.now(UTC)
    assert not await storage.provider.is_worked_on(home, made.volume_id, since=moment)
    assert await storage.provider.is_worked_on(home, made.volume_id)
    await storage.let_a_moment_pass()
    storage.write(home, {"src/deep/main.py": b"# later\n"})
    assert await storage.provider.is_worked_on(home, made.volume_id, since=moment)


async def test_work_before_a_volume_was_made_is_none_on_it(storage: Storage, home: Home) -> None:
    moment = datetime.now(UTC)
    await storage.let_a_moment_pass()
    made = await restored(storage, home, await archived(storage, home))
    await storage.let_a_moment_pass()
    assert not await storage.provider.is_worked_on(home, made.volume_id, since=moment)


async def test_volumes_do_not_know_each_other(storage: Storage) -> None:
    deleted, other = new_home(), new_home()
    deleted_id, other_id = await filled(storage, deleted), await filled(storage, other, {"other": b"other"})
    await storage.provider.delete_volume(deleted, deleted_id)
    assert await storage.provider.list_volumes() == {other.workspace_id: Volume(other_id)}
    assert storage.files(other) == {"other": b"other"}


# Archives


async def test_what_was_archived_comes_back_in_a_new_volume(storage: Storage, home: Home) -> None:
    old = await filled(storage, home)
    key = await storage.provider.archive(home, old, uuid4(), unheard, granted)
    await storage.provider.delete_volume(home, old)
    made = await restored(storage, home, key)
    assert made.marker == key
    assert made.volume_id != old
    volume = (await storage.provider.list_volumes())[home.workspace_id]
    assert volume.made_from == key
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(made.volume_id)}
    assert storage.files(home) == FILES


async def test_archiving_leaves_the_volume_as_it_was(storage: Storage, home: Home) -> None:
    volume_id = await filled(storage, home)
    await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == FILES


async def test_the_key_names_the_workspace_and_the_operation(storage: Storage, home: Home) -> None:
    volume_id, op_id = await filled(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    assert key == f"{home.workspace_id}/{op_id}/home.tar.zst"
    assert await storage.provider.create_empty_archive(home, op_id, granted) == key


async def test_a_committed_archive_of_an_operation_is_found_and_not_written_again(
    storage: Storage, home: Home
) -> None:
    volume_id, op_id = await filled(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.write(home, {"later": b"later"})
    assert await storage.provider.archive(home, volume_id, op_id, unheard, denied) == key
    storage.lose_volume(home)
    assert await storage.provider.archive(home, volume_id, op_id, unheard, granted) == key
    await restored(storage, home, key)
    assert storage.files(home) == FILES


async def test_a_half_written_archive_of_an_operation_is_replaced(storage: Storage, home: Home) -> None:
    volume_id, op_id = await filled(storage, home, {"old": b"old" * 1000}), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.uncommit(key)
    storage.write(home, {"new": b"new"})
    await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    await restored(storage, home, key)
    assert storage.files(home) == {"old": b"old" * 1000, "new": b"new"}


async def test_an_archive_whose_meta_was_cut_does_not_count_and_is_written_again(
    storage: Storage, home: Home
) -> None:
    volume_id, op_id = await filled(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.damage(key)
    assert await storage.provider.head_archive(key) == Archive(committed=False)
    with pytest.raises(ActionFailed) as failed:
        await restored(storage, home, key)
    assert failed.value.reason is ErrorReason.ARCHIVE_CORRUPTED
    with pytest.raises(ActionFailed, match="taken over"):
        await storage.provider.archive(home, volume_id, op_id, unheard, denied)
    storage.write(home, {"new": b"new"})
    assert await storage.provider.archive(home, volume_id, op_id, unheard, granted) == key
    assert await storage.provider.head_archive(key) == Archive(committed=True)
    await restored(storage, home, key)
    assert storage.files(home) == {**FILES, "new": b"new"}


async def test_archiving_refuses_any_other_volume(storage: Storage, home: Home) -> None:
    op_id = uuid4()
    with pytest.raises(ActionFailed):
        await storage.provider.archive(home, str(uuid4()), op_id, unheard, granted)
    await filled(storage, home)
    with pytest.raises(ActionFailed):
        await storage.provider.archive(home, str(uuid4()), op_id, unheard, granted)
    assert not await storage.provider.has_archives(home.workspace_id)


async def test_an_archive_is_not_committed_once_the_operation_was_taken_over(
    storage: Storage, home: Home
) -> None:
    volume_id, op_id = await filled(storage, home), uuid4()
    with pytest.raises(ActionFailed, match="taken over"):
        await storage.provider.archive(home, volume_id, op_id, unheard, denied)
    archive = await storage.provider.head_archive(f"{home.workspace_id}/{op_id}/home.tar.zst")
    assert archive is None or not archive.committed


async def test_an_archive_is_not_committed_once_its_volume_is_gone(storage: Storage, home: Home) -> None:
    volume_id, op_id = await filled(storage, home), uuid4()

    async def loses_the_volume() -> datetime | None:
        storage.lose_volume(home)
        await storage.provider.provision(home)
        return await granted()

    with pytest.raises(ActionFailed):
        await storage.provider.archive(home, volume_id, op_id, unheard, loses_the_volume)
    archive = await storage.provider.head_archive(f"{home.workspace_id}/{op_id}/home.tar.zst")
    assert archive is None or not archive.committed


async def test_whether_it_may_commit_is_asked_after_everything_was_written(
    storage: Storage, home: Home
) -> None:
    volume_id = await filled(storage, home)
    heard: list[Amount] = []
    asked_after = -1

    async def asked() -> datetime | None:
        nonlocal asked_after
        asked_after = len(heard)
        return await granted()

    await storage.provider.archive(home, volume_id, uuid4(), heard.append, asked)
    assert asked_after == len(heard) > 0


async def test_an_empty_archive_restores_to_an_empty_home(storage: Storage, home: Home) -> None:
    op_id = uuid4()
    key = await storage.provider.create_empty_archive(home, op_id, granted)
    assert await storage.provider.create_empty_archive(home, op_id, granted) == key
    assert await storage.provider.head_archive(key) == Archive(committed=True)
    made = await restored(storage, home, key)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(made.volume_id)}
    assert storage.files(home) == {}


async def test_an_empty_archive_of_an_operation_that_was_taken_over_does_not_count(
    storage: Storage, home: Home
) -> None:
    op_id = uuid4()
    with pytest.raises(ActionFailed, match="taken over"):
        await storage.provider.create_empty_archive(home, op_id, denied)
    (archive,) = await storage.provider.list_archives()
    assert not archive.committed
    key = await storage.provider.create_empty_archive(home, op_id, granted)
    assert await storage.provider.head_archive(key) == Archive(committed=True)


async def test_an_empty_archive_whose_meta_was_cut_does_not_count_and_is_written_again(
    storage: Storage, home: Home
) -> None:
    op_id = uuid4()
    key = await storage.provider.create_empty_archive(home, op_id, granted)
    storage.damage(key)
    assert await storage.provider.head_archive(key) == Archive(committed=False)
    assert await storage.provider.create_empty_archive(home, op_id, granted) == key
    assert await storage.provider.head_archive(key) == Archive(committed=True)


async def test_an_empty_home_is_archived_and_restored(storage: Storage, home: Home) -> None:
    key = await archived(storage, home, {})
    await restored(storage, home, key)
    assert storage.files(home) == {}


async def test_long_work_says_how_far_it_is_and_never_goes_back(storage: Storage, home: Home) -> None:
    volume_id = await filled(storage, home, {str(number): bytes(100_000) for number in range(40)})
    heard: list[Amount] = []
    key = await storage.provider.archive(home, volume_id, uuid4(), heard.append, granted)
    assert {amount.stage for amount in heard} <= {"archive", "verify"}
    await storage.provider.restore(home, key, heard.append, replaces=volume_id)
    stages = ("archive", "verify", "restore")
    assert [amount.stage for amount in heard] == sorted((amount.stage for amount in heard), key=stages.index)
    for stage in stages:
        done = [amount.done for amount in heard if amount.stage == stage]
        assert done == sorted(done)
    assert all(amount.total is None or amount.done <= amount.total for amount in heard)
    assert heard[-1].done == heard[-1].total


# Restoring


async def test_restoring_replaces_what_was_half_there(storage: Storage, home: Home) -> None:
    key = await archived(storage, home)
    storage.leave_half_a_volume(home)
    await restored(storage, home, key)
    assert storage.files(home) == FILES


async def test_restoring_again_makes_a_new_volume_that_a_late_deletion_of_the_first_misses(
    storage: Storage, home: Home
) -> None:
    key = await archived(storage, home)
    first = await restored(storage, home, key)
    second = await restored(storage, home, key)
    with pytest.raises(ActionFailed):
        await storage.provider.delete_volume(home, first.volume_id)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(second.volume_id)}
    assert storage.files(home) == FILES


async def test_a_restore_that_comes_late_leaves_what_the_first_one_made(storage: Storage, home: Home) -> None:
    key = await archived(storage, home)
    await restored(storage, home, key)
    storage.write(home, {"since": b"then"})
    with pytest.raises(ActionFailed):
        await storage.provider.restore(home, key, unheard, replaces=None)
    assert storage.files(home) == {**FILES, "since": b"then"}


async def test_restoring_another_archive_replaces_the_volume_that_it_was_told_to_and_no_other(
    storage: Storage, home: Home
) -> None:
    key, other = await archived(storage, home), await archived(storage, home, {"other": b"other"})
    first = await restored(storage, home, key)
    with pytest.raises(ActionFailed):
        await storage.provider.restore(home, other, unheard, replaces="another")
    assert storage.files(home) == FILES
    second = await storage.provider.restore(home, other, unheard, replaces=first.volume_id)
    assert second.volume_id != first.volume_id
    assert storage.files(home) == {"other": b"other"}


@pytest.mark.parametrize("lost", ["never written", "lost", "not committed"])
async def test_restoring_what_is_not_there_says_data_lost_and_leaves_what_is(
    storage: Storage, home: Home, lost: str
) -> None:
    volume_id = await filled(storage, home, {"kept": b"kept"})
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    match lost:
        case "never written":
            key = f"{home.workspace_id}/{uuid4()}/home.tar.zst"
        case "lost":
            storage.lose_archive(key)
        case _:
            storage.uncommit(key)
    with pytest.raises(ActionFailed) as failed:
        await restored(storage, home, key)
    assert failed.value.reason is ErrorReason.DATA_LOST
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == {"kept": b"kept"}


# Looking at archives and deleting them


async def test_heads_and_lists_tell_committed_from_half_and_absent(storage: Storage, home: Home) -> None:
    whole, half = await archived(storage, home), await archived(storage, home)
    storage.uncommit(half)
    absent = f"{home.workspace_id}/{uuid4()}/home.tar.zst"
    assert await storage.provider.head_archive(whole) == Archive(committed=True)
    assert await storage.provider.head_archive(half) == Archive(committed=False)
    assert await storage.provider.head_archive(absent) is None
    listed = await storage.provider.list_archives()
    assert {archive.key: archive.committed for archive in listed} == {whole: True, half: False}
    assert all(abs(datetime.now(UTC) - archive.modified_at) < timedelta(minutes=5) for archive in listed)
    assert all(archive.size > 0 for archive in listed)


async def test_a_deleted_archive_is_gone_and_deleting_again_is_success(storage: Storage, home: Home) -> None:
    gone, kept = await archived(storage, home), await archived(storage, home)
    for _ in range(2):
        await storage.provider.delete_archive(gone)
        assert await storage.provider.head_archive(gone) is None
    assert [archive.key for archive in await storage.provider.list_archives()] == [kept]
    await restored(storage, home, kept)
    assert storage.files(home) == FILES


async def test_purging_deletes_all_archives_of_one_workspace_and_no_other(storage: Storage) -> None:
    purged, other = new_home(), new_home()
    first, half, others = [await archived(storage, each) for each in (purged, purged, other)]
    storage.uncommit(half)
    assert await storage.provider.has_archives(purged.workspace_id)
    for _ in range(2):
        await storage.provider.purge(purged)
        assert not await storage.provider.has_archives(purged.workspace_id)
    assert await storage.provider.head_archive(first) is None
    assert [archive.key for archive in await storage.provider.list_archives()] == [others]


# Adoption: identity lost, files there


async def test_a_volume_whose_identity_is_lost_is_there_and_adopted_with_its_files(
    storage: Storage, home: Home
) -> None:
    lost = await filled(storage, home)
    storage.lose_identity(home)
    assert storage.files(home) is None
    there = (await storage.provider.list_volumes())[home.workspace_id]
    assert there.volume_id is None
    assert there.bears in (lost, UNTOLD)
    assert await storage.provider.adopt(home, lost) == lost
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(lost)}
    assert storage.files(home) == FILES
    key = await storage.provider.archive(home, lost, uuid4(), unheard, granted)
    assert await storage.provider.head_archive(key) == Archive(committed=True)


@pytest.mark.parametrize("call", ["provision", "restore", "delete"])
async def test_a_volume_whose_identity_is_lost_goes_only_by_what_it_bears(
    storage: Storage, home: Home, call: str
) -> None:
    """Nothing else tells it from half a volume: a call that comes late, or for an older row, must not take its files."""
    provider, lost = storage.provider, await filled(storage, home)
    key = await provider.create_empty_archive(home, uuid4(), granted)
    storage.lose_identity(home)

    async def act(name: str | None) -> None:
        match call:
            case "provision":
                await provider.provision(home, replaces=name)
            case "restore":
                await provider.restore(home, key, unheard, replaces=name)
            case _:
                await provider.delete_volume(home, name)

    for other in (None, str(uuid4())):
        with pytest.raises(ActionFailed):
            await act(other)
    bears = (await provider.list_volumes())[home.workspace_id].bears
    assert bears in (lost, UNTOLD)
    await act(bears)
    assert storage.files(home) == (None if call == "delete" else {})


async def test_adopting_again_finds_what_was_adopted(storage: Storage, home: Home) -> None:
    lost = await filled(storage, home)
    storage.lose_identity(home)
    assert await storage.provider.adopt(home, lost) == lost
    assert await storage.provider.adopt(home, lost) == lost


async def test_a_volume_that_has_its_identity_is_not_adopted(storage: Storage, home: Home) -> None:
    volume_id = await filled(storage, home)
    with pytest.raises(ActionFailed):
        await storage.provider.adopt(home, str(uuid4()))
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}


async def test_where_there_is_no_volume_nothing_is_adopted(storage: Storage, home: Home) -> None:
    with pytest.raises(ActionFailed) as refused:
        await storage.provider.adopt(home, str(uuid4()))
    assert refused.value.reason is ErrorReason.DATA_LOST
    assert await storage.provider.list_volumes() == {}


def at(seconds: int) -> MayCommit:
    """The database lets it be committed, at this time of its own."""

    async def may_commit() -> datetime | None:
        return COMMITTED_AT + timedelta(seconds=seconds)

    return may_commit


async def test_the_archives_of_a_workspace_are_listed_with_the_database_s_time_of_their_commits(
    storage: Storage, home: Home
) -> None:
    provider = storage.provider
    older = await provider.create_empty_archive(home, uuid4(), at(60))
    volume_id = await filled(storage, home)
    newer = await provider.archive(home, volume_id, uuid4(), unheard, at(-60))
    with pytest.raises(ActionFailed, match="taken over"):
        await provider.create_empty_archive(home, half := uuid4(), denied)
    await provider.create_empty_archive(new_home(), uuid4(), granted)
    listed = {each.key: each for each in await provider.list_archives_of(home.workspace_id)}
    assert listed.keys() == {older, newer, f"{home.workspace_id}/{half}/home.tar.zst"}
    assert (listed[older].committed_at, listed[older].is_empty) == (await at(60)(), True)
    assert (listed[newer].committed_at, listed[newer].is_empty) == (await at(-60)(), False)
    assert listed[older].digest != listed[newer].digest
    assert [each.key for each in listed.values() if not each.committed] == [
        f"{home.workspace_id}/{half}/home.tar.zst"
    ]


async def test_an_archive_whose_meta_was_cut_is_listed_as_half_of_one(storage: Storage, home: Home) -> None:
    key = await storage.provider.create_empty_archive(home, uuid4(), granted)
    storage.damage(key)
    (archive,) = await storage.provider.list_archives_of(home.workspace_id)
    assert (archive.committed, archive.committed_at, archive.is_empty) == (False, None, False)


async def test_a_copy_of_an_archive_is_committed_anew_and_restores_the_same(
    storage: Storage, home: Home
) -> None:
    key, op_id = await archived(storage, home, FILES), uuid4()
    copied = await storage.provider.copy_archive(home, key, op_id, unheard, at(60))
    assert await storage.provider.copy_archive(home, key, op_id, unheard, at(90)) == copied
    listed = {each.key: each for each in await storage.provider.list_archives_of(home.workspace_id)}
    assert {each.key: each.committed_at for each in listed.values()} == {
        key: await granted(),
        copied: await at(60)(),
    }
    assert listed[key].digest == listed[copied].digest is not None
    await restored(storage, home, copied)
    assert storage.files(home) == FILES


async def test_a_copy_for_an_operation_that_was_taken_over_does_not_count(
    storage: Storage, home: Home
) -> None:
    key, op_id = await archived(storage, home, FILES), uuid4()
    with pytest.raises(ActionFailed, match="taken over"):
        await storage.provider.copy_archive(home, key, op_id, unheard, denied)
    archive = await storage.provider.head_archive(f"{home.workspace_id}/{op_id}/home.tar.zst")
    assert archive is None or not archive.committed


async def test_what_is_gone_can_not_be_copied(storage: Storage, home: Home) -> None:
    key = await archived(storage, home, FILES)
    await storage.provider.delete_archive(key)
    with pytest.raises(ActionFailed) as failure:
        await storage.provider.copy_archive(home, key, uuid4(), unheard, granted)
    assert failure.value.reason is ErrorReason.DATA_LOST
