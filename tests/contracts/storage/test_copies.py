"""The contract of storage, copies: an archive that is committed anew for another operation."""

from uuid import uuid4

import pytest
from tests.support.storages import (
    FILES,
    Storage,
    archive_home,
    committed_after,
    denied,
    granted,
    restore_home,
    unheard,
)

from codehub.core.errors import ErrorReason
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home


async def test_a_copy_of_an_archive_is_committed_anew_and_restores_the_same(
    storage: Storage, home: Home
) -> None:
    key, op_id = await archive_home(storage, home, FILES), uuid4()
    copied = await storage.provider.copy_archive(home, key, op_id, unheard, committed_after(60))
    assert await storage.provider.copy_archive(home, key, op_id, unheard, committed_after(90)) == copied
    listed = {each.key: each for each in await storage.provider.list_archives_of(home.workspace_id)}
    assert {each.key: each.committed_at for each in listed.values()} == {
        key: await granted(),
        copied: await committed_after(60)(),
    }
    assert listed[key].digest == listed[copied].digest is not None
    await restore_home(storage, home, copied)
    assert storage.files(home) == FILES


async def test_a_copy_for_an_operation_that_was_taken_over_does_not_count(
    storage: Storage, home: Home
) -> None:
    key, op_id = await archive_home(storage, home, FILES), uuid4()
    with pytest.raises(ActionFailed, match="ArchiveOvertaken"):
        await storage.provider.copy_archive(home, key, op_id, unheard, denied)
    archive = await storage.provider.head_archive(f"{home.workspace_id}/{op_id}/home.tar.zst")
    assert archive is None or not archive.committed


async def test_what_is_gone_can_not_be_copied(storage: Storage, home: Home) -> None:
    key = await archive_home(storage, home, FILES)
    await storage.provider.delete_archive(key)
    with pytest.raises(ActionFailed) as failure:
        await storage.provider.copy_archive(home, key, uuid4(), unheard, granted)
    assert failure.value.reason is ErrorReason.DATA_LOST
