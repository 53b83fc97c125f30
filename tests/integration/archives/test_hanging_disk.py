"""A disk that does not answer any more, as a dead network mount
does: who looks at it is told soon, and costs one thread.
"""

import asyncio
import fcntl
import sys
import termios
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.patience import PATIENCE_S, until
from tests.support.storages import OnThisMachine

from codehub.adapters.docker.attach import AttachedStreams
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.job import Job
from codehub.adapters.local.programs import PIPE_BYTES, Program, run_program
from codehub.adapters.threads import in_thread
from codehub.core.observation import Volume
from codehub.ports.backends import BackendUnreachable


async def test_a_look_at_a_disk_that_hangs_can_be_given_up_and_the_next_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await OnThisMachine.prepared(tmp_path)
    homes = machine.local.homes
    answers, asked = threading.Event(), 0

    def hang() -> Mapping[UUID, Volume]:
        nonlocal asked
        asked += 1
        answers.wait()
        return {}

    monkeypatch.setattr(homes, "list_all", hang)
    try:
        looking = asyncio.ensure_future(machine.provider.list_volumes())
        await until(lambda: asked == 1)
        looking.cancel()  # as a deadline would
        with pytest.raises(asyncio.CancelledError):
            await looking
        for _ in range(100):
            with pytest.raises(BackendUnreachable, match="NotAnswering"):
                await machine.provider.list_volumes()
        assert asked == 1
    finally:
        answers.set()

    async def lists_volumes_again() -> bool:
        try:
            return await machine.provider.list_volumes() == {}
        except BackendUnreachable:
            return False

    await until(lists_volumes_again)


async def test_a_program_whose_disk_hangs_is_killed_when_whoever_feeds_it_gives_up() -> None:
    fed: asyncio.Future[Program] = asyncio.get_running_loop().create_future()

    async def feed() -> None:
        async with run_program(("sleep", "infinity"), feeds_it=True) as program:
            fed.set_result(program)
            await program.write(memoryview(bytes(4 * PIPE_BYTES)))  # more than a pipe takes

    feeding = asyncio.ensure_future(feed())
    program = await fed
    await until(lambda: _held_by(program.pipe) > 0)
    feeding.cancel()
    try:
        await asyncio.wait([feeding], timeout=PATIENCE_S)
        assert feeding.cancelled()
    finally:
        program.kill()


@pytest.mark.parametrize(
    "ask",
    [lambda job: job.write(memoryview(bytes(64 << 20))), lambda job: job.read_output()],
    ids=["giving", "listening"],
)
async def test_an_engine_that_hangs_is_left_when_whoever_asks_it_gives_up(
    tmp_path: Path, ask: Callable[[Job], Coroutine[Any, Any, object]]
) -> None:
    hung, release = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
        hung.set()
        await release.wait()
        writer.close()

    url = f"unix://{tmp_path / 'docker.sock'}"
    async with await asyncio.start_unix_server(hang, tmp_path / "docker.sock"):
        streams = await in_thread(AttachedStreams, url, "a-container")
        asking = asyncio.ensure_future(
            ask(Job(Engine(url, installation="ours"), "a-container", streams, streams))
        )
        await hung.wait()
        await asyncio.sleep(0)  # so that it asks
        asking.cancel()
        try:
            await asyncio.wait([asking], timeout=PATIENCE_S)
            assert asking.cancelled()
        finally:
            streams.disconnect()
            streams.close()
            release.set()


def _held_by(pipe: int) -> int:
    """Return how many bytes nobody has taken out of a pipe yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
