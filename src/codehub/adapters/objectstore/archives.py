"""Writes tar streams as committed archives, and reads them. An archive counts only after it was read back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.objectstore.jobs import JobArchives, run_archiving, run_restoring
from codehub.adapters.objectstore.leftovers import Leftovers
from codehub.adapters.objectstore.meta import Content, LaterMeta, Meta, UnknownMeta, decode
from codehub.adapters.objectstore.store import MARK, Objects
from codehub.adapters.objectstore.streams import corruption, open_packer, pack, unpack, verify_stored
from codehub.adapters.threads import in_thread, wait_until_done
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import Archive
from codehub.ports.archives import (
    ARCHIVE_KEY,
    Attribute,
    Check,
    Estimate,
    LongerThanEstimated,
    RunJob,
    unknown_size,
)
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Report, StoredArchive

if TYPE_CHECKING:
    from obstore import ObjectMeta

_META = ".meta"


class _AlreadyCommitted(Exception):
    """Another process has finished the archive of this operation meanwhile."""


class ObjectArchives:
    """An archive is `home.tar.zst` and a `.meta`.

    Without its `.meta`, which is written last and fits the object, it does not count.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._leftovers = Leftovers(objects)
        self._jobs = JobArchives(objects)

    async def write(
        self,
        key: str,
        tar: AsyncIterator[bytes],
        report: Report,
        check: Check,
        *,
        size: Estimate = unknown_size,
        refused: Collection[Attribute] = (),
    ) -> None:
        await self._objects.check()
        if await self.secure(key):
            return
        async with open_packer(refused) as packer:
            try:
                async with aclosing(self._unless_committed(key, pack(tar, packer))) as parts:
                    await self._objects.upload(key, parts, size)
            except _AlreadyCommitted:
                return
        # Flushing the disk takes a while; the archive is read back meanwhile.
        durable = asyncio.ensure_future(self._objects.make_durable(key))
        try:
            await self._read_back(key, packer.content, report)
        finally:
            await wait_until_done(durable)
        await durable
        await self._commit(key, packer.content, check)

    async def secure(self, key: str) -> bool:
        if (meta := await self._commit_meta(_check_key(key))) is None:
            return False
        await self._objects.make_durable(key)
        await self._objects.renew(key + _META, meta[0])
        return True

    async def read(
        self, key: str, report: Report, *, refused: Collection[Attribute] = ()
    ) -> AsyncGenerator[memoryview, None]:
        meta = await self._meta_of(_check_key(key))
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            await self._objects.check()
            raise ActionFailed(Message(Code.ARCHIVE_NOT_THERE, {"key": key}), reason=ErrorReason.DATA_LOST)
        async with aclosing(unpack(key, parts, meta, report, refused)) as tar:
            async for part in tar:
                yield part

    async def write_by_job(
        self, key: str, run: RunJob, report: Report, check: Check, *, capacity: int, time_limit_s: int
    ) -> None:
        await self._objects.check()
        while not await self.secure(key):
            async with self._jobs.open(key, capacity, time_limit_s) as archive:
                # Whoever committed it meanwhile may not have seen what was opened just now.
                if await self.secure(key):
                    return
                try:
                    archived = await run_archiving(run, archive.grants, report)
                except LongerThanEstimated as error:
                    capacity = 2 * error.size  # not every filesystem reports its true size
                    continue
                except (ActionFailed, BackendUnreachable):
                    if await self.secure(key):
                        return
                    raise
                # What another controller has committed is not replaced.
                if await self.secure(key):
                    return
                await archive.accept(archived)
            await self._objects.make_durable(key)
            await self._commit(key, archived.content, check)
            return

    async def read_by_job(self, key: str, run: RunJob, report: Report, *, time_limit_s: int) -> None:
        meta = await self._meta_of(_check_key(key))
        grants = await self._jobs.read_grants(key, meta.content, time_limit_s)
        try:
            await run_restoring(run, grants, report)
        except ActionFailed as error:
            if error.reason is ErrorReason.DATA_LOST:
                await self._objects.check()
            raise

    async def head(self, key: str) -> Archive | None:
        if await self._commit_meta(_check_key(key)) is not None:
            return Archive(committed=True)
        object_meta = await self._objects.head(key)
        await self._objects.check()  # a disk that was unmounted meanwhile has lost nothing
        return None if object_meta is None else Archive(committed=False)

    async def has_any(self, workspace_id: UUID) -> bool:
        await self._objects.check()
        return bool(await self._objects.list_under(str(workspace_id)))

    async def list_all(self) -> Sequence[StoredArchive]:
        objects, _ = await asyncio.gather(self._objects.list_under(), self._objects.check())
        by_path = {entry["path"]: entry for entry in objects}
        # Looked for in the list itself: a disk that is unmounted meanwhile must not look like an empty one.
        if MARK not in by_path:
            raise BackendUnreachable(Message(Code.STORE_UNMARKED, {"place": self._objects.url, "mark": MARK}))
        return list(_group_archives(by_path))

    async def list_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        objects = await self._objects.list_under(str(workspace_id))
        archives = []
        for archive in _group_archives({entry["path"]: entry for entry in objects}):
            meta = await self._commit_meta(archive.key)
            if meta is None:
                archives.append(replace(archive, committed=False))
            else:
                content = meta[1]
                archives.append(
                    replace(
                        archive,
                        committed_at=content.committed_at,
                        is_empty=content.files == 0,
                        digest=content.sha256,
                    )
                )
        await self._objects.check()  # a disk that was unmounted meanwhile has lost nothing
        return archives

    async def delete(self, key: str) -> None:
        await self._objects.check()
        await self._delete(_check_key(key))

    async def purge(self, workspace_id: UUID) -> None:
        await self._objects.check()
        objects = await self._objects.list_under(str(workspace_id))
        for path in sorted((entry["path"] for entry in objects), key=lambda path: not path.endswith(_META)):
            await self._objects.delete(path)
        await in_thread(self._leftovers.remove, None, str(workspace_id))

    async def list_leftovers(self) -> Sequence[str]:
        await self._objects.check()
        return await in_thread(self._leftovers.names)

    async def remove_leftovers(self, older_than: datetime) -> int:
        await self._objects.check()
        return await in_thread(self._leftovers.remove, older_than)

    async def _unless_committed(
        self, key: str, parts: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(parts):
            async for part in parts:
                yield part
        # Another process may have continued this operation. What it has committed is not overwritten.
        if await self.secure(key):
            raise _AlreadyCommitted

    async def _read_back(self, key: str, content: Content, report: Report) -> None:
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            await self._objects.check()
            raise ActionFailed(Message(Code.ARCHIVE_NOT_THERE, {"key": key}))
        await verify_stored(key, parts, content, report)

    async def _commit(self, key: str, content: Content, check: Check) -> None:
        workspace_id, at = key.split("/", maxsplit=1)[0], await check()
        meta = Meta(**asdict(content), workspace_id=workspace_id, key=key, committed_at=at).encode()
        # A kill before this line leaves an incomplete archive, which does not count; after it, a complete
        # one.
        await self._objects.put(key + _META, meta)
        # A network disk may report a full volume only when the file is closed, and that error is lost.
        if await self._objects.get(key + _META) != meta:
            problem = Message(Code.CHECKSUM_WRONG)
            raise ActionFailed(Message(Code.ARCHIVE_NOT_AS_WRITTEN, {"key": key, "problem": problem}))

    async def _meta_of(self, key: str) -> Meta:
        text = await self._objects.get(key + _META)
        if text is None:
            await self._objects.check()
            raise ActionFailed(
                Message(Code.ARCHIVE_NOT_THERE, {"key": key}),
                reason=ErrorReason.DATA_LOST,
            )
        try:
            meta = decode(text)
        except UnknownMeta as error:
            raise corruption(key, error.message) from None
        if not meta.is_of(key):
            raise corruption(key, UnknownMeta(f"its .meta is that of {meta.key}").message)
        return meta

    async def _commit_meta(self, key: str) -> tuple[bytes, Meta] | None:
        """Return the `.meta` that commits the archive: it is readable, names this key, and fits the object's
        length.

        A `.meta` that is empty, cut, of another key, or without its object commits nothing. For one of a
        later format an error is raised: the archive is neither used nor given up.
        """
        text = await self._objects.get(key + _META)
        if text is None:
            return None
        try:
            meta = decode(text)
        except LaterMeta as error:
            raise corruption(key, error.message) from None
        except UnknownMeta:
            return None
        object_meta = await self._objects.head(key)
        is_complete = meta.is_of(key) and object_meta is not None and object_meta["size"] == meta.size
        return (text, meta) if is_complete else None

    async def _delete(self, key: str) -> None:
        await self._objects.delete(key + _META)
        await self._objects.delete(key)


def _group_archives(objects: Mapping[str, "ObjectMeta"]) -> Iterator[StoredArchive]:
    """Yield the archives among these objects, by the list alone.

    A cut `.meta` is not noticed: check it before deleting.
    """
    for key in {path.removesuffix(_META) for path in objects}:
        halves = [objects[path] for path in (key, key + _META) if path in objects]
        if ARCHIVE_KEY.fullmatch(key):
            modified_at = max(half["last_modified"] for half in halves)
            size = sum(half["size"] for half in halves)
            committed = all(path in objects and objects[path]["size"] for path in (key, key + _META))
            yield StoredArchive(key, size, modified_at, committed)


def _check_key(key: str) -> str:
    if not ARCHIVE_KEY.fullmatch(key):
        raise ValueError(f"not the key of an archive: {key!r}")
    return key
