"""Archive, delete, restore: every home comes back bit by bit, whatever is in it."""

import os
import re
import socket
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import chdir
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from tests.support.mounts import mounted
from tests.support.storages import OnThisMachine, granted, new_home, there_and_back, unheard
from tests.support.trees import (
    ACCESS,
    CAPABILITY,
    DEFAULT,
    Node,
    for_user,
    homes,
    may_bind_low_ports,
    plant,
    trees,
)

from codehub.adapters.local.tar import Tar
from codehub.ports.backends import ActionFailed

EXAMPLES = 60
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


@homes(EXAMPLES)
@given(tree=trees)
async def test_any_home_comes_back_as_it_was(tree: list[tuple[bytes, Node, int]]) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-trees-") as directory:
        machine = await OnThisMachine.prepared(Path(directory))
        home = new_home()
        volume_id = await machine.provider.provision(home)
        plant(os.fsencode(machine.path(home)), tree)
        before, after = await there_and_back(machine, home, volume_id)
        assert after == before


@pytest.fixture
async def machine_in_memory() -> AsyncIterator[OnThisMachine]:
    """On a filesystem in memory where there is one: ext4 is slow
    wherever another test has just removed many files.
    """
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="codehub-", dir=in_memory if os.access(in_memory, os.W_OK) else None
    ) as place:
        yield await OnThisMachine.prepared(Path(place))


async def test_a_home_of_fifty_thousand_small_files_comes_back(machine_in_memory: OnThisMachine) -> None:
    machine, home = machine_in_memory, new_home()
    volume_id = await machine.provider.provision(home)
    for number in range(50_000):
        directory = machine.path(home) / f"d{number // 500}"
        if number % 500 == 0:
            directory.mkdir()
        (directory / f"f{number}").write_bytes(b"%d\n" % number * (number % 20))
    before, after = await there_and_back(machine, home, volume_id)
    assert len(after) == 50_000 + 100 + 1
    assert after == before


async def test_paths_as_deep_as_the_system_allows_come_back(machine: OnThisMachine) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    path = machine.path(home)
    for number in range(1200):
        (path / f"{number}").mkdir()
        if len(os.fsencode(path)) > 3500:
            break
        path = path / f"{number}"
    (path / "leaf").write_bytes(b"leaf")
    before, after = await there_and_back(machine, home, volume_id)
    assert after == before
    assert len(after) > 600


async def test_a_path_that_could_not_be_restored_is_not_archived(machine: OnThisMachine) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    here = os.open(machine.path(home), os.O_RDONLY)
    for _ in range(20):
        os.mkdir(b"d" * 250, dir_fd=here)
        deeper = os.open(b"d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    with pytest.raises(ActionFailed, match=r"PathTooLong length=\d+ max=4095 path='\./dddd.*dddd/?'"):
        await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    await machine.provider.delete_volume(home, volume_id)


@pytest.mark.parametrize("name", ["mine", "two\nlines"])
async def test_another_filesystem_in_the_home_is_refused_rather_than_left_out(
    machine: OnThisMachine, name: str
) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"deep/kept": b"kept"})
    with mounted(machine.path(home) / "deep" / name) as place:
        (place / "thesis").write_text("precious")
        with pytest.raises(ActionFailed, match=re.escape(f"OtherFilesystem path={f'deep/{name}'!r}")):
            await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await machine.provider.has_archives(home.workspace_id)
    before, after = await there_and_back(machine, home, volume_id)
    assert after == before


async def test_symlinks_that_lead_outside_come_back_if_the_home_had_them(machine: OnThisMachine) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    for number, target in enumerate(("/usr/bin/python3", "../../outside", "loop", "..", "x/../../..")):
        (machine.path(home) / f"link{number}").symlink_to(target)
    (machine.path(home) / "loop").symlink_to("loop")
    os.link(machine.path(home) / "link0", machine.path(home) / "same", follow_symlinks=False)
    before, after = await there_and_back(machine, home, volume_id)
    assert after == before


async def test_sockets_and_pipes_are_left_out_and_nothing_else_is(machine: OnThisMachine) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    path = machine.path(home)
    (path / "d").mkdir()
    for name in ("pipe", "pi*", "pi[p]e", "back\\slash", "new\nline", "-C", "d/pipe", "\udcff"):
        os.mkfifo(path / name)
    for name in ("pipes", "pi-", "pip", "d/pipe2", "newXline"):
        (path / name).write_text(name)
    with socket.socket(socket.AF_UNIX) as listening:
        with chdir(path):  # a socket's name is short
            listening.bind("socket")
        _, after = await there_and_back(machine, home, volume_id)
    assert set(after) == {b"", b"/d", b"/d/pipe2", b"/pipes", b"/pi-", b"/pip", b"/newXline"}


@AS_ROOT
async def test_a_new_home_belongs_to_its_user_and_so_does_a_restored_empty_one(tmp_path: Path) -> None:
    machine = await OnThisMachine.prepared(tmp_path, owner=(70_001, 70_002))
    home = new_home()
    volume_id = await machine.provider.provision(home)
    status = machine.path(home).stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (70_001, 70_002, 0o700)
    key = await machine.provider.create_empty_archive(home, uuid4(), granted)
    await machine.provider.restore(home, key, unheard, replaces=volume_id)
    assert machine.path(home).stat().st_uid == 70_001


async def test_without_a_sandbox_a_home_comes_back_just_the_same(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codehub.adapters.local.tar.shutil.which", lambda _name: None)
    assert not await Tar().is_sandboxed()
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"a/b": b"c" * 3_000_000})
    before, after = await there_and_back(machine, home, volume_id)
    assert after == before


async def test_a_home_that_changes_while_it_is_archived_is_not_committed(machine: OnThisMachine) -> None:
    home, op_id = new_home(), uuid4()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {f"{number}": b"x" * 4_000_000 for number in range(6)})

    def grow(_amount: object) -> None:
        for number in range(6):
            with (machine.path(home) / f"{number}").open("ab") as file:
                file.write(b"more")

    with pytest.raises(ActionFailed, match="HomeChanged"):
        await machine.provider.archive(home, volume_id, op_id, grow, granted)
    assert not await machine.provider.has_archives(home.workspace_id)


@AS_ROOT
async def test_an_access_list_comes_back_and_lets_in_nobody_else(machine: OnThisMachine) -> None:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"for one more": b"secret", "below/inherits": b"secret"})
    os.setxattr(machine.path(home) / "for one more", ACCESS, for_user(1234))
    os.setxattr(machine.path(home) / "below", DEFAULT, for_user(1234))
    os.setxattr(machine.path(home) / "below/inherits", CAPABILITY, may_bind_low_ports())
    os.setxattr(machine.path(home), ACCESS, for_user(1))  # who has a name on every machine
    before, after = await there_and_back(machine, home, volume_id)
    assert after == before
    assert after[b"/for one more"][5] == {ACCESS: for_user(1234)}
    assert after[b"/below/inherits"][5] == {CAPABILITY: may_bind_low_ports()}


async def test_where_files_can_have_no_access_list_a_home_without_one_comes_back_and_one_with_one_is_named(
    tmp_path: Path,
) -> None:
    kept = await OnThisMachine.prepared(tmp_path)
    keys = {}
    for name in ("plain", "listed"):
        home = new_home()
        volume_id = await kept.provider.provision(home)
        kept.write(home, {name: b"secret"})
        if name == "listed":
            os.setxattr(kept.path(home) / name, ACCESS, for_user(1234))
        keys[name] = await kept.provider.archive(home, volume_id, uuid4(), unheard, granted)
    (tmp_path / "elsewhere").mkdir()
    with mounted(tmp_path / "elsewhere" / "data", kind="ramfs"):
        bare = await OnThisMachine.prepared(tmp_path / "elsewhere", store=kept.store)
        plain, listed = new_home(), new_home()
        await bare.provider.restore(plain, keys["plain"], unheard)
        assert bare.files(plain) == {"plain": b"secret"}
        with pytest.raises(ActionFailed, match="AclUnkept path='listed'"):
            await bare.provider.restore(listed, keys["listed"], unheard)
        assert bare.files(listed) is None


async def test_where_files_can_have_no_attributes_a_home_with_one_is_not_restored_without(
    tmp_path: Path,
) -> None:
    kept = await OnThisMachine.prepared(tmp_path)
    home = new_home()
    volume_id = await kept.provider.provision(home)
    kept.write(home, {"download": b"x"})
    os.setxattr(kept.path(home) / "download", "user.origin", b"https://example.org")
    key = await kept.provider.archive(home, volume_id, uuid4(), unheard, granted)
    (tmp_path / "elsewhere").mkdir()
    with mounted(tmp_path / "elsewhere" / "data", kind="ramfs"):
        bare = await OnThisMachine.prepared(tmp_path / "elsewhere", store=kept.store)
        with pytest.raises(ActionFailed, match=r"HomeNotRestored .*'user.origin' .*download"):
            await bare.provider.restore(new_home(), key, unheard)
