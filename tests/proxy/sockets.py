"""WebSockets through an edge, and what of their traffic was taken for use."""

import struct
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import UUID

from tests.support.edge import Talk
from tests.support.hub import COOKIE, ORIGIN, Hub

from codehub.core.workspace import Workspace
from codehub.proxy.policy.activity import Activity

BROWSER = "User-Agent: Mozilla/5.0"
QUIET = (BROWSER, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Sec-Fetch-Site: same-origin")


class Uses:
    """What would be written to the database."""

    def __init__(self) -> None:
        self.written: list[dict[UUID, datetime]] = []

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        self.written.append(dict(accesses))


async def counts(activity: Activity, uses: Uses) -> bool:
    """Whether something was used since the last time this was asked."""
    uses.written.clear()
    await activity.flush()
    return bool(uses.written)


def frame(payload: bytes, *, opcode: int = 2, masked: bool = False) -> bytes:
    mask = 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, mask | size])
    elif size < 1 << 16:
        head = bytes([0x80 | opcode, mask | 126]) + struct.pack(">H", size)
    else:
        head = bytes([0x80 | opcode, mask | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    key = b"\x01\x7f\x80\xff"
    return head + key + bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))


SYNC, PRINT = frame(b"sync", opcode=9, masked=True), frame(b"print", opcode=9, masked=True)


def socket_server(*printed: bytes) -> Callable[[Talk], Awaitable[None]]:
    """Return a server whose sockets say nothing by themselves, and these frames when asked to print."""

    async def serve(talk: Talk) -> None:
        while True:
            if b"Upgrade" not in await talk.head():
                await talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                continue
            await talk.send(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            )
            while part := await talk.reader.read(1 << 16):
                if SYNC in part:
                    await talk.send(frame(b"sync", opcode=10))
                if PRINT in part:
                    for line in printed:
                        await talk.send(line)

    return serve


async def socket(made: Hub, row: Workspace, path: str = "/ws") -> Talk:
    talk = await made.connect()
    lines = (
        "Host: hub.test",
        COOKIE,
        f"Origin: {ORIGIN}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        BROWSER,
    )
    more = ("Sec-WebSocket-Extensions: permessage-deflate", "", "")
    await talk.send("\r\n".join((f"GET /w/{row.id}{path} HTTP/1.1", *lines, *more)).encode())
    assert (await talk.head()).startswith(b"HTTP/1.1 101 ")
    assert b"permessage-deflate" not in b"".join(made.ide.received)
    return talk


async def synced(talk: Talk) -> None:
    """Return when everything that was sent has gone through."""
    await talk.send(SYNC)
    await talk.exactly(6)
