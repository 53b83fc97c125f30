"""Archives that go from one store to another for a back-up:
verified on the way, and left alone where they are already.
"""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.support.storages import OnThisMachine, granted, new_home, unheard

from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.copying import ArchiveMissing, copy_archive
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.postgres.dump import HomeSnapshot, Snapshot, client_options
from codehub.app.backup import copy_homes
from codehub.app.process import make_system
from codehub.core.observation import Archive
from codehub.core.workspace import StorageBackend
from codehub.engine.backends import Backends
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


@pytest.fixture
async def elsewhere(tmp_path: Path) -> Objects:
    objects = Objects((tmp_path / "elsewhere").as_uri(), installation="i")
    await objects.prepare()
    return objects


async def filled(machine: OnThisMachine) -> tuple[Home, str]:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"notes": b"kept" * 100_000})
    return home, volume_id


async def archived(machine: OnThisMachine) -> str:
    home, volume_id = await filled(machine)
    return await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)


async def test_a_copied_archive_counts_where_it_was_copied_to(
    machine: OnThisMachine, elsewhere: Objects
) -> None:
    key = await archived(machine)
    size = await copy_archive(machine.objects, elsewhere, key)
    assert size == (machine.store / key).stat().st_size
    assert await ObjectArchives(elsewhere).head(key) == Archive(committed=True)


async def test_what_is_there_already_is_left_alone(machine: OnThisMachine, elsewhere: Objects) -> None:
    key = await archived(machine)
    await copy_archive(machine.objects, elsewhere, key)
    assert elsewhere.directory is not None
    before = (elsewhere.directory / key).stat().st_ino
    await copy_archive(machine.objects, elsewhere, key)
    assert (elsewhere.directory / key).stat().st_ino == before


async def test_a_damaged_archive_is_not_copied_and_nothing_of_it_stays(
    machine: OnThisMachine, elsewhere: Objects
) -> None:
    key = await archived(machine)
    content = bytearray((machine.store / key).read_bytes())
    content[len(content) // 2] ^= 1
    (machine.store / key).write_bytes(content)
    with pytest.raises(ActionFailed, match=r"ArchiveDamaged .*ChecksumWrong"):
        await copy_archive(machine.objects, elsewhere, key)
    assert [each["path"] for each in await elsewhere.list_under()] == ["codehub-installation"]


@pytest.mark.parametrize("half", ["", ".meta"])
async def test_half_an_archive_is_not_there(machine: OnThisMachine, elsewhere: Objects, half: str) -> None:
    key = await archived(machine)
    (machine.store / f"{key}{half}").unlink()
    with pytest.raises(ArchiveMissing):
        await copy_archive(machine.objects, elsewhere, key)


def taken(*homes: HomeSnapshot) -> Snapshot:
    return Snapshot("1", "i", datetime.now(UTC), homes)


def then(home: Home, name: str, volume_id: str | None, *, dirty: bool = True) -> HomeSnapshot:
    return HomeSnapshot(home.workspace_id, name, "local-dir", home.home_store_key, None, volume_id, dirty)


def report_nothing(_part: str, _done: int, _total: int, _length: int) -> None:
    return


async def test_homes_that_no_archive_has_are_copied_and_what_can_not_be_is_named(
    machine: OnThisMachine, elsewhere: Objects
) -> None:
    home, volume_id = await filled(machine)
    clean, clean_id = await filled(machine)
    homes = (
        then(home, "worked on", volume_id),
        then(clean, "in its archive", clean_id, dirty=False),
        then(new_home(), "lost", str(uuid4())),
    )
    copied, missing = await copy_homes(
        Backends({}, {StorageBackend.LOCAL_DIR: machine.provider}),
        ObjectArchives(elsewhere),
        taken(*homes),
        make_system(),
        report_nothing,
    )
    assert [(each.name, each.volume_id) for each in copied] == [("worked on", volume_id)]
    assert await ObjectArchives(elsewhere).head(copied[0].archive_key) == Archive(committed=True)
    assert UUID(copied[0].workspace_id) == home.workspace_id
    assert [name for name, _ in missing] == ["lost"]
    assert machine.files(home) is not None
    assert not await machine.provider.has_archives(home.workspace_id)


def test_a_password_is_not_on_the_command_line() -> None:
    arguments, environment = client_options(
        {"dsn": "postgresql://me:s%40cret@db.example.org:6432/hub?sslmode=require"}
    )
    assert arguments == ["--dbname=postgresql://me@db.example.org:6432/hub?sslmode=require"]
    assert environment["PGPASSWORD"] == "s@cret"
