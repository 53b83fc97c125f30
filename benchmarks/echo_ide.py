"""A server that answers as an IDE for all instances at once: every request with 200 bytes, every WebSocket
with what it gets. `python -m benchmarks.echo_ide PORT`.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from tests.support.patience import block_until

_BODY = b"x" * 200
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
_UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
_UPGRADE = re.compile(rb"^upgrade:", re.IGNORECASE | re.MULTILINE)
_END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """Requests have no bodies here."""

    def __init__(self) -> None:
        self._is_upgraded = False
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_upgraded:
            self._transport.write(data)
            return
        self._pending += data
        while _END in self._pending and not self._is_upgraded:
            head, _, self._pending = self._pending.partition(_END)
            self._is_upgraded = _UPGRADE.search(head) is not None
            self._transport.write(_UPGRADED if self._is_upgraded else _ANSWER)


@contextmanager
def answering(port: int) -> Iterator[None]:
    """Run it in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.echo_ide", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            block_until(process.stdout.readline)
            yield
        finally:
            process.terminate()


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "0.0.0.0", port, backlog=4096)
    print("listens", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1])))
