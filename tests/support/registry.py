"""A registry for tests: Debian's docker-registry on a free loopback
port, which Docker trusts without TLS. Ends with the block.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.support.patience import until
from tests.support.ports import free_port

REGISTRY = pytest.mark.skipif(
    shutil.which("docker-registry") is None, reason="docker-registry is not installed"
)

_CONFIG = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""
_TRICKLE_S = 0.25
_PART, _DROP = 1 << 16, 1 << 12
_AUTH = "auth: {{htpasswd: {{realm: test, path: {path}}}}}"


@asynccontextmanager
async def running_registry(
    directory: Path, *, storage: Path | None = None, closed: bool = False, members: str = ""
) -> AsyncIterator[str]:
    """Yield its address. A closed one lets its members in, lines as htpasswd has them, and nobody else."""
    port, auth = free_port(), ""
    if closed:
        (directory / "htpasswd").write_text(members)
        auth = _AUTH.format(path=directory / "htpasswd")
    config = directory / "registry.yml"
    config.write_text(_CONFIG.format(root=storage or directory / "registry", port=port, auth=auth))
    program = shutil.which("docker-registry")
    assert program is not None
    with (directory / "registry.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program, "serve", config, stdout=log, stderr=log)
    try:
        async with httpx.AsyncClient() as client:
            await until(lambda: _answers(client, port))
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def slow_line(address: str, after_bytes: int) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Yield another address of the same server. From there an answer only
    trickles after so many bytes, until the event is set.
    """
    host, port = address.split(":")
    is_fast, open_writers = asyncio.Event(), set[asyncio.StreamWriter]()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bytes_max: int) -> None:
        passed = 0
        while part := await reader.read(_PART if passed <= bytes_max else _DROP):
            writer.write(part)
            await writer.drain()
            passed += len(part)
            if passed > bytes_max:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_fast.wait(), _TRICKLE_S)
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection(host, int(port))
        open_writers.update((writer, there))
        asking, answering = (reader, there, 1 << 40), (there_reader, writer, after_bytes)
        await asyncio.gather(pass_on(*asking), pass_on(*answering), return_exceptions=True)

    server = await asyncio.start_server(handle, host, 0)
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}", is_fast
    finally:
        is_fast.set()
        server.close()
        for writer in open_writers:
            writer.close()
        await server.wait_closed()


async def _answers(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/v2/")).status_code in (200, 401)
    except httpx.TransportError:
        return False
