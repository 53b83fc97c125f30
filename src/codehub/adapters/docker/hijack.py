"""A request goes in, the connection that the engine turns into a raw stream comes out. On the event loop."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from codehub.adapters.docker.address import engine_upstream
from codehub.adapters.docker.engine import DockerError, Engine
from codehub.ports.instances import UnixUpstream

_ANSWER_S_MAX = 60.0
_MESSAGE_BYTES_MAX = 1 << 16


@asynccontextmanager
async def hijack(
    engine: Engine, path: str, body: Mapping[str, Any]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield it. Raises DockerError if the engine refuses, and BackendUnreachable if it can't be asked."""
    with engine.report_outages():
        reader, writer = await _connect(engine.url)
    try:
        with engine.report_outages():
            async with asyncio.timeout(_ANSWER_S_MAX):
                await _ask(reader, writer, path, json.dumps(body).encode())
        yield reader, writer
    finally:
        writer.transport.abort()


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    upstream = engine_upstream(url)
    if isinstance(upstream, UnixUpstream):
        return await asyncio.open_unix_connection(upstream.path)
    return await asyncio.open_connection(upstream.host, upstream.port)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, content: bytes) -> None:
    writer.write(
        f"POST /{path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        + content
    )
    head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    status = int(head[0].split()[1])
    if status not in (HTTPStatus.SWITCHING_PROTOCOLS, HTTPStatus.OK):
        lengths = [line.split(b":")[1] for line in head if line.lower().startswith(b"content-length:")]
        length = min(int(lengths[0]), _MESSAGE_BYTES_MAX) if lengths else 0
        answer = await reader.readexactly(length)
        try:
            message = str(json.loads(answer)["message"])
        except (ValueError, KeyError, TypeError):
            message = answer.decode(errors="replace")
        raise DockerError(status, message)
