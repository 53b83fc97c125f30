"""Marks, identities and homes in use: what is not ours is not touched, what is in use stays, and a mark that
is missing is an outage and no loss.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest
from tests.support.filled_homes import FILES, filled
from tests.support.storages import OnThisMachine, granted, new_home, unheard

from codehub.adapters.local.homes import Homes
from codehub.adapters.local.records import RunDirectory
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.observation import Archive, Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


async def test_a_store_without_its_mark_is_an_outage_and_not_an_empty_store(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    away = machine.store.rename(machine.store.with_name("away"))
    for root_is_there in (False, True):
        if root_is_there:
            machine.store.mkdir()
        for call in (
            machine.provider.list_archives(),
            machine.provider.head_archive(key),
            machine.provider.has_archives(home.workspace_id),
            machine.provider.restore(new_home(), key, unheard),
            machine.provider.archive(home, volume_id, uuid4(), unheard, granted),
            machine.provider.create_empty_archive(home, uuid4(), granted),
            machine.provider.delete_archive(key),
            machine.provider.purge(home),
        ):
            with pytest.raises(BackendUnreachable):
                await call
    machine.store.rmdir()
    away.rename(machine.store)
    assert await machine.provider.head_archive(key) == Archive(committed=True)


async def test_a_root_without_its_mark_is_an_outage_and_no_homes(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    users = machine.root / "users"
    away = users.rename(users.with_name("away"))
    for root_is_there in (False, True):
        if root_is_there:
            users.mkdir()
        for call in (
            machine.provider.list_volumes(),
            machine.provider.provision(home),
            machine.provider.delete_volume(home, volume_id),
            machine.provider.archive(home, volume_id, uuid4(), unheard, granted),
        ):
            with pytest.raises(BackendUnreachable):
                await call
    users.rmdir()
    away.rename(users)
    assert await machine.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}


async def test_what_belongs_to_another_installation_is_not_touched(machine: OnThisMachine) -> None:
    (machine.root / "users" / ".codehub-installation").write_text("another")
    (machine.store / "codehub-installation").write_text("another")
    with pytest.raises(BackendUnreachable, match="OtherInstallation"):
        await machine.provider.list_volumes()
    with pytest.raises(BackendUnreachable, match="OtherInstallation"):
        await machine.provider.list_archives()
    with pytest.raises(BackendUnreachable, match="OtherInstallation"):
        await machine.local.prepare()
    with pytest.raises(BackendUnreachable, match="OtherInstallation"):
        await machine.objects.prepare()


@pytest.mark.parametrize("what", ["homes", "instances"])
def test_processes_that_start_for_the_first_time_at_once_mark_their_directory_together(
    tmp_path: Path, what: str
) -> None:
    def mark(place: Path, others: Barrier) -> None:
        others.wait()
        if what == "homes":
            Homes(place, installation="ours", identity=SystemIdentity(), owner_of=lambda _: None).prepare()
        else:
            RunDirectory(place, "ours").open()

    with ThreadPoolExecutor(8) as beside:
        for number in range(50):
            together = Barrier(8)
            for marked in [beside.submit(mark, tmp_path / str(number), together) for _ in range(8)]:
                marked.result()


async def test_a_home_in_use_is_neither_deleted_nor_replaced(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.create_empty_archive(home, uuid4(), granted)
    machine.in_use.add(home.workspace_id)
    with pytest.raises(ActionFailed, match="VolumeInUse"):
        await machine.provider.delete_volume(home, volume_id)
    with pytest.raises(ActionFailed, match="VolumeInUse"):
        await machine.provider.restore(home, key, unheard, replaces=volume_id)
    assert machine.files(home) == FILES
    machine.in_use.clear()
    await machine.provider.delete_volume(home, volume_id)


async def test_a_home_in_use_whose_identity_is_lost_is_not_replaced_by_an_empty_one(
    machine: OnThisMachine,
) -> None:
    home, volume_id = await filled(machine)
    machine.lose_identity(home)
    machine.in_use.add(home.workspace_id)
    with pytest.raises(ActionFailed, match="VolumeInUse"):
        await machine.provider.provision(home)
    machine.in_use.clear()
    await machine.provider.adopt(home, volume_id)
    assert machine.files(home) == FILES


async def test_an_identity_without_its_home_does_not_become_that_of_a_new_home(
    machine: OnThisMachine,
) -> None:
    home, volume_id = await filled(machine)
    shutil.rmtree(machine.path(home))
    assert await machine.provider.list_volumes() == {}
    assert await machine.provider.provision(home) != volume_id
