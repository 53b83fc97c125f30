"""Docker's stream of a container's output goes in, the output comes out.

A frame has a stream number and a length.
"""

import asyncio
import struct
from collections.abc import AsyncIterator

HEADER = struct.Struct(">BxxxL")
STDOUT = 1
_READ_MAX = 1 << 16


async def frames(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the output of both streams, in order, as much at once as has arrived.

    The stream ends when its container does, perhaps in the middle of a frame."""
    data, remaining = b"", 0
    while part := await stream.read(_READ_MAX):
        data = data + part if data else part
        payloads: list[bytes] = []
        position = 0
        while position < len(data) and (remaining or len(data) - position >= HEADER.size):
            if not remaining:
                remaining = HEADER.unpack_from(data, position)[1]
                position += HEADER.size
            payloads.append(data[position : position + remaining])
            position += len(payloads[-1])
            remaining -= len(payloads[-1])
        data = data[position:]
        yield b"".join(payloads)
        await asyncio.sleep(0)  # let other tasks run first, even if more data is ready
