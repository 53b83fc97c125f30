"""Docker's stream of a container's words goes in, the words come out. Each frame says which stream it is of and how long it is."""

import struct
from collections.abc import AsyncIterator

from aiohttp import StreamReader

HEADER = struct.Struct(">BxxxL")
STDOUT = 1


async def frames(stream: StreamReader) -> AsyncIterator[bytes]:
    """Yield what was said on both streams, in order."""
    while head := await _exactly(stream, HEADER.size):
        _, length = HEADER.unpack(head)
        yield await _exactly(stream, length)


async def _exactly(stream: StreamReader, length: int) -> bytes:
    """Return that many bytes, or nothing: the stream ends where its container does, perhaps in the middle of a frame."""
    found = b""
    while len(found) < length:
        part = await stream.read(length - len(found))
        if not part:
            return b""
        found += part
    return found
