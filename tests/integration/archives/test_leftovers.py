"""What work that died has left: it neither hides nor stops anything, and nobody waits until it is removed."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.mounts import mounted
from tests.support.storages import OnThisMachine, granted, new_home, unheard

from codehub.adapters.local import trash
from codehub.adapters.local.records import Paths
from codehub.adapters.local.tar import remove_tree
from codehub.ports.storage import Home

LATER = datetime.now(UTC) + timedelta(hours=2)
DEEP = 3000


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


async def archived(machine: OnThisMachine) -> tuple[Home, str, str]:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"kept": b"kept"})
    return home, volume_id, await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)


@asynccontextmanager
async def slow_removal(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Let every removal take for ever, as that of very many files nearly does, until the block is left."""
    may_go_on = asyncio.Event()

    async def slowly(path: Path) -> None:
        await may_go_on.wait()
        await remove_tree(path)

    with monkeypatch.context() as patched:
        patched.setattr(trash, "remove_tree", slowly)
        yield
        may_go_on.set()


async def test_nobody_waits_until_an_old_home_is_removed(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, volume_id, key = await archived(machine)
    async with slow_removal(monkeypatch):
        restored = await machine.provider.restore(home, key, unheard, replaces=volume_id)
        await machine.provider.delete_volume(home, restored.volume_id)
        again = await machine.provider.restore(home, key, unheard)
        assert machine.files(home) == {"kept": b"kept"}
        assert await machine.provider.list_leftovers() == []  # it is being seen to
        beside = {path.name for path in machine.path(home).parent.iterdir()} - {"home", "volume.json"}
        assert beside
        await machine.provider.delete_volume(home, again.volume_id)
    await machine.local.wait_until_empty()
    assert not machine.path(home).parent.exists()


async def test_what_a_process_left_in_the_trash_is_removed_by_the_next(machine: OnThisMachine) -> None:
    home, volume_id, _ = await archived(machine)
    (machine.path(home).parent / "trash-dead" / "deep").mkdir(parents=True)
    await machine.provider.provision(home)
    await machine.local.wait_until_empty()
    assert {path.name for path in machine.path(home).parent.iterdir()} == {"home", "volume.json"}
    await machine.provider.delete_volume(home, volume_id)


async def test_trash_that_can_not_be_removed_neither_hides_nor_stops_the_rest(machine: OnThisMachine) -> None:
    home, volume_id, key = await archived(machine)
    other, _, _ = await archived(machine)
    for stuck in (machine.path(home).parent / "trash-1", machine.path(other).parent / "trash-1"):
        stuck.mkdir()
    (machine.path(home).parent / "trash-2").mkdir()
    with mounted(machine.path(home).parent / "trash-1" / "busy"):
        await machine.provider.delete_volume(home, volume_id)
        assert home.workspace_id not in await machine.provider.list_volumes()
        await machine.local.wait_until_empty()
        stuck = machine.path(home).parent / "trash-1"
        assert sorted(path.name for path in machine.path(home).parent.iterdir()) == ["trash-1"]
        assert str(stuck) in await machine.provider.list_leftovers()
        assert await machine.provider.remove_leftovers(LATER) == 1
        assert await machine.provider.list_leftovers() == [str(stuck)]
        await machine.provider.restore(home, key, unheard)
        assert machine.files(home) == {"kept": b"kept"}
        await machine.local.wait_until_empty()
    assert await machine.provider.remove_leftovers(LATER) == 1
    assert await machine.provider.list_leftovers() == []


async def test_what_is_left_of_an_upload_and_can_not_be_removed_stops_nothing(machine: OnThisMachine) -> None:
    home, _, key = await archived(machine)
    (machine.store / f"{key}#1").mkdir()
    (machine.store / f"{key}#2").write_bytes(b"half")
    (machine.path(home).parent / "trash-dead").mkdir()
    assert await machine.provider.remove_leftovers(LATER) == 2
    assert await machine.provider.list_leftovers() == [f"{key}#1"]


def dig(place: Path) -> None:
    """Make a directory deeper than Python walks."""
    here = os.open(place, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


async def test_a_deep_tree_beside_the_archives_hides_no_leftover(machine: OnThisMachine) -> None:
    _, _, key = await archived(machine)
    (machine.store / f"{key}#1").write_bytes(b"half")
    dig(machine.store)
    try:
        assert await machine.provider.list_leftovers() == [f"{key}#1"]
        assert await machine.provider.remove_leftovers(LATER) == 1
    finally:
        await remove_tree(machine.store)


async def test_a_deep_tree_in_the_trash_is_removed(machine: OnThisMachine) -> None:
    home, volume_id, _ = await archived(machine)
    dig(machine.path(home))
    await machine.provider.delete_volume(home, volume_id)
    await machine.local.wait_until_empty()
    assert not machine.path(home).parent.exists()


def test_a_deep_tree_that_an_instance_leaves_is_removed_with_it(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "instance")
    (paths.directory / "runtime").mkdir(parents=True)
    dig(paths.directory / "runtime")
    paths.remove()
    assert not paths.directory.exists()
