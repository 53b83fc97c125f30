"""A home's tar stream goes in and an archive's bytes come out, or the other way round: wherever they lie,
and whichever process moves them. Refuses what could not be restored, and what is not what was written.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

from codehub.adapters.objectstore.codec import Download, Packer, Unpacker
from codehub.adapters.objectstore.meta import Content
from codehub.adapters.objectstore.scan import RefusedStream, TarScan, UnsupportedAttribute
from codehub.adapters.threads import begin, in_thread, wait_for, wait_until_done
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.archives import Attribute
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Amount, Report


@asynccontextmanager
async def open_packer(refused: Collection[Attribute], *, threads: int = -1) -> AsyncIterator[Packer]:
    """Yield a packer. What it refuses in this block is why the home is not archived."""
    packer = Packer(refused, threads=threads)
    try:
        yield packer
    except RefusedStream as error:
        raise ActionFailed(Message(Code.HOME_UNFIT, {"problem": error.message})) from None
    finally:
        await in_thread(packer.proof.abandon)


async def pack(tar: AsyncIterator[bytes], packer: Packer) -> AsyncGenerator[bytes, None]:
    """Yield the archive of a tar stream. It ends only when all of it was unpacked again."""
    async for part in tar:
        for chunk in await in_thread(packer.pack, part):
            yield chunk
    for chunk in await in_thread(packer.finish):
        yield chunk


async def verify_stored(key: str, parts: Iterator[bytes], content: Content, report: Report) -> None:
    """Check that the store returns what was written.

    If not, the home still exists, and the operation is repeated.
    """
    stored = Download(parts, content.size)
    try:
        while await in_thread(stored.read):
            report(Amount("verify", stored.size, content.size))
    except RefusedStream as error:
        raise _not_as_written(key, error.message) from None
    if (stored.sha256, stored.size) != (content.sha256, content.size):
        raise _not_as_written(key, Message(Code.CHECKSUM_WRONG))


async def unpack(
    key: str, parts: Iterator[bytes], content: Content, report: Report, refused: Collection[Attribute]
) -> AsyncGenerator[memoryview, None]:
    """Yield the tar stream of an archive, each part of it checked before, reading one part ahead."""
    scan = TarScan(members_max=content.files, outward_max=content.outward_links, refused=refused)
    try:
        stored = Download(parts, content.size)
        unpacker = Unpacker(stored, scan, content.uncompressed_size)
        next_part = begin(unpacker.next_part)
        try:
            while part := await wait_for(next_part):
                report(Amount("restore", stored.size, content.size))
                next_part = begin(unpacker.next_part)
                yield part
        finally:
            await wait_until_done(next_part)
        if (stored.sha256, stored.size) != (content.sha256, content.size):
            raise corruption(key, Message(Code.CHECKSUM_WRONG))
        if (unpacker.uncompressed_size, scan.members) != (content.uncompressed_size, content.files):
            problem = Message(Code.STREAM_REFUSED, {"text": "it holds less than its .meta says"})
            raise corruption(key, problem)
    except UnsupportedAttribute as error:
        raise ActionFailed(Message(Code.ARCHIVE_UNFIT, {"key": key, "problem": error.message})) from None
    except RefusedStream as error:
        raise corruption(key, error.message) from None


def corruption(key: str, problem: Message) -> ActionFailed:
    return ActionFailed(
        Message(Code.ARCHIVE_DAMAGED, {"key": key, "problem": problem}), reason=ErrorReason.ARCHIVE_CORRUPTED
    )


def _not_as_written(key: str, problem: Message) -> ActionFailed:
    return ActionFailed(Message(Code.ARCHIVE_NOT_AS_WRITTEN, {"key": key, "problem": problem}))
