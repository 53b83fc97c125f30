"""codehub without root: a home comes back whatever modes its files
have, and what could not come back is not archived.
"""

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from tests.support.mounts import mounted
from tests.support.person import as_person, persons_directory
from tests.support.storages import OnThisMachine, granted, new_home, unheard
from tests.support.trees import (
    ACCESS,
    CAPABILITY,
    Node,
    Picture,
    for_user,
    homes,
    may_bind_low_ports,
    picture,
    plant,
    trees_of_a_person,
)

from codehub.adapters.local import tar
from codehub.adapters.local.home_mark import MARK
from codehub.core.observation import Volume
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home

EXAMPLES = 20
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what is closed to a home's own user")


@pytest.fixture
async def machine() -> AsyncIterator[OnThisMachine]:
    with persons_directory() as place:
        with as_person():
            made = await OnThisMachine.prepared(place)
        yield made


@pytest.fixture
def overriding(machine: OnThisMachine) -> OnThisMachine:
    arguments = ("--unshare-user", "--cap-add", "CAP_DAC_OVERRIDE", "--ro-bind", "/", "/", "true")
    with as_person():
        if shutil.which("bwrap") is None or subprocess.run(["bwrap", *arguments], check=False).returncode:
            pytest.skip("users can't make sandboxes here")
    return machine


@pytest.fixture(params=["no bubblewrap", "no capabilities"])
def without_overriding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sandbox be of no help, as where there is no bubblewrap, or AppArmor takes its capabilities."""
    if request.param == "no bubblewrap":
        monkeypatch.setattr("codehub.adapters.local.tar.shutil.which", lambda _name: None)
    else:
        monkeypatch.setattr(tar, "OWN_CAPABILITIES", ())


async def there_and_back(machine: OnThisMachine, prepare: Callable[[Path], None]) -> tuple[Picture, Picture]:
    """Archive a home that a person has prepared, delete it, restore it; return pictures, which root takes."""
    home = new_home()
    with as_person():
        volume_id = await machine.provider.provision(home)
        prepare(machine.path(home))
    before = picture(os.fsencode(machine.path(home)))
    with as_person():
        key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        await machine.provider.delete_volume(home, volume_id)
        restored = await machine.provider.restore(home, key, unheard)
        assert await machine.provider.list_volumes() == {home.workspace_id: Volume(restored.volume_id)}
        assert await machine.provider.list_leftovers() == []
    after = picture(os.fsencode(machine.path(home)))
    with as_person():
        await machine.provider.delete_volume(home, restored.volume_id)
    return before, after


def read_only_with_an_attribute(home: Path) -> None:
    (home / "download").write_text("precious")
    os.setxattr(home / "download", "user.xdg.origin.url", b"https://example.org")
    (home / "download").chmod(0o444)


def closed(home: Path) -> None:
    (home / "secret").write_text("precious")
    (home / "secret").chmod(0)
    (home / "secrets").mkdir()
    (home / "secrets" / "key").write_text("precious")
    (home / "secrets").chmod(0)


@AS_ROOT
@pytest.mark.parametrize("prepare", [read_only_with_an_attribute, closed])
async def test_a_file_that_its_owner_can_not_open_comes_back(
    overriding: OnThisMachine, prepare: Callable[[Path], None]
) -> None:
    before, after = await there_and_back(overriding, prepare)
    assert after == before


@AS_ROOT
async def test_a_pipe_in_a_closed_directory_is_left_out(overriding: OnThisMachine) -> None:
    def prepare(home: Path) -> None:
        (home / "closed").mkdir()
        os.mkfifo(home / "closed" / "pipe")
        (home / "closed").chmod(0)

    _, after = await there_and_back(overriding, prepare)
    assert set(after) == {b"", b"/closed"}


@AS_ROOT
@homes(EXAMPLES)
@given(tree=trees_of_a_person)
async def test_any_home_comes_back_as_it_was(
    tree: list[tuple[bytes, Node, int]], overriding: OnThisMachine
) -> None:
    before, after = await there_and_back(overriding, lambda home: plant(os.fsencode(home), tree))
    assert after == before


@AS_ROOT
async def test_another_filesystem_is_seen_in_the_sandbox_too(overriding: OnThisMachine) -> None:
    home, volume_id = await prepared(overriding, closed)
    with mounted(overriding.path(home) / "secrets" / "more"), as_person():
        with pytest.raises(ActionFailed, match="OtherFilesystem path='secrets/more'"):
            await overriding.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await overriding.provider.has_archives(home.workspace_id)


@AS_ROOT
@pytest.mark.parametrize("mode", [0o555, 0o500, 0o111, 0, 0o2575])
async def test_a_home_whose_top_is_closed_comes_back(overriding: OnThisMachine, mode: int) -> None:
    def prepare(home: Path) -> None:
        (home / "kept").write_text("kept")
        home.chmod(mode)

    before, after = await there_and_back(overriding, prepare)
    assert after == before
    assert after[b""][1] == mode


class Killed(BaseException):
    """The end of the process, as far as nothing here catches it."""


def die(*_args: object, **_words: object) -> None:
    raise Killed


def die_moving(path: Path, target: Path, rename: Callable[[Path, Path], Path] = Path.rename) -> Path:
    if path.parent.name.startswith("staging-"):
        raise Killed
    return rename(path, target)


@pytest.mark.parametrize(
    ("at", "death"),
    [
        ("pathlib.Path.rename", die_moving),
        ("os.fchmod", die),
        ("os.fsync", die),
        ("codehub.adapters.local.homes.flush", die),
        ("codehub.adapters.local.homes.write_whole", die),
    ],
)
async def test_a_closed_home_whose_restore_died_on_the_way_to_its_place_does_not_count_and_is_restored_again(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch, at: str, death: Callable[..., object]
) -> None:
    home, volume_id = await prepared(machine, lambda path: path.chmod(0o555))
    homes = machine.local.homes
    with as_person():
        key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        await machine.provider.delete_volume(home, volume_id)
        staging = homes.stage(home, None)
        (staging / "home").chmod(0o555)
        with monkeypatch.context() as dying:
            dying.setattr(at, death)
            with pytest.raises(Killed):
                homes.put_in_place(home, staging, "key", None)
        assert homes.locate(home)[1] is None
        restored = await machine.provider.restore(home, key, unheard)
        assert await machine.provider.list_volumes() == {home.workspace_id: Volume(restored.volume_id)}
        assert stat.S_IMODE(machine.path(home).stat().st_mode) == 0o555
        assert await machine.provider.list_leftovers() == []


async def test_a_closed_home_has_its_mode_back_on_the_disk_before_it_counts(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, flushed, fsync = new_home(), [], os.fsync

    def heard(handle: int) -> None:
        status = os.fstat(handle)
        counts = machine.files(home) is not None
        flushed.append((status.st_ino, stat.S_IMODE(status.st_mode), counts))
        fsync(handle)

    with as_person():
        staging = machine.local.homes.stage(home, None)
        (staging / "home").chmod(0o555)
        monkeypatch.setattr(os, "fsync", heard)
        machine.local.homes.put_in_place(home, staging, "key", None)
        assert (machine.path(home).stat().st_ino, 0o555, False) in flushed


async def test_what_is_forbidden_below_a_root_that_is_there_is_a_refusal_and_no_outage(
    machine: OnThisMachine,
) -> None:
    home, volume_id = await prepared(machine, closed)
    users, workspaces = machine.root / "users", machine.path(home).parents[1]
    with as_person():
        workspaces.chmod(0)
        with pytest.raises(ActionFailed, match="PathUnusable"):
            await machine.provider.provision(home)
        with pytest.raises(ActionFailed, match="PathUnusable"):
            await machine.local.locate(home)
        with pytest.raises(BackendUnreachable):
            await machine.provider.list_volumes()  # or it would have to leave one out
        users.chmod(0)
        with pytest.raises(BackendUnreachable):
            await machine.provider.provision(home)
        for path in (users, workspaces):
            path.chmod(0o711)
        assert await machine.provider.provision(home) == volume_id


async def test_a_root_that_goes_while_a_home_is_made_is_an_outage(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmounted(*_args: object) -> None:
        (machine.root / "users" / MARK).unlink()
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(machine.local.homes, "make_empty", unmounted)
    with as_person(), pytest.raises(BackendUnreachable):
        await machine.provider.provision(new_home())


def read_only_directory_with_an_attribute(home: Path) -> None:
    (home / "download").mkdir()
    os.setxattr(home / "download", "user.xdg.origin.url", b"https://example.org")
    (home / "download").chmod(0o555)


@pytest.mark.usefixtures("without_overriding")
@pytest.mark.parametrize("prepare", [read_only_with_an_attribute, read_only_directory_with_an_attribute])
async def test_what_could_not_be_restored_is_not_archived(
    machine: OnThisMachine, prepare: Callable[[Path], None]
) -> None:
    home, volume_id = await prepared(machine, prepare)
    with as_person():
        with pytest.raises(ActionFailed, match="NeedsSandbox path='download'"):
            await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await machine.provider.has_archives(home.workspace_id)


@AS_ROOT
async def test_an_access_list_for_somebody_whom_a_sandbox_does_not_know_is_named_and_nothing_is_archived(
    overriding: OnThisMachine,
) -> None:
    machine = overriding

    def prepare(home: Path) -> None:
        (home / "shared").write_text("secret")
        os.setxattr(home / "shared", ACCESS, for_user(1234))

    home, volume_id = await prepared(machine, prepare)
    with as_person():
        with pytest.raises(ActionFailed, match="AclOfUnknown path='shared'"):
            await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await machine.provider.has_archives(home.workspace_id)


@AS_ROOT
async def test_a_capability_which_only_root_gives_is_named_and_nothing_is_archived(
    machine: OnThisMachine,
) -> None:
    home, volume_id = await prepared(machine, lambda home: (home / "server").touch())
    os.setxattr(machine.path(home) / "server", CAPABILITY, may_bind_low_ports())
    with as_person():
        with pytest.raises(ActionFailed, match="CapabilityUngiven path='server'"):
            await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
        assert not await machine.provider.has_archives(home.workspace_id)


@pytest.mark.usefixtures("without_overriding")
async def test_without_capabilities_a_home_with_read_only_files_comes_back(machine: OnThisMachine) -> None:
    def prepare(home: Path) -> None:
        (home / "object").write_text("precious")
        (home / "object").chmod(0o444)
        os.setxattr(home, "user.of-the-home", b"1")

    before, after = await there_and_back(machine, prepare)
    assert after == before


async def prepared(machine: OnThisMachine, prepare: Callable[[Path], None]) -> tuple[Home, str]:
    home = new_home()
    with as_person():
        volume_id = await machine.provider.provision(home)
        prepare(machine.path(home))
    return home, volume_id
