"""The contract of storage, archives that are there: looked at, listed, deleted."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from tests.support.storages import (
    FILES,
    Storage,
    archive_home,
    committed_after,
    denied,
    fill_home,
    granted,
    new_home,
    restore_home,
    unheard,
)

from codehub.core.observation import Archive
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home


async def test_heads_and_lists_tell_committed_from_half_and_absent(storage: Storage, home: Home) -> None:
    whole, half = await archive_home(storage, home), await archive_home(storage, home)
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
    gone, kept = await archive_home(storage, home), await archive_home(storage, home)
    for _ in range(2):
        await storage.provider.delete_archive(gone)
        assert await storage.provider.head_archive(gone) is None
    assert [archive.key for archive in await storage.provider.list_archives()] == [kept]
    await restore_home(storage, home, kept)
    assert storage.files(home) == FILES


async def test_purging_deletes_all_archives_of_one_workspace_and_no_other(storage: Storage) -> None:
    purged, other = new_home(), new_home()
    first, half, others = [await archive_home(storage, each) for each in (purged, purged, other)]
    storage.uncommit(half)
    assert await storage.provider.has_archives(purged.workspace_id)
    for _ in range(2):
        await storage.provider.purge(purged)
        assert not await storage.provider.has_archives(purged.workspace_id)
    assert await storage.provider.head_archive(first) is None
    assert [archive.key for archive in await storage.provider.list_archives()] == [others]


async def test_the_archives_of_a_workspace_are_listed_with_the_database_s_time_of_their_commits(
    storage: Storage, home: Home
) -> None:
    provider = storage.provider
    older = await provider.create_empty_archive(home, uuid4(), committed_after(60))
    volume_id = await fill_home(storage, home)
    newer = await provider.archive(home, volume_id, uuid4(), unheard, committed_after(-60))
    with pytest.raises(ActionFailed, match="ArchiveOvertaken"):
        await provider.create_empty_archive(home, half := uuid4(), denied)
    await provider.create_empty_archive(new_home(), uuid4(), granted)
    listed = {each.key: each for each in await provider.list_archives_of(home.workspace_id)}
    assert listed.keys() == {older, newer, f"{home.workspace_id}/{half}/home.tar.zst"}
    assert (listed[older].committed_at, listed[older].is_empty) == (await committed_after(60)(), True)
    assert (listed[newer].committed_at, listed[newer].is_empty) == (await committed_after(-60)(), False)
    assert listed[older].digest != listed[newer].digest
    assert [each.key for each in listed.values() if not each.committed] == [
        f"{home.workspace_id}/{half}/home.tar.zst"
    ]


async def test_an_archive_whose_meta_was_cut_is_listed_as_half_of_one(storage: Storage, home: Home) -> None:
    key = await storage.provider.create_empty_archive(home, uuid4(), granted)
    storage.damage(key)
    (archive,) = await storage.provider.list_archives_of(home.workspace_id)
    assert (archive.committed, archive.committed_at, archive.is_empty) == (False, None, False)
