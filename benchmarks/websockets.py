"""WebSockets for measuring: a server that echoes what comes after the upgrade, and a client that counts how often it comes back.

Frames are bytes to both: what is measured is the proxy between them. `echo PORT`, `count PORT CONNECTIONS SECONDS`, `hold PORT CONNECTIONS`.
"""

import asyncio
import sys
import time
from typing import cast

import uvloop
from benchmarks.proxy_peers import SESSION, WORKSPACE

MESSAGE = b"\x82\xbe\x00\x00\x00\x00" + b"m" * 62  # a masked binary frame of 62 bytes
UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
ASK = (
    f"GET /w/{WORKSPACE}/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: codehub_session={SESSION}\r\n\r\n"
).encode()


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = cast("asyncio.Transport", transport).write

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            self.write(data)
        elif b"\r\n\r\n" in data:
            self.is_open = True
            self.write(UPGRADED)


class Counter(asyncio.Protocol):
    """Sends one frame at a time, and the next when it has come back."""

    messages = 0

    def __init__(self, opened: "asyncio.Future[None]", *, talks: bool) -> None:
        self.opened = opened
        self.talks = talks
        self.left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = cast("asyncio.Transport", transport).write
        self.write(ASK)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            if not data.startswith(b"HTTP/1.1 101"):
                self.opened.set_exception(RuntimeError(data[:200]))
                return
            self.opened.set_result(None)
            if self.talks:
                self.left = len(MESSAGE)
                self.write(MESSAGE)
            return
        self.left -= len(data)
        if self.left == 0:
            Counter.messages += 1
            self.left = len(MESSAGE)
            self.write(MESSAGE)


async def connect(port: int, count: int, *, talks: bool) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        opened = loop.create_future()
        await loop.create_connection(lambda opened=opened: Counter(opened, talks=talks), "127.0.0.1", port)  # type: ignore[misc]
        await opened


async def run(what: str, port: int, *numbers: str) -> None:
    if what == "echo":
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=4096)
        await server.serve_forever()
    elif what == "hold":
        await connect(port, int(numbers[0]), talks=False)
        print("open", flush=True)
        await asyncio.Event().wait()
    else:
        await connect(port, int(numbers[0]), talks=True)
        before, began = Counter.messages, time.monotonic()
        await asyncio.sleep(float(numbers[1]))
        print((Counter.messages - before) / (time.monotonic() - began), Counter.messages, flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
