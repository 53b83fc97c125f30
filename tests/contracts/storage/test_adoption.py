"""The contract of storage, adoption: a volume whose identity is lost keeps its files."""

from uuid import uuid4

import pytest
from tests.support.storages import FILES, Storage, fill_home, granted, unheard

from codehub.core.errors import ErrorReason
from codehub.core.observation import UNTOLD, Archive, Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home


async def test_a_volume_whose_identity_is_lost_is_adopted_with_its_files(
    storage: Storage, home: Home
) -> None:
    lost = await fill_home(storage, home)
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
    """Nothing else tells it from half a volume: a call that comes
    late, or for an older row, must not take its files.
    """
    provider, lost = storage.provider, await fill_home(storage, home)
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
    lost = await fill_home(storage, home)
    storage.lose_identity(home)
    assert await storage.provider.adopt(home, lost) == lost
    assert await storage.provider.adopt(home, lost) == lost


async def test_a_volume_that_has_its_identity_is_not_adopted(storage: Storage, home: Home) -> None:
    volume_id = await fill_home(storage, home)
    with pytest.raises(ActionFailed):
        await storage.provider.adopt(home, str(uuid4()))
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}


async def test_where_there_is_no_volume_nothing_is_adopted(storage: Storage, home: Home) -> None:
    with pytest.raises(ActionFailed) as refused:
        await storage.provider.adopt(home, str(uuid4()))
    assert refused.value.reason is ErrorReason.DATA_LOST
    assert await storage.provider.list_volumes() == {}
