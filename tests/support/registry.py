"""A registry for tests: Debian's docker-registry on a free loopback port, which Docker trusts without TLS. Ends with the block."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

_CONFIG = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""
_AUTH = "auth: {{htpasswd: {{realm: test, path: {path}}}}}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def running_registry(directory: Path, *, closed: bool = False, members: str = "") -> AsyncIterator[str]:
    """Yield its address. A closed one lets its members in, lines as htpasswd has them, and nobody else."""
    port, auth = free_port(), ""
    if closed:
        (directory / "htpasswd").write_text(members)
        auth = _AUTH.format(path=directory / "htpasswd")
    config = directory / "registry.yml"
    config.write_text(_CONFIG.format(root=directory / "registry", port=port, auth=auth))
    program = shutil.which("docker-registry")
    assert program is not None
    with (directory / "registry.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program, "serve", config, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(20), httpx.AsyncClient() as client:
            while not await _answers(client, port):  # noqa: ASYNC110  # a server sets no asyncio.Event
                await asyncio.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _answers(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/v2/")).status_code in (200, 401)
    except httpx.TransportError:
        return False
