"""Docker's stream of a container's words goes in, the words come out. Each frame says which stream it is of and how long it is."""

import asyncio
import struct
from collections.abc import AsyncIterator

HEADER = struct.Struct(">BxxxL")
STDOUT = 1
_READ_MAX = 1 << 16


async def frames(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield what was said on both streams, in order: as much at once as has come. The stream ends where its container does, perhaps in the
    middle of a frame."""
    data, left = b"", 0
    while part := await stream.read(_READ_MAX):
        data = data + part if data else part
        words: list[bytes] = []
        position = 0
        while position < len(data) and (left or len(data) - position >= HEADER.size):
            if not left:
                left = HEADER.unpack_from(data, position)[1]
                position += HEADER.size
            words.append(data[position : position + left])
            position += len(words[-1])
            left -= len(words[-1])
        data = data[position:]
        yield b"".join(words)
        await asyncio.sleep(0)  # there may be more at once: others come first
