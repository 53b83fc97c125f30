"""The contract of storage, restoring: over the volume that was meant, whole, or not at all."""

from uuid import uuid4

import pytest
from tests.support.storages import FILES, Storage, archive_home, fill_home, granted, restore_home, unheard

from codehub.core.errors import ErrorReason
from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home


async def test_restoring_replaces_what_was_half_there(storage: Storage, home: Home) -> None:
    key = await archive_home(storage, home)
    storage.leave_half_a_volume(home)
    await restore_home(storage, home, key)
    assert storage.files(home) == FILES


async def test_restoring_again_makes_a_new_volume_that_a_late_deletion_of_the_first_misses(
    storage: Storage, home: Home
) -> None:
    key = await archive_home(storage, home)
    first = await restore_home(storage, home, key)
    second = await restore_home(storage, home, key)
    with pytest.raises(ActionFailed):
        await storage.provider.delete_volume(home, first.volume_id)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(second.volume_id)}
    assert storage.files(home) == FILES


async def test_a_restore_that_comes_late_leaves_what_the_first_one_made(storage: Storage, home: Home) -> None:
    key = await archive_home(storage, home)
    await restore_home(storage, home, key)
    storage.write(home, {"since": b"then"})
    with pytest.raises(ActionFailed):
        await storage.provider.restore(home, key, unheard, replaces=None)
    assert storage.files(home) == {**FILES, "since": b"then"}


async def test_restoring_another_archive_replaces_the_volume_that_it_was_told_to_and_no_other(
    storage: Storage, home: Home
) -> None:
    key, other = await archive_home(storage, home), await archive_home(storage, home, {"other": b"other"})
    first = await restore_home(storage, home, key)
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
    volume_id = await fill_home(storage, home, {"kept": b"kept"})
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    match lost:
        case "never written":
            key = f"{home.workspace_id}/{uuid4()}/home.tar.zst"
        case "lost":
            storage.lose_archive(key)
        case _:
            storage.uncommit(key)
    with pytest.raises(ActionFailed) as failed:
        await restore_home(storage, home, key)
    assert failed.value.reason is ErrorReason.DATA_LOST
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == {"kept": b"kept"}
