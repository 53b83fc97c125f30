"""A full disk, a kill, a cancellation, an outage: nothing that counts is
half, nothing is lost, and the same call again does it.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.support.filled_homes import FILES, filled
from tests.support.mounts import mounted
from tests.support.patience import PATIENCE_S
from tests.support.storages import OnThisMachine, granted, new_home, unheard
from tests.support.trees import picture

from codehub.adapters.local.directories import write_whole
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive, Volume
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Home, RestoredVolume


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 8 MB."""
    with mounted(tmp_path / "small", size="8m") as place:
        yield place


# A full disk


async def test_a_full_archive_store_is_told_and_leaves_the_home_and_no_archive(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "archives").symlink_to(small_disk)
    machine = await OnThisMachine.prepared(tmp_path)
    home, volume_id = await filled(machine)
    before = picture(os.fsencode(machine.path(home)))
    with pytest.raises(ActionFailed, match=r"HomesFull|ArchivesFull") as failed:
        await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    assert failed.value.reason is ErrorReason.ACTION_FAILED
    assert picture(os.fsencode(machine.path(home))) == before
    assert not await machine.provider.has_archives(home.workspace_id)
    assert await machine.local.list_leftovers() == []
    assert shutil.disk_usage(small_disk).used < 1_000_000


async def test_a_disk_too_full_to_restore_is_told_and_leaves_what_was_there(
    tmp_path: Path, small_disk: Path
) -> None:
    source = await OnThisMachine.prepared(tmp_path)
    home, volume_id = await filled(source)
    key = await source.provider.archive(home, volume_id, uuid4(), unheard, granted)
    shutil.rmtree(source.root)
    source.root.symlink_to(small_disk)
    await source.local.prepare()
    kept = await source.provider.provision(home)
    source.write(home, {"kept": b"kept"})
    with pytest.raises(ActionFailed, match=r"HomesFull|ArchivesFull") as failed:
        await source.provider.restore(home, key, unheard, replaces=kept)
    assert failed.value.reason is ErrorReason.ACTION_FAILED
    assert await source.provider.list_volumes() == {home.workspace_id: Volume(kept)}
    assert source.files(home) == {"kept": b"kept"}
    assert await source.local.list_leftovers() == []
    assert shutil.disk_usage(small_disk).used < 1_000_000
    assert await source.provider.head_archive(key) == Archive(committed=True)


async def test_a_disk_too_full_for_a_new_home_is_told(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "data").symlink_to(small_disk)
    machine = await OnThisMachine.prepared(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(9 << 20))
    with pytest.raises(ActionFailed, match=r"HomesFull|ArchivesFull"):
        await machine.provider.provision(new_home())


# A kill


async def killed_at(what: str, machine: OnThisMachine, home: Home, *arguments: str, lines: int) -> bool:
    """Run archive or restore in a process of its own and kill it
    after so many lines. Return whether it was done by then.
    """
    command = (sys.executable, "-m", "tests.support.archive_process", what, str(machine.root.parent))
    process = await asyncio.create_subprocess_exec(
        *command,
        *(str(home.workspace_id), home.home_store_key, *arguments),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    line = b""
    for _ in range(lines):
        line = await process.stdout.readline() or line
    if process.returncode is None:
        process.kill()
    await process.wait()
    return line.startswith(b"done")


@pytest.mark.parametrize("lines", [1, 2, 10, 25, 30, 45])
async def test_an_archive_killed_anywhere_counts_whole_or_not_at_all_and_again_succeeds(
    machine: OnThisMachine, lines: int
) -> None:
    home, volume_id = await filled(machine)
    before = picture(os.fsencode(machine.path(home)))
    op_id = uuid4()
    key = f"{home.workspace_id}/{op_id}/home.tar.zst"
    async with asyncio.timeout(PATIENCE_S):
        await killed_at("archive", machine, home, key, volume_id, str(op_id), lines=lines)
    assert picture(os.fsencode(machine.path(home))) == before
    assert await machine.provider.archive(home, volume_id, op_id, unheard, granted) == key
    other = new_home()
    await machine.provider.restore(other, key, unheard)
    assert picture(os.fsencode(machine.path(other))) == before
    await machine.local.remove_leftovers(datetime.now(UTC) + timedelta(minutes=1))
    assert await machine.local.list_leftovers() == []


@pytest.mark.parametrize("lines", [1, 2, 5, 12, 20, 26])
async def test_a_restore_killed_anywhere_counts_whole_or_not_at_all_and_again_succeeds(
    machine: OnThisMachine, lines: int
) -> None:
    home, volume_id = await filled(machine)
    before = picture(os.fsencode(machine.path(home)))
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    other = new_home()
    async with asyncio.timeout(PATIENCE_S):
        await killed_at("restore", machine, other, key, "-", str(UUID(int=0)), lines=lines)
    volume = (await machine.provider.list_volumes()).get(other.workspace_id)
    if volume is not None and volume.volume_id is not None:
        assert picture(os.fsencode(machine.path(other))) == before
    there = None if volume is None else volume.volume_id
    restored = await machine.provider.restore(other, key, unheard, replaces=there)
    assert (await machine.provider.list_volumes())[other.workspace_id] == Volume(restored.volume_id)
    assert picture(os.fsencode(machine.path(other))) == before
    assert await machine.local.list_leftovers() == []


# A cancellation


class Stop:
    """Cancels the task that reports, once it has come so far."""

    def __init__(self, stage: str, after: int) -> None:
        self.stage = stage
        self.after = after
        self.task: asyncio.Task[object] | None = None

    def __call__(self, amount: Amount) -> None:
        self.after -= amount.stage == self.stage
        if self.after == 0:
            assert self.task is not None
            self.task.cancel()


@pytest.mark.parametrize("after", [1, 8, 20])
async def test_a_cancelled_upload_leaves_nothing(machine: OnThisMachine, after: int) -> None:
    home, volume_id = await filled(machine)
    nothing, others = machine.everything(), children()
    stop = Stop("archive", after)
    stop.task = asyncio.ensure_future(machine.provider.archive(home, volume_id, uuid4(), stop, granted))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    assert machine.everything() == nothing
    assert children() == others


@pytest.mark.parametrize("after", [1, 8])
async def test_an_archive_cancelled_while_it_is_read_back_does_not_count(
    machine: OnThisMachine, after: int
) -> None:
    home, volume_id = await filled(machine)
    stop = Stop("verify", after)
    stop.task = asyncio.ensure_future(machine.provider.archive(home, volume_id, uuid4(), stop, granted))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    assert [archive.committed for archive in await machine.provider.list_archives()] == [False]


@pytest.mark.parametrize("after", [1, 5, 20])
async def test_a_cancelled_restore_leaves_what_was_there(machine: OnThisMachine, after: int) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    other = new_home()
    kept = await machine.provider.provision(other)
    before, others = machine.everything(), children()
    stop = Stop("restore", after)
    stop.task = asyncio.ensure_future(machine.provider.restore(other, key, stop, replaces=kept))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    await machine.local.wait_until_empty()
    assert machine.everything() == before
    assert (await machine.provider.list_volumes())[other.workspace_id] == Volume(kept)
    assert children() == others


def children() -> set[str]:
    """Return what this process's children are called."""
    names = set()
    for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


# Order and use


async def test_of_two_restores_of_one_home_the_first_can_not_put_half_a_home_in_place(
    machine: OnThisMachine,
) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    other, before = new_home(), picture(os.fsencode(machine.path(home)))
    results = await asyncio.gather(
        *(machine.provider.restore(other, key, unheard) for _ in range(4)), return_exceptions=True
    )
    made = [result.volume_id for result in results if isinstance(result, RestoredVolume)]
    assert all(isinstance(result, RestoredVolume | ActionFailed) for result in results)
    volume = (await machine.provider.list_volumes()).get(other.workspace_id)
    assert volume == (Volume(made[0]) if made else None)
    await machine.provider.restore(other, key, unheard, replaces=made[0] if made else None)
    assert picture(os.fsencode(machine.path(other))) == before
    assert await machine.local.list_leftovers() == []


async def test_leftovers_are_removed_when_they_are_old_enough_and_only_then(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    (machine.store / f"{key}#1").write_bytes(b"half")
    (machine.path(home).parent / "staging-dead" / "home").mkdir(parents=True)
    (machine.path(home).parent / "trash-dead").mkdir()
    assert len(await machine.local.list_leftovers()) == 3
    now = datetime.now(UTC)
    assert await machine.local.remove_leftovers(now - timedelta(hours=2)) == 0
    assert await machine.local.remove_leftovers(now + timedelta(hours=2)) == 3
    assert await machine.local.list_leftovers() == []
    assert machine.files(home) == FILES
    assert await machine.provider.head_archive(key) == Archive(committed=True)


async def test_a_restore_that_dies_before_its_home_counts_is_repeated_without_a_word(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is full of files: only what it wrote before
    tells it from a home that has lost its identity.
    """
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, {"kept": b"kept"})
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)

    def die_before_identity(path: Path, content: bytes) -> None:
        if path.name == "volume.json" and json.loads(content)["volume_id"] is not None:
            raise ActionFailed("killed")
        write_whole(path, content)

    with monkeypatch.context() as patched:
        patched.setattr("codehub.adapters.local.homes.write_whole", die_before_identity)
        with pytest.raises(ActionFailed, match="killed"):
            await machine.provider.restore(home, key, unheard, replaces=volume_id)
    assert machine.path(home).joinpath("kept").exists()
    assert await machine.provider.list_volumes() == {home.workspace_id: Volume(None)}
    await machine.provider.restore(home, key, unheard)
    assert machine.files(home) == {"kept": b"kept"}
