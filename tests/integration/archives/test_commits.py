"""What makes an archive count, and who may read it: a `.meta`
that was kept and fits, in files that are private.
"""

import errno
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.storages import OnThisMachine, denied, granted, new_home, unheard

from codehub.adapters.objectstore import store
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Home

FILES = {"notes": b"hello\n", "src/main.py": b"print()\n" * 1000}


@pytest.fixture
async def machine(tmp_path: Path) -> OnThisMachine:
    return await OnThisMachine.prepared(tmp_path)


async def filled(machine: OnThisMachine) -> tuple[Home, str]:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, FILES)
    return home, volume_id


async def test_a_commit_that_could_not_be_flushed_is_flushed_before_it_is_believed(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, volume_id = await filled(machine)
    op_id, fails = uuid4(), True
    flushed: list[str] = []

    def moody(root: Path, path: Path) -> None:
        if fails and path.suffix == ".meta":
            raise OSError(errno.EIO, "Input/output error")
        flush(root, path)
        flushed.append(path.name)

    flush = store.flush
    monkeypatch.setattr(store, "flush", moody)
    for _ in range(2):
        with pytest.raises(BackendUnreachable, match="Input/output error"):
            await machine.provider.archive(home, volume_id, op_id, unheard, granted)
    fails = False
    flushed.clear()
    await machine.provider.archive(home, volume_id, op_id, unheard, denied)
    assert flushed == ["home.tar.zst", "home.tar.zst.meta"]


async def test_a_meta_that_the_disk_did_not_keep_is_noticed_when_it_was_written(
    machine: OnThisMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, volume_id = await filled(machine)
    flush = store.flush

    def forgets(root: Path, path: Path) -> None:
        flush(root, path)
        if path.suffix == ".meta":
            os.truncate(path, 0)

    monkeypatch.setattr(store, "flush", forgets)
    with pytest.raises(ActionFailed, match="ArchiveNotAsWritten"):
        await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "another object"])
async def test_an_archive_counts_only_by_a_meta_that_can_be_read_and_fits(
    machine: OnThisMachine, damage: str
) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    meta = machine.store / f"{key}.meta"
    match damage:
        case "empty":
            meta.write_bytes(b"")
        case "cut":
            os.truncate(meta, meta.stat().st_size - 3)
        case "zeros":
            meta.write_bytes(bytes(meta.stat().st_size))
        case _:
            os.truncate(machine.store / key, 1000)
    assert await machine.provider.head_archive(key) == Archive(committed=False)
    (listed,) = await machine.provider.list_archives()
    assert listed.committed is (damage != "empty")  # which is all that a list can tell


async def test_an_archive_of_a_later_format_is_neither_believed_nor_given_up(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    (machine.store / f"{key}.meta").write_text('{"format": 2}')
    with pytest.raises(ActionFailed, match="MetaLater format=2 known=1"):
        await machine.provider.head_archive(key)


async def test_a_meta_that_the_disk_does_not_give_is_an_outage(machine: OnThisMachine) -> None:
    home, volume_id = await filled(machine)
    key = await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)
    meta = machine.store / f"{key}.meta"
    meta.unlink()
    meta.symlink_to(meta)
    with pytest.raises(BackendUnreachable):
        await machine.provider.head_archive(key)


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[OnThisMachine]:
    """A directory that the operator made before, which everybody may read, and the usual umask."""
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives").chmod(0o755)
    before = os.umask(0o022)
    yield await OnThisMachine.prepared(tmp_path)
    os.umask(before)


def open_to_others(machine: OnThisMachine) -> set[str]:
    """Return what of the store others may read, or enter."""
    return {
        str(path.relative_to(machine.store))
        for path in machine.store.rglob("*")
        if path.lstat().st_mode & 0o077
    }


async def test_archives_are_private_wherever_they_lie_and_while_they_are_written(
    open_store: OnThisMachine,
) -> None:
    home, volume_id = await filled(open_store)
    observation: set[str] = set()

    def look(amount: Amount) -> None:
        del amount
        for path in open_store.store.iterdir():
            if path.is_dir() and path.stat().st_mode & 0o077:
                observation.add(path.name)

    await open_store.provider.archive(home, volume_id, uuid4(), look, granted)
    await open_store.provider.create_empty_archive(home, uuid4(), granted)
    assert observation == open_to_others(open_store) == set()
    assert open_store.store.stat().st_mode & 0o777 == 0o755


async def test_archives_that_others_could_read_are_closed_at_the_start_and_nothing_of_the_operators_is(
    open_store: OnThisMachine,
) -> None:
    home, volume_id = await filled(open_store)
    key = await open_store.provider.archive(home, volume_id, uuid4(), unheard, granted)
    (open_store.store / str(home.workspace_id)).chmod(0o755)
    (open_store.store / "lost+found").mkdir()
    await open_store.objects.restrict_access()
    assert open_to_others(open_store) == {"lost+found"}
    assert open_store.store.stat().st_mode & 0o777 == 0o755
    assert await open_store.provider.head_archive(key) == Archive(committed=True)


async def saved(machine: OnThisMachine) -> tuple[Home, str]:
    home, volume_id = await filled(machine)
    return home, await machine.provider.archive(home, volume_id, uuid4(), unheard, granted)


async def test_archives_whose_places_were_swapped_restore_nobody_else_s_home(machine: OnThisMachine) -> None:
    (ann, hers), (_bob, his) = await saved(machine), await saved(machine)
    for suffix in ("", ".meta"):
        her_file, other = (machine.store / (hers + suffix)), (machine.store / (his + suffix))
        aside = her_file.with_name("aside")
        her_file.rename(aside)
        other.rename(her_file)
        aside.rename(other)
    assert await machine.provider.head_archive(hers) == Archive(committed=False)
    (archive,) = await machine.provider.list_archives_of(ann.workspace_id)
    assert not archive.committed
    volume_id = (await machine.provider.list_volumes())[ann.workspace_id].volume_id
    with pytest.raises(ActionFailed, match=his) as failure:
        await machine.provider.restore(ann, hers, unheard, replaces=volume_id)
    assert failure.value.reason is ErrorReason.ARCHIVE_CORRUPTED


async def test_an_archive_that_an_older_codehub_made_counts_and_has_no_time(machine: OnThisMachine) -> None:
    home, key = await saved(machine)
    meta = machine.store / (f"{key}.meta")
    fields = json.loads(meta.read_bytes())
    for name in ("workspace_id", "key", "committed_at"):
        del fields[name]
    meta.write_text(json.dumps(fields))
    assert await machine.provider.head_archive(key) == Archive(committed=True)
    (archive,) = await machine.provider.list_archives_of(home.workspace_id)
    assert (archive.committed, archive.committed_at) == (True, None)
    volume_id = (await machine.provider.list_volumes())[home.workspace_id].volume_id
    await machine.provider.restore(home, key, unheard, replaces=volume_id)
    assert machine.files(home) == FILES


@pytest.mark.parametrize("wrong", [{"committed_at": "yesterday"}, {"committed_at": "2026-11-16"}, {"key": 7}])
async def test_a_meta_that_names_itself_wrongly_does_not_count(
    machine: OnThisMachine, wrong: dict[str, object]
) -> None:
    _, key = await saved(machine)
    meta = machine.store / (f"{key}.meta")
    meta.write_text(json.dumps(json.loads(meta.read_bytes()) | wrong))
    assert await machine.provider.head_archive(key) == Archive(committed=False)
