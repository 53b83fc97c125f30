"""The contract of storage, volumes: each has an identity, and nothing is done to another than was meant."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from tests.support.storages import FILES, Storage, archive_home, fill_home, new_home, restore_home

from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home, StorageProvider


async def test_a_provisioned_volume_is_empty_and_listed_with_its_id(storage: Storage, home: Home) -> None:
    volume_id = await storage.provider.provision(home)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    assert storage.files(home) == {}


async def test_provisioning_again_finds_the_same_volume_and_keeps_its_files(
    storage: Storage, home: Home
) -> None:
    volume_id = await fill_home(storage, home)
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
    volume_id = await fill_home(storage, home)
    for _ in range(2):
        await storage.provider.delete_volume(home, volume_id)
        assert await storage.provider.list_volumes() == {}


async def test_a_volume_of_a_workspace_that_nobody_knows_is_found_by_its_id(
    storage: Storage, home: Home
) -> None:
    volume_id = await fill_home(storage, home)
    for _ in range(2):
        await storage.provider.delete_volume(Home(home.workspace_id, ""), volume_id)
        assert await storage.provider.list_volumes() == {}


async def test_deleting_refuses_any_other_volume(storage: Storage, home: Home) -> None:
    volume_id = await fill_home(storage, home)
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
    key = await archive_home(storage, home)
    made = await restore_home(storage, home, key)
    await storage.let_a_moment_pass()
    assert not await storage.provider.is_worked_on(home, made.volume_id)
    storage.write(home, {"src/deep/main.py": b"pass\n"})
    assert await storage.provider.is_worked_on(home, made.volume_id)
    with pytest.raises(ActionFailed):
        await storage.provider.is_worked_on(home, "another")


async def test_work_that_was_done_before_a_moment_is_told_from_what_came_after_it(
    storage: Storage, home: Home
) -> None:
    made = await restore_home(storage, home, await archive_home(storage, home))
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
    made = await restore_home(storage, home, await archive_home(storage, home))
    await storage.let_a_moment_pass()
    assert not await storage.provider.is_worked_on(home, made.volume_id, since=moment)


async def test_volumes_do_not_know_each_other(storage: Storage) -> None:
    deleted, other = new_home(), new_home()
    deleted_id, other_id = (
        await fill_home(storage, deleted),
        await fill_home(storage, other, {"other": b"other"}),
    )
    await storage.provider.delete_volume(deleted, deleted_id)
    assert await storage.provider.list_volumes() == {other.workspace_id: Volume(other_id)}
    assert storage.files(other) == {"other": b"other"}
