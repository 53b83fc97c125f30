"""Writes tar streams as committed archives, and reads them. An archive counts only after it was read back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.adapters.objectstore.codec import Download, Packer, Unpacker
from codehub.adapters.objectstore.leftovers import Leftovers
from codehub.adapters.objectstore.meta import LaterMeta, Meta, UnknownMeta, decode
from codehub.adapters.objectstore.scan import RefusedStream, TarScan, UnsupportedAttribute
from codehub.adapters.objectstore.store import MARK, Objects
from codehub.adapters.threads import begin, in_thread, wait_for, wait_until_done
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive
from codehub.ports.archives import ARCHIVE_KEY, Attribute, Check, Estimate, unknown_size
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Report, StoredArchive

if TYPE_CHECKING:
    from obstore import ObjectMeta

_META = ".meta"


class _AlreadyCommitted(Exception):
    """Another process has finished the archive of this operation meanwhile."""


class _ObjectMissing(Exception):
    """The object is not there."""


class ObjectArchives:
    """An archive is `home.tar.zst` and a `.meta`.

    Without its `.meta`, which is written last and fits the object, it does not count.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._leftovers = Leftovers(objects)

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
        packer = Packer(refused)
        try:
            async with aclosing(self._pack(key, tar, packer)) as parts:
                await self._objects.upload(key, parts, size)
        except _AlreadyCommitted:
            return
        except RefusedStream as error:
            raise ActionFailed(f"the home could not be restored from its archive: {error}") from None
        finally:
            await in_thread(packer.proof.abandon)
        # Flushing the disk takes a while; the archive is read back meanwhile.
        durable = asyncio.ensure_future(self._objects.make_durable(key))
        try:
            await self._read_back(key, packer, report)
        finally:
            await wait_until_done(durable)
        await durable
        scan = packer.proof.scan
        meta = Meta(
            packer.sha256,
            packer.size,
            scan.members,
            packer.uncompressed_size,
            scan.outward,
            workspace_id=key.split("/", maxsplit=1)[0],
            key=key,
            committed_at=await check(),
        )
        # A kill before this line leaves an incomplete archive, which does not count; after it, a complete
        # one.
        await self._objects.put(key + _META, meta.encode())
        # A network disk may report a full volume only when the file is closed, and that error is lost.
        if await self._objects.get(key + _META) != meta.encode():
            raise ActionFailed(f"the archive {key} is not committed: its .meta is not what was written")

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
        scan = TarScan(members_max=meta.files, outward_max=meta.outward_links, refused=refused)
        try:
            async with aclosing(self._parts(key, meta, scan, report)) as parts:
                async for part in parts:
                    yield part
        except UnsupportedAttribute as error:
            raise ActionFailed(f"the archive {key} can't be restored here: {error}") from None
        except RefusedStream as error:
            raise _corruption(key, str(error)) from None
        except _ObjectMissing:
            await self._objects.check()
            raise ActionFailed(f"the archive {key} is gone", reason=ErrorReason.DATA_LOST) from None

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
            raise BackendUnreachable(
                f"the list of archives does not have the file {MARK}: is the store mounted?"
            )
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

    async def _pack(self, key: str, tar: AsyncIterator[bytes], packer: Packer) -> AsyncGenerator[bytes, None]:
        async for part in tar:
            for chunk in await in_thread(packer.pack, part):
                yield chunk
        for chunk in await in_thread(packer.finish):
            yield chunk
        # Another process may have continued this operation. What it has committed is not overwritten.
        if await self.secure(key):
            raise _AlreadyCommitted

    async def _read_back(self, key: str, packer: Packer, report: Report) -> None:
        """Check that the store returns what was written.

        If not, the home still exists, and the operation is repeated.
        """
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            await self._objects.check()
            raise ActionFailed(f"the archive {key} vanished before it was verified")
        stored = Download(parts, packer.size)
        try:
            while await in_thread(stored.read):
                report(Amount("verify", stored.size, packer.size))
        except RefusedStream as error:
            raise ActionFailed(f"the archive {key} is not what was written: {error}") from None
        if (stored.sha256, stored.size) != (packer.sha256, packer.size):
            raise ActionFailed(f"the archive {key} is not what was written: its checksum is wrong")

    async def _parts(
        self, key: str, meta: Meta, scan: TarScan, report: Report
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the tar stream, reading one part ahead. Raises _ObjectMissing or RefusedStream."""
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            raise _ObjectMissing
        stored = Download(parts, meta.size)
        unpacker = Unpacker(stored, scan, meta.uncompressed_size)
        next_part = begin(unpacker.next_part)
        try:
            while part := await wait_for(next_part):
                report(Amount("restore", stored.size, meta.size))
                next_part = begin(unpacker.next_part)
                yield part
        finally:
            await wait_until_done(next_part)
        if (stored.sha256, stored.size) != (meta.sha256, meta.size):
            raise RefusedStream("its checksum is wrong")
        if (unpacker.uncompressed_size, scan.members) != (meta.uncompressed_size, meta.files):
            raise RefusedStream("it holds less than its .meta says")

    async def _meta_of(self, key: str) -> Meta:
        text = await self._objects.get(key + _META)
        if text is None:
            await self._objects.check()
            raise ActionFailed(
                f"the archive {key} is gone, or was never completed: there is no .meta",
                reason=ErrorReason.DATA_LOST,
            )
        try:
            meta = decode(text)
        except UnknownMeta as error:
            raise _corruption(key, str(error)) from None
        if not meta.is_of(key):
            raise _corruption(key, f"its .meta is that of {meta.key}")
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
            raise _corruption(key, str(error)) from None
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


def _corruption(key: str, reason: str) -> ActionFailed:
    return ActionFailed(f"the archive {key} can't be trusted: {reason}", reason=ErrorReason.ARCHIVE_CORRUPTED)
