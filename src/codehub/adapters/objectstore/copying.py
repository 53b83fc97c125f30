"""An archive of one store goes into another, as it is: what was read must be what its `.meta` says, before it
counts there.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterator

from codehub.adapters.objectstore.meta import UnknownMeta, decode
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

_META = ".meta"


class ArchiveMissing(ActionFailed):
    """The archive is gone, or was never completed."""


async def copy_archive(source: Objects, target: Objects, key: str) -> int:
    """Copy it, unless it is there, and return its length.

    Raises NotThere; ActionFailed if it is not what its `.meta` says.
    """
    text = await source.get(key + _META)
    object_meta = await source.head(key)
    if text is None or object_meta is None:
        raise ArchiveMissing(Message(Code.ARCHIVE_NOT_THERE, {"key": key}))
    try:
        meta = decode(text)
    except UnknownMeta as error:
        raise ActionFailed(Message(Code.ARCHIVE_DAMAGED, {"key": key, "problem": error.message})) from None
    existing = await target.head(key)
    if await target.get(key + _META) == text and existing is not None and existing["size"] == meta.size:
        return meta.size
    await target.upload(key, _read_verified(source, key, meta.sha256, meta.size), lambda: meta.size)
    await target.make_durable(key)
    await target.put(key + _META, text)
    return meta.size


async def _read_verified(source: Objects, key: str, sha256: str, size: int) -> AsyncGenerator[bytes, None]:
    """Yield the object. Raises at its end, so that nothing of it stays, if it was another."""
    parts: Iterator[bytes] | None = await in_thread(source.download, key)
    if parts is None:
        raise ArchiveMissing(Message(Code.ARCHIVE_NOT_THERE, {"key": key}))
    digest, length = hashlib.sha256(), 0
    while part := await in_thread(next, parts, b""):
        await in_thread(digest.update, part)
        length += len(part)
        yield bytes(part)
    if (digest.hexdigest(), length) != (sha256, size):
        raise ActionFailed(
            Message(Code.ARCHIVE_DAMAGED, {"key": key, "problem": Message(Code.CHECKSUM_WRONG)})
        )
