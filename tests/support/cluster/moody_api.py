"""A reverse proxy before a test cluster's API server: its kubeconfig goes in, another one comes out by which
requests are passed on, delayed, refused, left without an answer, or carried out and the answer lost.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.cluster.layout import Layout

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class Silence(Enum):
    BEFORE = "the request is not carried out"
    AFTER = "the request is carried out, and its answer is lost"


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


# Called with the head of each request; says which status to answer with, and so on. None passes it on.
Mood = Callable[[bytes], int | Silence | Delay | None]


def well(_head: bytes) -> None:
    """Pass all on."""


class MoodyApi:
    def __init__(self, layout: Layout, directory: Path) -> None:
        self.mood: Mood = well
        self.kubeconfig = directory / "moody.kubeconfig"
        where = urlsplit(layout.server)
        assert where.hostname is not None
        assert where.port is not None
        self._upstream = where.hostname, where.port
        self._trust = ssl.create_default_context(cafile=layout.keys / "ca.crt")
        self._identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._identity.load_cert_chain(layout.keys / "apiserver.crt", layout.keys / "apiserver.key")
        self._handling: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, kubeconfig: str) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._identity, limit=1 << 20)
        config = json.loads(kubeconfig)
        (cluster,) = config["clusters"]
        cluster["cluster"]["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.kubeconfig.write_text(json.dumps(config))
        try:
            yield
        finally:
            server.close()
            for task in (left := list(self._handling)):
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            async with AsyncExitStack() as ending:
                ending.callback(writer.close)
                with suppress(OSError, asyncio.IncompleteReadError):  # one of them has gone
                    await self._handle(reader, writer, ending)
        finally:
            self._handling.discard(task)

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ending: AsyncExitStack
    ) -> None:
        there_reader, there = await asyncio.open_connection(*self._upstream, ssl=self._trust)
        ending.callback(there.close)
        is_lost = asyncio.Event()
        answering = asyncio.ensure_future(_pass_answers(there_reader, writer, is_lost))
        ending.callback(answering.cancel)
        while True:
            head, body = await _request(reader)
            mood = self.mood(head)
            if isinstance(mood, int):
                writer.write(_refusal(mood))
                await writer.drain()
                return
            if isinstance(mood, Delay):
                await asyncio.sleep(mood.seconds)
            if isinstance(mood, Silence):
                is_lost.set()
            if mood is not Silence.BEFORE:
                there.write(head + body)
                await there.drain()
            if isinstance(mood, Silence):
                await reader.read()  # until whoever asks has enough
                return
            if _UPGRADE.search(head):
                await _pass_on(reader, there)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head, await reader.readexactly(int(length[1]) if length else 0)


async def _pass_answers(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_lost: asyncio.Event
) -> None:
    while part := await reader.read(1 << 16):
        if not is_lost.is_set():
            writer.write(part)
            await writer.drain()
    writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(1 << 16):
        writer.write(part)
        await writer.drain()


def _refusal(status: int) -> bytes:
    body = json.dumps({"kind": "Status", "code": status, "message": "in no mood", "reason": "x"}).encode()
    wait = "Retry-After: 1\r\n" if status == 429 else ""
    head = f"HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Type: application/json\r\n{wait}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
