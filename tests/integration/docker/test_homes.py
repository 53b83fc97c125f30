"""Homes in Docker volumes: each comes back bit by bit, hostile
archives write nowhere, and what dies half way never counts.
"""

import asyncio
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from tests.integration.archives.test_hostile import HOSTILE
from tests.support.docker import BASE, DOCKER, Docker
from tests.support.filled_homes import FILES
from tests.support.mounts import mounted
from tests.support.patience import until
from tests.support.storages import (
    OnDocker,
    OnThisMachine,
    docker_storage,
    granted,
    new_home,
    there_and_back,
    unheard,
)
from tests.support.tars import store
from tests.support.trees import Node, homes, picture, plant, trees

from codehub.adapters.docker.job import Task, job, job_name
from codehub.adapters.docker.volumes import home_name, seal_name
from codehub.core.errors import ErrorReason
from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount

pytestmark = DOCKER

EXAMPLES = 10
# The scan is the same as for a directory; what differs is tar, and where it runs.
HOSTILE_HERE = (
    "an absolute path",
    "a path that climbs",
    "a symlink out",
    "a hard link to nothing",
    "a device",
    "a pipe",
)


@homes(EXAMPLES)
@given(tree=trees)
async def test_any_home_comes_back_as_it_was(tree: list[tuple[bytes, Node, int]], docker: Docker) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-trees-") as directory:
        async with docker_storage(await docker(), Path(directory)) as storage:
            home = new_home()
            volume_id = await storage.provider.provision(home)
            plant(os.fsencode(storage.path(home)), tree)
            before, after = await there_and_back(storage, home, volume_id)
            assert after == before


async def test_a_home_moves_from_a_directory_to_a_volume_and_back(storage: OnDocker, tmp_path: Path) -> None:
    machine = OnThisMachine(tmp_path / "local", owner=(1000, 1000), objects=storage.objects)
    await machine.local.prepare()
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, FILES)
    before = picture(os.fsencode(machine.path(home)))
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    moved = await storage.provider.restore(home, key, unheard)
    assert picture(os.fsencode(storage.path(home))) == before
    back = await storage.provider.archive(home, moved.volume_id, uuid4(), unheard, granted)
    other = new_home()
    await machine.provider.restore(other, back, unheard)
    assert picture(os.fsencode(machine.path(other))) == before


async def test_pipes_sockets_and_devices_are_left_out_and_nothing_else_is(storage: OnDocker) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    path = storage.path(home)
    (path / "d").mkdir()
    for name in ("pipe", "pi*", "pi[p]e", "back\\slash", "new\nline", "-C", "d/pipe", "\udcff"):
        os.mkfifo(path / name)
    os.mknod(path / "null", 0o600 | 0o020000, os.makedev(1, 3))
    for name in ("pipes", "pi-", "pip", "d/pipe2", "newXline"):
        (path / name).write_text(name)
    _, after = await there_and_back(storage, home, volume_id)
    assert set(after) == {b"", b"/d", b"/d/pipe2", b"/pipes", b"/pi-", b"/pip", b"/newXline"}


@pytest.mark.parametrize("name", ["mine", "two\nlines"])
async def test_another_filesystem_in_the_home_is_refused_rather_than_left_out(
    storage: OnDocker, name: str
) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"deep/kept": b"kept", "other\n0 lines/kept": b"kept"})
    with mounted(storage.path(home) / "deep" / name) as place:
        (place / "thesis").write_text("precious")
        message = f"OtherFilesystem path='deep/{name.replace(chr(10), ' ')}'"
        with pytest.raises(ActionFailed, match=message):
            await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await storage.provider.has_archives(home.workspace_id)
    before, after = await there_and_back(storage, home, volume_id)
    assert after == before


async def test_a_home_that_changes_while_it_is_archived_is_not_committed(storage: OnDocker) -> None:
    home, op_id = new_home(), uuid4()
    volume_id = await storage.provider.provision(home)
    storage.write(home, {f"{number}": b"x" * 4_000_000 for number in range(6)})
    path = storage.path(home)

    def grow(_amount: object) -> None:
        for number in range(6):
            with (path / f"{number}").open("ab") as file:
                file.write(b"more")

    with pytest.raises(ActionFailed, match="HomeChanged"):
        await storage.provider.archive(home, volume_id, op_id, grow, granted)
    assert not await storage.provider.has_archives(home.workspace_id)


async def test_hostile_archives_write_nothing_and_leave_no_volume_that_counts(storage: OnDocker) -> None:
    kept = new_home()
    volume_id = await storage.provider.provision(kept)
    storage.write(kept, {"kept": b"kept"})
    for what in HOSTILE_HERE:
        tar, files = HOSTILE[what]
        home = new_home()
        key = store(storage.store, home, tar, files=files)
        with pytest.raises(ActionFailed) as failed:
            await storage.provider.restore(home, key, unheard)
        assert failed.value.reason is ErrorReason.ARCHIVE_CORRUPTED, what
        volume = (await storage.provider.list_volumes()).get(home.workspace_id)
        assert volume is None or volume.volume_id is None, what
        # In the way of a whole volume it takes nothing's place.
        with pytest.raises(ActionFailed):
            await storage.provider.restore(kept, key, unheard)
        assert storage.files(kept) == {"kept": b"kept"}, what
        await storage.provider.delete_volume(home, None)
    await storage.provider.delete_volume(new_home(), None)
    assert await storage.provider.list_volumes() == {kept.workspace_id: Volume(volume_id)}


async def test_a_cancelled_restore_does_not_count_and_is_done_again(storage: OnDocker) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    storage.write(home, FILES)
    before = picture(os.fsencode(storage.path(home)))
    key = await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    other = new_home()
    restoring: list[asyncio.Task[object]] = []
    heard = 0

    def stop(_amount: Amount) -> None:
        nonlocal heard
        heard += 1
        if heard == 5:
            restoring[0].cancel()

    restoring.append(asyncio.ensure_future(storage.provider.restore(other, key, stop)))
    with pytest.raises(asyncio.CancelledError):
        await restoring[0]
    assert (await storage.provider.list_volumes())[other.workspace_id].volume_id is None
    assert storage.engine.find(f"containers/{job_name(other.workspace_id)}/json") is None
    await storage.provider.restore(other, key, unheard)
    assert picture(os.fsencode(storage.path(other))) == before


async def test_a_newer_job_takes_the_place_of_the_older_one(storage: OnDocker) -> None:
    home = new_home()
    await storage.provider.provision(home)
    waits = Task("cat", ())
    async with job(storage.connection, BASE, home.workspace_id, waits) as older:
        async with job(storage.connection, BASE, home.workspace_id, Task("true", ())) as newer:
            assert await newer.exit_code() == 0
        with pytest.raises(ActionFailed, match="NewerJob"):
            await older.exit_code()


async def test_a_helper_may_do_nothing_but_its_work(storage: OnDocker) -> None:
    home = new_home()
    await storage.provider.provision(home)
    async with job(storage.connection, BASE, home.workspace_id, Task("cat", ())):
        container = storage.engine.ask("GET", f"containers/{job_name(home.workspace_id)}/json")
        assert container["Config"]["Labels"]["codehub.role"] == "helper"
        host = container["HostConfig"]
        assert (host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]) == ("none", True, ["ALL"])
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["LogConfig"]["Type"] == "none"
    assert storage.engine.find(f"containers/{job_name(home.workspace_id)}/json") is None


async def test_a_helper_whose_codehub_is_gone_ends_by_itself_and_is_a_leftover(storage: OnDocker) -> None:
    home = new_home()
    await storage.provider.provision(home)
    async with job(storage.connection, BASE, home.workspace_id, Task("cat", ())) as running:
        running.streams.disconnect()  # as a kill -9 would

        async def has_ended() -> bool:
            container = storage.engine.ask("GET", f"containers/{job_name(home.workspace_id)}/json")
            return bool(container["State"]["Status"] == "exited")

        await until(has_ended)
        assert await storage.provider.list_leftovers() == [f"helper {home.workspace_id}"]
        now = datetime.now(UTC)
        assert await storage.provider.remove_leftovers(now - timedelta(hours=2)) == 0
        assert await storage.provider.remove_leftovers(now + timedelta(hours=2)) == 1
    assert await storage.provider.list_leftovers() == []


async def test_a_seal_whose_home_is_gone_counts_for_nothing(storage: OnDocker) -> None:
    home = new_home()
    first = await storage.provider.provision(home)
    storage.engine.ask("DELETE", f"volumes/{home_name(home.workspace_id)}")
    assert await storage.provider.list_volumes() == {}
    storage.leave_half_a_volume(home)
    assert (await storage.provider.list_volumes())[home.workspace_id].volume_id is None
    second = await storage.provider.provision(home)
    assert second != first
    storage.engine.ask("DELETE", f"volumes/{home_name(home.workspace_id)}")
    assert await storage.provider.list_leftovers() == [seal_name(home.workspace_id, second)]
    assert await storage.provider.remove_leftovers(datetime.now(UTC) + timedelta(hours=2)) == 1
    assert await storage.provider.list_leftovers() == []


async def test_a_home_that_an_earlier_codehub_sealed_is_whole_and_goes_with_its_seal(
    storage: OnDocker,
) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    sealed = storage.engine.ask("GET", f"volumes/{seal_name(home.workspace_id, volume_id)}")
    storage.engine.ask("DELETE", f"volumes/{sealed['Name']}")
    before = {"Name": f"ws-{home.workspace_id}-seal", "Labels": sealed["Labels"]}
    storage.engine.ask("POST", "volumes/create", body=before)
    assert await storage.provider.list_volumes() == {home.workspace_id: Volume(volume_id)}
    await storage.provider.delete_volume(home, volume_id)
    assert await storage.provider.list_volumes() == {}
    assert await storage.provider.list_leftovers() == []


async def test_a_home_in_use_is_neither_deleted_nor_replaced(storage: OnDocker) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"kept": b"kept"})
    key = await storage.provider.create_empty_archive(home, uuid4(), granted)
    mounted = {
        "Image": BASE,
        "Cmd": ["true"],
        "HostConfig": {"Binds": [f"{home_name(home.workspace_id)}:/x"]},
    }
    user = storage.engine.ask("POST", "containers/create", body=mounted)
    for call in (
        storage.provider.delete_volume(home, volume_id),
        storage.provider.restore(home, key, unheard, replaces=volume_id),
    ):
        with pytest.raises(ActionFailed, match="VolumeHeld"):
            await call
    assert storage.files(home) == {"kept": b"kept"}
    storage.engine.ask("DELETE", f"containers/{user['Id']}")
    await storage.provider.delete_volume(home, volume_id)


async def test_an_archive_store_that_goes_away_is_an_outage_and_leaves_the_home(storage: OnDocker) -> None:
    home = new_home()
    volume_id = await storage.provider.provision(home)
    storage.write(home, {"kept": b"kept"})
    shutil.rmtree(storage.store)
    with pytest.raises(BackendUnreachable):
        await storage.provider.archive(home, volume_id, uuid4(), unheard, granted)
    assert storage.files(home) == {"kept": b"kept"}


async def test_another_installations_volume_of_that_name_is_not_touched(storage: OnDocker) -> None:
    home = new_home()
    name = home_name(home.workspace_id)
    storage.engine.ask(
        "POST", "volumes/create", body={"Name": name, "Labels": {"codehub.install": "another"}}
    )
    try:
        assert await storage.provider.list_volumes() == {}
        with pytest.raises(ActionFailed, match="DockerNotOurs"):
            await storage.provider.provision(home)
        with pytest.raises(ActionFailed, match="DockerNotOurs"):
            await storage.provider.delete_volume(home, None)
        assert storage.engine.find(f"volumes/{name}") is not None
    finally:
        storage.engine.ask("DELETE", f"volumes/{name}")
