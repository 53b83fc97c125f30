"""Homes in a directory of their own (CODEHUB_HOMES_DIR): no
directory but the right one counts, however it came to be set.
"""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.installation import BY, Installation, installed
from tests.support.mounts import mounted
from tests.support.patience import until
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, in_backends

from codehub.adapters.filesystems import free_mb
from codehub.adapters.local.disk import LocalDisk
from codehub.adapters.local.home_mark import MARK, HomeMark
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.access import Role
from codehub.core.conditions import Reason
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.ports.backends import BackendUnreachable, MarkMissing


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    return tmp_path / "homes"


def mark(root: Path, data: Path, installation: str = "ours") -> HomeMark:
    return HomeMark(root, data, installation=installation)


def test_each_directory_alone_is_known_by_its_mark(homes: Path, data: Path) -> None:
    for root in (homes, data, data / "homes"):
        with pytest.raises(MarkMissing):
            mark(root, data).check()
        mark(root, data).prepare()
        mark(root, data).check()
        with pytest.raises(BackendUnreachable, match="OtherInstallation"):
            mark(root, data, "theirs").check()
        with pytest.raises(BackendUnreachable, match="OtherInstallation"):
            mark(root, data, "theirs").prepare()


def test_of_all_that_were_marked_once_the_last_counts(tmp_path: Path, data: Path) -> None:
    roots = [data, tmp_path / "one", tmp_path / "two", data / "inside", tmp_path / "one", data]
    for latest in roots:
        mark(latest, data).prepare()
        for root in roots:
            if root == latest:
                mark(root, data).check()
            else:
                with pytest.raises(MarkMissing):
                    mark(root, data).check()


def test_homes_that_were_moved_with_their_mark_are_found(homes: Path, data: Path) -> None:
    mark(data, data).prepare()
    homes.mkdir()
    (data / "users").rename(homes / "users")
    mark(homes, data).check()
    with pytest.raises(MarkMissing):
        mark(data, data).check()


def test_of_two_copies_of_the_homes_the_other_does_not_count(homes: Path, data: Path) -> None:
    mark(data, data).prepare()
    (homes / "users").mkdir(parents=True)
    (homes / "users" / MARK).write_text("ours")
    with pytest.raises(MarkMissing):
        mark(homes, data).check()
    mark(data, data).check()


def test_a_data_directory_that_is_moved_keeps_the_homes_inside(tmp_path: Path, data: Path) -> None:
    mark(data / "homes", data).prepare()
    data.rename(tmp_path / "elsewhere")
    mark(tmp_path / "elsewhere" / "homes", tmp_path / "elsewhere").check()


async def test_the_floor_counts_for_the_disk_of_homes_and_for_that_of_the_data_directory(
    tmp_path: Path,
) -> None:
    with (
        mounted(tmp_path / "small", size="64m") as small,
        mounted(tmp_path / "large", size="128m") as large,
    ):
        for root, data_dir in ((small, large), (large, small)):
            room = await LocalDisk(root, floor_mb=100, data_dir=data_dir).room()
            assert (room.free_mb, room.is_short) == (free_mb(small), True)
    with pytest.raises(BackendUnreachable):
        await LocalDisk(tmp_path / "nowhere", floor_mb=1, data_dir=tmp_path).room()


async def create(installation: Installation, storage: StorageBackend) -> tuple[UUID, str]:
    await installation.stored.access.add_user(
        OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER
    )
    workspace_id = SystemIdentity().new_id()
    spec = in_backends(InstanceBackend.LOCAL_PROCESS, storage, workspace_id)
    wish = DesiredState.STANDBY if storage is StorageBackend.LOCAL_DIR else DesiredState.RUNNING
    spec = replace(spec, ide="jupyterlab", desired_state=wish)
    assert isinstance(await installation.service.create(workspace_id, spec, BY), Workspace)
    await installation.arrives(workspace_id, Phase(wish.value))
    return workspace_id, spec.home_store_key


@pytest.mark.parametrize("storage", [StorageBackend.LOCAL_DIR, StorageBackend.OBJECT_STORE])
async def test_another_directory_does_not_make_homes_look_lost(
    storage: StorageBackend, homes: Path, data: Path, tmp_path: Path
) -> None:
    async with installed(data, ide="jupyterlab", homes_dir=homes) as installation:
        workspace_id, key = await create(installation, storage)
        (homes / key / "notes.txt").write_text("mine")
        assert [path.name for path in (data / "users").iterdir()] == [MARK]
    for wrong in ({}, {"homes_dir": tmp_path / "new"}):
        async with installed(data, ide="jupyterlab", **wrong) as installation:
            api = installation.stored.api

            async def is_missed() -> bool:
                row = await api.get(workspace_id)  # noqa: B023  # asked before the next round
                volume = row.status.conditions.volume_ready
                return volume.is_unknown and volume.reason == Reason.MARK_MISSING

            await until(is_missed)
            row = await api.get(workspace_id)
            assert (row.status.error_info, row.status.phase is Phase.ERROR) == (None, False)
    async with installed(data, ide="jupyterlab", homes_dir=homes) as installation:
        await installation.arrives(
            workspace_id, Phase.STANDBY if storage is StorageBackend.LOCAL_DIR else Phase.RUNNING
        )
        assert (homes / key / "notes.txt").read_text() == "mine"
        await installation.service.delete(workspace_id, BY, purge=True)
        await installation.arrives(workspace_id, Phase.DELETED)
