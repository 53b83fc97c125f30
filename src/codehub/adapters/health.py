"""An upstream and a path go in, the status of the answer comes out, or None: no answer in time. The rest of it is not read."""

import asyncio
import re
from typing import cast

from codehub.ports.instances import UnixUpstream, Upstream

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")
_PROBE_S = 2.0
_LINE_MAX = 1024


async def answer_status(upstream: Upstream, target: str, within_s: float = _PROBE_S) -> int | None:
    """Ask a server for a path."""
    loop = asyncio.get_running_loop()
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    probe = _Probe(request, loop.create_future())
    try:
        async with asyncio.timeout(within_s):
            if isinstance(upstream, UnixUpstream):
                transport, _ = await loop.create_unix_connection(lambda: probe, str(upstream.path))
            else:
                transport, _ = await loop.create_connection(lambda: probe, upstream.host, upstream.port)
            try:
                line = await probe.answered
            finally:
                transport.abort()
    except (OSError, TimeoutError):
        return None
    found = _STATUS.match(line)
    return None if found is None else int(found[1])


class _Probe(asyncio.Protocol):
    """One question, and the first line of its answer: hundreds are asked at once, and streams cost twice as much."""

    def __init__(self, request: bytes, answered: "asyncio.Future[bytes]") -> None:
        self._request = request
        self._heard = b""
        self.answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if b"\n" in self._heard or len(self._heard) > _LINE_MAX:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._end()

    def _end(self) -> None:
        if not self.answered.done():
            self.answered.set_result(self._heard)
