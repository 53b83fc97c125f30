"""A socket and a path go in, the status of the answer comes out, or None: no answer in time. The rest of it is not read."""

import asyncio
import re
from pathlib import Path

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")
_PROBE_S = 2.0
_LINE_MAX = 1024


async def answer_status(socket: Path, target: str, within_s: float = _PROBE_S) -> int | None:
    """Ask a server on a unix socket for a path."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_unix_connection(socket, limit=_LINE_MAX)
            try:
                writer.write(
                    f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                )
                line = await reader.readline()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, ValueError):
        return None
    found = _STATUS.match(line)
    return None if found is None else int(found[1])
