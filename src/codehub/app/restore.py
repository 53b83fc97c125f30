"""Restores a back-up into an empty installation. Refuses to overwrite anything, and what it can't verify.

An incomplete restore has no effect: an embedded installation is built beside its directory and renamed last;
otherwise the archives, which are only added, come first, and then the database, in one transaction.
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.home_mark import MARK as HOMES_MARK
from codehub.adapters.local.tar import remove_tree
from codehub.adapters.objectstore.copying import copy_archive
from codehub.adapters.objectstore.store import MARK, Objects
from codehub.adapters.postgres.dump import DumpFailed, load, require_empty, use_home
from codehub.adapters.postgres.embedded import owner_of
from codehub.adapters.threads import in_thread
from codehub.app.backup import ARCHIVES, DUMP, MANIFEST, ReportProgress, address, decode
from codehub.app.database import database, migrate_database, stores
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.open_platform import open_platform
from codehub.core.backups import Manifest
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text


async def read(settings: Settings, location: str) -> Manifest:
    """Return what a back-up holds, if it can be restored to where the settings lead. Nothing is written."""
    text = None
    url = address(location)
    root = Objects(url, installation="")
    if root.directory is None or root.directory.is_dir():
        text = await root.get(MANIFEST)
    if text is None:
        raise CannotStart(say("restore.incomplete", place=location, file=MANIFEST))
    manifest = decode(text)
    await _refuse_occupied(settings, manifest)
    return manifest


class UnusableBackup(Exception):
    """The back-up is not whole, or not of one installation. It says what is wrong."""


async def restore(settings: Settings, system: System, location: str, report: ReportProgress) -> Manifest:
    """Restore everything, and return the manifest."""
    manifest = await read(settings, location)
    url = address(location)
    try:
        async with _make_installation(settings) as (new_settings, scratch):
            await _fetch(Objects(url, installation=""), manifest, scratch / DUMP)
            report("verified", 1, 1, manifest.dump_size)
            await _copy_archives(url, new_settings, manifest, report)
            report("database", 0, 1, 0)
            await _restore_database(new_settings, system, manifest, scratch / DUMP)
            report("database", 1, 1, manifest.dump_size)
    except (DumpFailed, UnusableBackup, ActionFailed) as error:
        reason = failure_text(error, terminal_language())
        raise CannotStart(say("restore.nothing", reason=reason)) from None
    return manifest


async def _refuse_occupied(settings: Settings, manifest: Manifest) -> None:
    if settings.database_url is not None:
        try:
            await require_empty({"dsn": settings.database_url.get_secret_value()})
        except DumpFailed:
            raise CannotStart(say("restore.database")) from None
    else:
        _refuse_directory(settings.data_dir)
    if settings.homes_dir is not None:
        _refuse_homes(settings.homes_dir, manifest.installation)
    if settings.archive_url is not None:
        store = Objects(settings.archive_url, installation=manifest.installation)
        if store.directory is not None and not store.directory.is_dir():
            return
        mark = await store.get(MARK)
        # Its own archives, which outlived the database, stay: those that are newer than the back-up too.
        if mark is None and await store.list_under():
            place, setting = settings.archive_url, "CODEHUB_ARCHIVE_URL"
            raise CannotStart(say("restore.unmarked", place=place, setting=setting))
        if mark is not None and mark.strip().decode(errors="replace") != manifest.installation:
            place, setting = settings.archive_url, "CODEHUB_ARCHIVE_URL"
            raise CannotStart(say("restore.foreign", place=place, setting=setting))


def _refuse_directory(data_dir: Path, *, beside: Path | None = None) -> None:
    if (pid := owner_of(data_dir)) is not None:
        raise CannotStart(say("restore.running", directory=data_dir, pid=pid))
    if data_dir.is_dir() and any(
        entry not in (beside, data_dir / "lost+found") for entry in data_dir.iterdir()
    ):
        raise CannotStart(say("restore.not_empty", directory=data_dir))


def _refuse_homes(homes_dir: Path, installation: str) -> None:
    """Refuse a directory of homes that holds something, unless it is this
    installation's own: its homes are newer than the back-up.
    """
    users = homes_dir / "users"
    if not users.is_dir():
        return
    try:
        mark = (users / HOMES_MARK).read_text().partition("\n")[0].strip()
    except FileNotFoundError:
        if any(users.iterdir()):
            raise CannotStart(say("restore.unmarked", place=users, setting="CODEHUB_HOMES_DIR")) from None
        return
    if mark != installation:
        raise CannotStart(say("restore.foreign", place=users, setting="CODEHUB_HOMES_DIR"))


@asynccontextmanager
async def _make_installation(settings: Settings) -> AsyncIterator[tuple[Settings, Path]]:
    """Yield settings for a new data directory, and a scratch directory.

    The data directory gets its name at the end.
    """
    if settings.database_url is not None:
        with tempfile.TemporaryDirectory(prefix="codehub-restore-") as directory:
            yield settings, Path(directory)
        return
    data_dir = settings.data_dir.absolute()
    parent = data_dir if data_dir.is_mount() else data_dir.parent
    await in_thread(parent.mkdir, parents=True, exist_ok=True)
    new_directory = Path(tempfile.mkdtemp(prefix=f".{data_dir.name}.restoring-", dir=parent))
    try:
        new_data_dir, scratch = new_directory / data_dir.name, new_directory / "scratch"
        scratch.mkdir(mode=0o700)
        new_data_dir.mkdir(mode=0o755)
        directories = {"data_dir": new_data_dir}
        if settings.homes_dir is not None and settings.homes_dir.is_relative_to(data_dir):
            directories["homes_dir"] = new_data_dir / settings.homes_dir.relative_to(data_dir)
        yield settings.model_copy(update=directories), scratch
        _refuse_directory(data_dir, beside=new_directory)
        await in_thread(_put_in_place, new_data_dir, data_dir)
    finally:
        await asyncio.shield(remove_tree(new_directory))


def _put_in_place(new_data_dir: Path, data_dir: Path) -> None:
    """Rename it.

    Into a mount point its entries are moved, the database last: without it there is no installation.
    """
    if data_dir.is_mount():
        for part in sorted(new_data_dir.iterdir(), key=lambda part: part.name == "postgres"):
            part.rename(data_dir / part.name)
            _flush(data_dir)
        return
    with suppress(FileNotFoundError):
        data_dir.rmdir()
    new_data_dir.rename(data_dir)
    _flush(data_dir.parent)


def _flush(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


async def _fetch(root: Objects, manifest: Manifest, dump: Path) -> None:
    """Read the dump and verify it, before anything is restored."""
    parts = await in_thread(root.download, DUMP)
    if parts is None:
        raise UnusableBackup(say("restore.no_dump", file=DUMP))
    digest, size = hashlib.sha256(), 0
    fd = os.open(dump, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        while part := await in_thread(next, parts, b""):
            digest.update(part)
            size += len(part)
            await in_thread(file.write, part)
    if (digest.hexdigest(), size) != (manifest.dump_sha256, manifest.dump_size):
        raise UnusableBackup(say("restore.damaged", file=DUMP))


async def _copy_archives(url: str, settings: Settings, manifest: Manifest, report: ReportProgress) -> None:
    """Copy every archive, each verified. One that is there already is left alone, and so is every other."""
    source = Objects(f"{url}/{ARCHIVES}", installation=manifest.installation)
    target = Objects(settings.archives, installation=manifest.installation)
    await source.check()
    await target.prepare()
    keys = [*manifest.archives, *(home.archive_key for home in manifest.homes)]
    size = 0
    for number, key in enumerate(keys, start=1):
        size += await copy_archive(source, target, key)
        report("archives", number, len(keys), size)


async def _restore_database(settings: Settings, system: System, manifest: Manifest, dump: Path) -> None:
    async with database(settings, system, is_migrated=False) as connect_args:
        await load(connect_args, dump)
        await migrate_database(settings, connect_args)
        async with (
            stores(connect_args, system, settings.redis_url) as all_stores,
            open_platform(settings, all_stores, system, stops=False) as platform,
        ):
            if all_stores.installation != manifest.installation:
                raise UnusableBackup(say("restore.other", file=DUMP, manifest=MANIFEST))
            volumes: set[str | None] = set()
            for storage in platform.home_stores.values():
                await storage.prepare()
                volumes |= {volume.volume_id for volume in (await storage.list_volumes()).values()}
            for home in manifest.homes:
                # A volume that is still there is newer than what the back-up has of it.
                if home.volume_id not in volumes:
                    await use_home(connect_args, UUID(home.workspace_id), home.archive_key, home.volume_id)
