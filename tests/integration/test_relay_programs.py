"""What connects inside an instance, run here: perl's and Python's do the same."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, within
from tests.support.ports import free_port

from codehub.adapters.byte_streams import write_all
from codehub.adapters.relay_program import CONNECTED, REFUSED, RelayStream, relay_script


@pytest.fixture(params=["perl", "python3"])
def only(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with one of the programs, and no other."""
    program = sys.executable if request.param == "python3" else shutil.which(request.param)
    if program is None:
        pytest.skip(f"there is no {request.param} here")
    (tmp_path / request.param).symlink_to(Path(program).resolve())
    return tmp_path


@asynccontextmanager
async def relayed(only: Path, port: int) -> AsyncIterator[RelayStream]:
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", relay_script(port)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": str(only)},
    )
    reader, writer = process.stdout, process.stdin
    assert reader is not None
    assert writer is not None
    try:
        async with within(PATIENCE_S):
            yield RelayStream(lambda: reader.read(1000), lambda data: write_all(writer, data))
            writer.close()
            await process.wait()  # the end of its input is its own
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def server(host: str, *, greets: bool = False) -> AsyncIterator[int]:
    """One that answers what it was sent once that has ended, or says hello first and ends its side."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if greets:
            writer.write(b"hello")
            writer.write_eof()
        data = await reader.read()
        heard.append(data)
        if not greets:
            await write_all(writer, data)
        writer.close()

    heard: list[bytes] = []
    listener = await asyncio.start_server(serve, host, 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]
    assert heard


async def read_all(stream: RelayStream) -> bytes:
    data = bytearray()
    while part := await stream.read():
        data += part
    return bytes(data)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_what_is_sent_arrives_and_comes_back(only: Path, host: str) -> None:
    data = sha256(host.encode()).digest() * 100_000
    async with server(host) as port, relayed(only, port) as stream:
        assert await stream.first_byte() == CONNECTED
        await stream.write(data)
        await stream.close()  # only then it is answered
        assert await read_all(stream) == data
        with pytest.raises(BrokenPipeError):
            await stream.write(b"more")


async def test_the_other_side_may_end_first(only: Path) -> None:
    async with server("127.0.0.1", greets=True) as port, relayed(only, port) as stream:
        assert await stream.first_byte() == CONNECTED
        assert await read_all(stream) == b"hello"
        await stream.write(b"thanks")
        await stream.close()


async def test_a_port_on_which_nothing_listens_is_refused(only: Path) -> None:
    async with relayed(only, free_port()) as stream:
        assert await stream.first_byte() == REFUSED
        assert await stream.read() == b""


async def test_an_image_with_neither_says_nothing(tmp_path: Path) -> None:
    async with relayed(tmp_path, 1) as stream:
        assert await stream.first_byte() == b""
