"""A line to an engine that breaks: what a container is told on
its standard input is cut off after so many bytes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_HEAD_END = b"\r\n\r\n"


@asynccontextmanager
async def cut_line(engine: Path, socket: Path, input_bytes_max: int) -> AsyncIterator[str]:
    """Yield the address of the same engine over such a line. All else passes."""
    handling: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
        writer.write_eof()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handling.add(task)
        there_reader, there = await asyncio.open_unix_connection(engine)
        try:
            head = await reader.readuntil(_HEAD_END)
            there.write(head)
            answering = asyncio.ensure_future(pass_on(there_reader, writer))
            if b"/attach?" in head:
                there.write(await reader.readexactly(input_bytes_max))
                await there.drain()
                answering.cancel()
            else:
                await asyncio.gather(pass_on(reader, there), answering)
        except (OSError, asyncio.IncompleteReadError):
            return  # one of them has gone
        finally:
            there.close()
            writer.close()
            handling.discard(task)

    server = await asyncio.start_unix_server(handle, socket)
    try:
        yield f"unix://{socket}"
    finally:
        server.close()
        for task in (left := list(handling)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
