"""A reverse proxy for S3 that answers some requests with an error of its
own and passes the others on as they are, one per connection.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

# Called with the head of each request; says which status to answer with, or None to pass it on.
Mood = Callable[[bytes], int | None]
_REFUSALS = {400: "InvalidArgument", 413: "EntityTooLarge", 501: "NotImplemented"}

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@asynccontextmanager
async def flaky_proxy(upstream: str, mood: Mood, *, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Yield its address."""
    where = urlsplit(upstream)

    handling: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        there = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if (status := mood(head)) is not None:
                refusal = f"<Error>\n<Code>{_REFUSALS.get(status, 'SlowDown')}</Code></Error>".encode()
                head_of_refusal = (
                    f"HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {len(refusal)}\r\n\r\n"
                )
                writer.write(head_of_refusal.encode() + (b"" if head.startswith(b"HEAD") else refusal))
                return
            there_reader, there = await asyncio.open_connection(where.hostname, where.port)
            there.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
            while part := await there_reader.read(1 << 16):
                writer.write(part)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return  # one of them has gone
        finally:
            writer.close()
            if there is not None:
                there.close()
            handling.discard(task)

    server = await asyncio.start_server(handle, host, 0, limit=1 << 20)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in (left := list(handling)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await server.wait_closed()
