"""Backs up a whole installation to a new location. Refuses one that is not empty.

database.dump         PostgreSQL's own dump of one moment
archives/             a store of archives like any other: all that were committed, and one of each home that
                      no archive had
codehub-backup.json   what there is, with checksums; written last: without it this is no back-up
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.adapters.archiving_storage import ArchivingStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.copying import ArchiveMissing, copy_archive
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.postgres.dump import DumpFailed, HomeSnapshot, Snapshot, dump_database, snapshot
from codehub.adapters.threads import in_thread
from codehub.app.database import database_beside, stores
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.open_platform import open_platform
from codehub.core.backups import CopiedHome, Manifest
from codehub.core.messages import Code, Message
from codehub.core.workspace import StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Home, ignore_progress
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text

MANIFEST, DUMP, ARCHIVES = "codehub-backup.json", "database.dump", "archives"
FORMAT = 1

# Called with the progress: a name, how many of how many, and bytes.
ReportProgress = Callable[[str, int, int, int], None]


def encode(manifest: Manifest) -> bytes:
    return json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1).encode() + b"\n"


def decode(text: bytes) -> Manifest:
    try:
        content: Mapping[str, Any] = json.loads(text)
        if content["format"] != FORMAT:
            raise CannotStart(say("backup.format", format=content["format"], known=FORMAT))
        return Manifest(
            str(UUID(content["installation"])),
            datetime.fromisoformat(content["taken_at"]).isoformat(),
            str(content["dump_sha256"]),
            int(content["dump_size"]),
            tuple(map(str, content["archives"])),
            int(content["archives_size"]),
            tuple(CopiedHome(**home) for home in content["homes"]),
            tuple((str(name), str(reason)) for name, reason in content["missing"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CannotStart(say("backup.unreadable", file=MANIFEST, error=error)) from None


def address(location: str) -> str:
    """Return the URL of a place that may be a directory."""
    return location.rstrip("/") if "://" in location else Path(location).expanduser().absolute().as_uri()


async def back_up(settings: Settings, system: System, location: str, report: ReportProgress) -> Manifest:
    """Copy everything to a new place, beside a codehub that may run, and return what is there."""
    url = address(location)
    root = Objects(url, installation="")
    async with (
        database_beside(settings, system) as connect_args,
        stores(connect_args, system, settings.redis_url) as all_stores,
        open_platform(settings, all_stores, system, stops=False) as platform,
    ):
        try:
            await _make_new(root, url)
            target = Objects(f"{url}/{ARCHIVES}", installation=all_stores.installation)
            await target.prepare()
            # First the database, then the archives: all that it names still exist, since a replaced archive
            # is kept for long.
            async with snapshot(connect_args) as database_snapshot:
                report("database", 0, 1, 0)
                digest, size = await _store(root, DUMP, dump_database(connect_args, database_snapshot))
                report("database", 1, 1, size)
            source = Objects(settings.archives, installation=all_stores.installation)
            archives, archives_size = await _copy_all(source, target, database_snapshot, report)
            homes, missing = await copy_homes(
                platform.backends, ObjectArchives(target), database_snapshot, system, report
            )
            missing += [
                (home.name, say("backup.no_archive", key=home.archive_key))
                for home in database_snapshot.homes
                if home.archive_key is not None and home.archive_key not in archives
            ]
            manifest = Manifest(
                database_snapshot.installation,
                database_snapshot.taken_at.isoformat(),
                digest,
                size,
                tuple(sorted(archives)),
                archives_size,
                tuple(homes),
                tuple(missing),
            )
            await root.put(MANIFEST, encode(manifest))
        except (DumpFailed, ActionFailed) as error:
            reason = failure_text(error, terminal_language())
            raise CannotStart(say("backup.half", place=location, reason=reason)) from None
        return manifest


async def _make_new(root: Objects, url: str) -> None:
    if root.directory is not None:
        await in_thread(root.directory.mkdir, mode=0o700, parents=True, exist_ok=True)
    if await root.list_under():
        raise CannotStart(say("backup.not_empty", place=url))


async def _store(root: Objects, name: str, parts: AsyncGenerator[bytes, None]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0

    async def count_parts() -> AsyncGenerator[bytes, None]:
        nonlocal size
        async for part in parts:
            digest.update(part)
            size += len(part)
            yield part

    await root.upload(name, count_parts(), lambda: 0)
    await root.make_durable(name)
    return digest.hexdigest(), size


async def _copy_all(
    source: Objects, target: Objects, database_snapshot: Snapshot, report: ReportProgress
) -> tuple[set[str], int]:
    """Copy every archive that counts, those first that the database named: they are kept for the grace time
    only.
    """
    named_keys = {home.archive_key for home in database_snapshot.homes}
    keys = [archive.key for archive in await ObjectArchives(source).list_all() if archive.committed]
    copied: set[str] = set()
    size = 0
    for key in sorted(keys, key=lambda key: (key not in named_keys, key)):
        try:
            size += await copy_archive(source, target, key)
            copied.add(key)
        except ArchiveMissing:
            if key in named_keys:
                raise
            # Garbage collection took it meanwhile: no workspace needed it.
        report("archives", len(copied), len(keys), size)
    return copied, size


async def copy_homes(
    backends: Backends,
    into: ObjectArchives,
    database_snapshot: Snapshot,
    system: System,
    report: ReportProgress,
) -> tuple[list[CopiedHome], list[tuple[str, str]]]:
    """Archive every home that holds what no archive holds, and return those, and the others with why not."""
    copied: list[CopiedHome] = []
    missing: list[tuple[str, str]] = []
    unarchived = [home for home in database_snapshot.homes if home.dirty]

    for number, home in enumerate(unarchived):
        report("homes", number, len(unarchived), 0)
        try:
            key = await _copy_home(backends, into, home, system.identity.new_id(), database_snapshot.taken_at)
        except (ActionFailed, BackendUnreachable) as error:
            reason = failure_text(error, terminal_language())
            missing.append((home.name, say("backup.not_copied", reason=reason)))
        else:
            copied.append(CopiedHome(str(home.workspace_id), home.name, home.volume_id, key))
    if unarchived:
        report("homes", len(unarchived), len(unarchived), 0)
    return copied, missing


async def _copy_home(
    backends: Backends, into: ObjectArchives, home: HomeSnapshot, op_id: UUID, at: datetime
) -> str:
    """`at`: the database's time of the back-up, after which its archive counts as made."""
    storage: object = backends.storage.get(StorageBackend(home.storage_backend))
    if home.volume_id is None or not isinstance(storage, ArchivingStorage):
        raise BackendUnreachable(Message(Code.NO_ADAPTER, {"backend": home.storage_backend}))

    async def may_commit() -> datetime:
        return at

    source = Home(home.workspace_id, home.home_store_key)
    return await storage.archive(source, home.volume_id, op_id, ignore_progress, may_commit, into=into)
