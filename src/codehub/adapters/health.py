"""An upstream and a path go in, the status of the answer comes out, or None: no answer in time. The rest of it is not read."""

import asyncio
import re

from codehub.ports.instances import UnixUpstream, Upstream

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")
_PROBE_S = 2.0
_LINE_MAX = 1024


async def answer_status(upstream: Upstream, target: str, within_s: float = _PROBE_S) -> int | None:
    """Ask a server for a path."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await _connected(upstream)
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


async def _connected(upstream: Upstream) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(upstream, UnixUpstream):
        return await asyncio.open_unix_connection(upstream.path, limit=_LINE_MAX)
    return await asyncio.open_connection(upstream.host, upstream.port, limit=_LINE_MAX)
