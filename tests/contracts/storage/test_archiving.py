"""The contract of storage, archiving: idempotent, and half an archive never counts."""

from datetime import datetime
from uuid import uuid4

import pytest
from tests.support.storages import (
    FILES,
    Storage,
    archive_home,
    denied,
    fill_home,
    granted,
    restore_home,
    unheard,
)

from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive, Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home


async def test_what_was_archived_comes_back_in_a_new_volume(storage: Storage, home: Home) -> None:
    old = await fill_home(storage, home)
    key = await storage.provider.archive(home, old, uuid4(), unheard, granted)
    await storage.provider.delete_volume(home, old)
    made = await restore_home(storage, home, key)
    assert made.marker == key
    assert made.volume_id != old
    volumes = await storage.provider.list_volumes()
    assert volumes == {home.workspace_id: Volume(made.volume_id)}
    assert volumes[home.workspace_id].made_from == key
    assert storage.files(home) == FILES


async def test_archiving_leaves_the_volume_as_it_was(storage: Storage, home: Home) -> None:
    volume_id = await fill_home(storage, home)
    await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == FILES


async def test_the_key_names_the_workspace_and_the_operation(storage: Storage, home: Home) -> None:
    volume_id, op_id = await fill_home(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    assert key == f"{home.workspace_id}/{op_id}/home.tar.zst"
    assert await storage.provider.create_empty_archive(home, op_id, granted) == key


async def test_a_committed_archive_of_an_operation_is_not_written_again(storage: Storage, home: Home) -> None:
    volume_id, op_id = await fill_home(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.write(home, {"later": b"later"})
    assert await storage.provider.archive(home, volume_id, op_id, unheard, denied) == key
    storage.lose_volume(home)
    assert await storage.provider.archive(home, volume_id, op_id, unheard, granted) == key
    await restore_home(storage, home, key)
    assert storage.files(home) == FILES


async def test_a_half_written_archive_of_an_operation_is_replaced(storage: Storage, home: Home) -> None:
    volume_id, op_id = await fill_home(storage, home, {"old": b"old" * 1000}), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.uncommit(key)
    storage.write(home, {"new": b"new"})
    await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    await restore_home(storage, home, key)
    assert storage.files(home) == {"old": b"old" * 1000, "new": b"new"}


async def test_an_archive_whose_meta_was_cut_does_not_count_and_is_written_again(
    storage: Storage, home: Home
) -> None:
    volume_id, op_id = await fill_home(storage, home), uuid4()
    key = await storage.provider.archive(home, volume_id, op_id, unheard, granted)
    storage.damage(key)
    assert await storage.provider.head_archive(key) == Archive(committed=False)
    with pytest.raises(ActionFailed) as failed:
        await restore_home(storage, home, key)
    assert failed.value.reason is ErrorReason.ARCHIVE_CORRUPTED
    with pytest.raises(ActionFailed, match="ArchiveOvertaken"):
        await storage.provider.archive(home, volume_id, op_id, unheard, denied)
    storage.write(home, {"new": b"new"})
    assert await storage.provider.archive(home, volume_id, op_id, unheard, granted) == key
    assert await storage.provider.head_archive(key) == Archive(committed=True)
    await restore_home(storage, home, key)
    assert storage.files(home) == {**FILES, "new": b"new"}


async def test_archiving_refuses_any_other_volume(storage: Storage, home: Home) -> None:
    op_id = uuid4()
    with pytest.raises(ActionFailed):
        await storage.provider.archive(home, str(uuid4()), op_id, unheard, granted)
    await fill_home(storage, home)
    with pytest.raises(ActionFailed):
        await storage.provider.archive(home, str(uuid4()), op_id, unheard, granted)
    assert not await storage.provider.has_archives(home.workspace_id)


async def test_an_archive_is_not_committed_once_the_operation_was_taken_over(
    storage: Storage, home: Home
) -> None:
    volume_id, op_id = await fill_home(storage, home), uuid4()
    with pytest.raises(ActionFailed, match="ArchiveOvertaken"):
        await storage.provider.archive(home, volume_id, op_id, unheard, denied)
    archive = await storage.provider.head_archive(f"{home.workspace_id}/{op_id}/home.tar.zst")
    assert archive is None or not archive.committed


async def test_an_archive_is_not_committed_once_its_volume_is_gone(storage: Storage, home: Home) -> None:
    volume_id, op_id = await fill_home(storage, home), uuid4()

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
    volume_id = await fill_home(storage, home)
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
    made = await restore_home(storage, home, key)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(made.volume_id)}
    assert storage.files(home) == {}


async def test_an_empty_archive_of_an_operation_that_was_taken_over_does_not_count(
    storage: Storage, home: Home
) -> None:
    op_id = uuid4()
    with pytest.raises(ActionFailed, match="ArchiveOvertaken"):
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
    key = await archive_home(storage, home, {})
    await restore_home(storage, home, key)
    assert storage.files(home) == {}


async def test_long_work_says_how_far_it_is_and_never_goes_back(storage: Storage, home: Home) -> None:
    volume_id = await fill_home(storage, home, {str(number): bytes(100_000) for number in range(40)})
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
