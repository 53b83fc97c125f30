"""Somebody fills the disk that homes, archives and the database share: nothing
is lost, nobody is stopped for good, and what to do is said.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.installation import BY, Installation, installed
from tests.support.mounts import mounted
from tests.support.patience import PATIENCE_S
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.filesystems import free_mb
from codehub.adapters.local.disk import FileReserve, LocalDisk, measure_mb
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.access import Role
from codehub.core.messages import Code
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.ports.store import StoreUnavailable

FLOOR_MB, RESERVE_MB = 128, 32


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", size="512m") as place:
        yield place


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait. A database that a full disk has stopped is back in a moment."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(StoreUnavailable):
                if await holds():
                    return
            await asyncio.sleep(0.05)


async def make(installation: Installation, name: str) -> tuple[UUID, Path]:
    workspace_id = SystemIdentity().new_id()
    spec = in_backends(InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, workspace_id)
    made = await installation.service.create(workspace_id, replace(spec, name=name, ide="jupyterlab"), BY)
    assert isinstance(made, Workspace)
    return workspace_id, installation.settings.data_dir / spec.home_store_key


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))


async def test_one_who_fills_the_disk_is_put_to_sleep_and_nobody_loses_anything(small_disk: Path) -> None:
    data = small_disk / "data"
    limits = {"disk_floor_mb": FLOOR_MB, "database_reserve_mb": RESERVE_MB}
    async with installed(data, ide="jupyterlab", **limits) as installation:
        api = installation.stored.api
        await installation.stored.access.add_user(
            OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
        )
        greedy, home = await make(installation, "greedy")
        await installation.arrives(greedy, Phase.RUNNING)

        async def is_measured() -> bool:
            return (
                usage := (await api.usages([greedy])).get(greedy)
            ) is not None and usage.disk_mb is not None

        await until(is_measured)
        assert (data / "reserve").stat().st_size == RESERVE_MB << 20
        await asyncio.to_thread(fill, home / "dd")

        async def sleeps() -> bool:
            row = await api.get(greedy)
            is_asked = row.spec.desired_state is DesiredState.STANDBY
            return is_asked and (row.status.phase, row.status.operation) == (Phase.STANDBY, Operation.NONE)

        await until(sleeps)
        events = [record.event for record in await api.history(greedy)]
        assert any(event.actor == "disk" and event.reason.code == Code.GREW for event in events)
        assert (await api.shortage()) is not None
        assert not (data / "reserve").exists(), "the database has it"

        waiting, _ = await make(installation, "waiting")

        async def is_held() -> bool:
            error = (await api.get(waiting)).status.error_info
            return error is not None and error.message.facts.get("floor") == 128

        await until(is_held)
        await installation.wish(greedy, DesiredState.ARCHIVED)
        await installation.arrives(waiting, Phase.RUNNING)

        async def has_room() -> bool:
            return await api.shortage() is None

        await until(has_room)
        await installation.service.delete(greedy, BY, purge=True)
        await installation.arrives(greedy, Phase.DELETED)


async def test_a_reserve_takes_room_only_where_there_is_plenty_and_gives_it_back(small_disk: Path) -> None:
    reserve = FileReserve(small_disk, size_mb=100, floor_mb=200)
    before = free_mb(small_disk)
    await reserve.hold()
    await reserve.hold()
    assert before - free_mb(small_disk) == 100
    assert await reserve.release()
    assert not await reserve.release()
    assert free_mb(small_disk) == before
    fill_to = FileReserve(small_disk, size_mb=100, floor_mb=before)
    await fill_to.hold()
    assert free_mb(small_disk) == before


async def test_a_home_is_measured_whatever_is_in_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "a" / "b").mkdir(parents=True)
    (home / "a" / "b" / "file").write_bytes(os.urandom(3 << 20))
    (home / "loop").symlink_to(home)
    os.mkfifo(home / "pipe")
    assert await measure_mb(home) in (3, 4)
    assert await measure_mb(tmp_path / "nowhere") is None


async def test_what_is_free_is_looked_at_anew(small_disk: Path) -> None:
    disk = LocalDisk(small_disk, floor_mb=500)
    assert not (await disk.room()).is_short
    (small_disk / "file").write_bytes(bytes(100 << 20))
    assert (await disk.room()).is_short
