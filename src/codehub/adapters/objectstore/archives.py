"""A tar stream goes in, a committed archive comes out, and back. Refuses to count what was not read back whole, its `.meta` included."""

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
from codehub.adapters.objectstore.scan import Refused, TarScan, Unkept
from codehub.adapters.objectstore.store import MARK, Objects
from codehub.adapters.threads import begin, in_thread, wait_for, wait_until_done
from codehub.core.errors import ErrorReason
from codehub.core.observation import Archive
from codehub.ports.archives import ARCHIVE_KEY, Attribute, Check, Estimate, nobody_knows
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Report, StoredArchive

if TYPE_CHECKING:
    from obstore import ObjectMeta

_META = ".meta"


class _AlreadyCommitted(Exception):
    """Somebody else has finished the archive of this very operation meanwhile."""


class _Gone(Exception):
    """The object is not there."""


class ObjectArchives:
    """An archive is `home.tar.zst` and a `.meta`. Without its `.meta`, which is written last and fits the object, it does not count."""

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
        size: Estimate = nobody_knows,
        refused: Collection[Attribute] = (),
    ) -> None:
        await self._objects.check()
        if await self.secure(key):
            return
        packer = Packer(refused)
        try:
            async with aclosing(self._packed(key, tar, packer)) as packed:
                await self._objects.upload(key, packed, size)
        except _AlreadyCommitted:
            return
        except Refused as error:
            raise ActionFailed(f"the home could not be restored from its archive: {error}") from None
        finally:
            await in_thread(packer.proof.abandon)
        # The disk takes its time; reading back meanwhile costs none.
        durable = asyncio.ensure_future(self._objects.make_durable(key))
        try:
            await self._read_back(key, packer, report)
        finally:
            await wait_until_done(durable)
        await durable
        proved = packer.proof.scan
        meta = Meta(
            packer.sha256,
            packer.size,
            proved.members,
            packer.uncompressed_size,
            proved.outward,
            workspace_id=key.split("/", maxsplit=1)[0],
            key=key,
            committed_at=await check(),
        )
        # Dying before this line leaves half an archive, which does not count; after it, a whole one that is found again.
        await self._objects.put(key + _META, meta.encode())
        # A network disk may say of a full volume when the file is closed, which nobody hears.
        if await self._objects.get(key + _META) != meta.encode():
            raise ActionFailed(f"the archive {key} is not committed: its .meta is not what was written")

    async def secure(self, key: str) -> bool:
        if (meta := await self._committing(_valid(key))) is None:
            return False
        await self._objects.make_durable(key)
        await self._objects.renew(key + _META, meta[0])
        return True

    async def read(
        self, key: str, report: Report, *, refused: Collection[Attribute] = ()
    ) -> AsyncGenerator[memoryview, None]:
        meta = await self._meta_of(_valid(key))
        scan = TarScan(members_max=meta.files, outward_max=meta.outward_links, refused=refused)
        try:
            async with aclosing(self._parts(key, meta, scan, report)) as parts:
                async for part in parts:
                    yield part
        except Unkept as error:
            raise ActionFailed(f"the archive {key} can't be restored here: {error}") from None
        except Refused as error:
            raise _corrupted(key, str(error)) from None
        except _Gone:
            await self._objects.check()
            raise ActionFailed(f"the archive {key} is gone", reason=ErrorReason.DATA_LOST) from None

    async def head(self, key: str) -> Archive | None:
        if await self._committing(_valid(key)) is not None:
            return Archive(committed=True)
        found = await self._objects.head(key)
        await self._objects.check()  # a disk that went away meanwhile has lost nothing
        return None if found is None else Archive(committed=False)

    async def has_any(self, workspace_id: UUID) -> bool:
        await self._objects.check()
        return bool(await self._objects.list_under(str(workspace_id)))

    async def list_all(self) -> Sequence[StoredArchive]:
        found, _ = await asyncio.gather(self._objects.list_under(), self._objects.check())
        listed = {each["path"]: each for each in found}
        # In the list itself: a disk that goes away meanwhile must not look like an empty one.
        if MARK not in listed:
            raise BackendUnreachable(
                f"the list of archives does not have the file {MARK}: is the store mounted?"
            )
        return list(_listed(listed))

    async def list_of(self, workspace_id: UUID) -> Sequence[StoredArchive]:
        found = await self._objects.list_under(str(workspace_id))
        archives = []
        for archive in _listed({each["path"]: each for each in found}):
            meta = await self._committing(archive.key)
            if meta is None:
                archives.append(replace(archive, committed=False))
            else:
                said = meta[1]
                archives.append(
                    replace(
                        archive,
                        committed_at=said.committed_at,
                        is_empty=said.files == 0,
                        digest=said.sha256,
                    )
                )
        await self._objects.check()  # a disk that went away meanwhile has lost nothing
        return archives

    async def delete(self, key: str) -> None:
        await self._objects.check()
        await self._delete(_valid(key))

    async def purge(self, workspace_id: UUID) -> None:
        await self._objects.check()
        found = await self._objects.list_under(str(workspace_id))
        for path in sorted((each["path"] for each in found), key=lambda path: not path.endswith(_META)):
            await self._objects.delete(path)
        await in_thread(self._leftovers.remove, None, str(workspace_id))

    async def list_leftovers(self) -> Sequence[str]:
        await self._objects.check()
        return await in_thread(self._leftovers.names)

    async def remove_leftovers(self, older_than: datetime) -> int:
        await self._objects.check()
        return await in_thread(self._leftovers.remove, older_than)

    async def _packed(
        self, key: str, tar: AsyncIterator[bytes], packer: Packer
    ) -> AsyncGenerator[bytes, None]:
        async for part in tar:
            for packed in await in_thread(packer.pack, part):
                yield packed
        for packed in await in_thread(packer.finish):
            yield packed
        # Another process may have gone on with this operation. What it has committed is not written over.
        if await self.secure(key):
            raise _AlreadyCommitted

    async def _read_back(self, key: str, packer: Packer, report: Report) -> None:
        """Make sure that the store gives back what was unpacked and found good. The home is still there: it is tried again."""
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            await self._objects.check()
            raise ActionFailed(f"the archive {key} vanished before it was verified")
        stored = Download(parts, packer.size)
        try:
            while await in_thread(stored.read):
                report(Amount("verify", stored.size, packer.size))
        except Refused as error:
            raise ActionFailed(f"the archive {key} is not what was written: {error}") from None
        if (stored.sha256, stored.size) != (packer.sha256, packer.size):
            raise ActionFailed(f"the archive {key} is not what was written: its checksum is wrong")

    async def _parts(
        self, key: str, meta: Meta, scan: TarScan, report: Report
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the tar stream, one part ahead of whoever takes it. Raises _Gone or Refused."""
        parts = await in_thread(self._objects.download, key)
        if parts is None:
            raise _Gone
        stored = Download(parts, meta.size)
        unpacker = Unpacker(stored, scan, meta.uncompressed_size)
        following = begin(unpacker.next_part)
        try:
            while part := await wait_for(following):
                report(Amount("restore", stored.size, meta.size))
                following = begin(unpacker.next_part)
                yield part
        finally:
            await wait_until_done(following)
        if (stored.sha256, stored.size) != (meta.sha256, meta.size):
            raise Refused("its checksum is wrong")
        if (unpacker.uncompressed_size, scan.members) != (meta.uncompressed_size, meta.files):
            raise Refused("it holds less than its .meta says")

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
            raise _corrupted(key, str(error)) from None
        if not meta.is_of(key):
            raise _corrupted(key, f"its .meta is that of {meta.key}")
        return meta

    async def _committing(self, key: str) -> tuple[bytes, Meta] | None:
        """Return the `.meta` that makes the archive count: one that can be read and names this place, beside an object as long as it says.

        A `.meta` that is empty or cut, or of another place, or whose object is gone or another, keeps nobody's home. One of a later format says nothing
        to us: neither is it believed nor is its archive given up.
        """
        text = await self._objects.get(key + _META)
        if text is None:
            return None
        try:
            meta = decode(text)
        except LaterMeta as error:
            raise _corrupted(key, str(error)) from None
        except UnknownMeta:
            return None
        found = await self._objects.head(key)
        fits = meta.is_of(key) and found is not None and found["size"] == meta.size
        return (text, meta) if fits else None

    async def _delete(self, key: str) -> None:
        await self._objects.delete(key + _META)
        await self._objects.delete(key)


def _listed(objects: Mapping[str, "ObjectMeta"]) -> Iterator[StoredArchive]:
    """Yield the archives among these objects, by the list alone. It can't tell a `.meta` that was cut: whoever deletes by it looks closer."""
    for key in {path.removesuffix(_META) for path in objects}:
        halves = [objects[path] for path in (key, key + _META) if path in objects]
        if ARCHIVE_KEY.fullmatch(key):
            modified_at = max(half["last_modified"] for half in halves)
            size = sum(half["size"] for half in halves)
            committed = all(path in objects and objects[path]["size"] for path in (key, key + _META))
            yield StoredArchive(key, size, modified_at, committed)


def _valid(key: str) -> str:
    if not ARCHIVE_KEY.fullmatch(key):
        raise ValueError(f"not the key of an archive: {key!r}")
    return key


def _corrupted(key: str, why: str) -> ActionFailed:
    return ActionFailed(f"the archive {key} can't be trusted: {why}", reason=ErrorReason.ARCHIVE_CORRUPTED)
