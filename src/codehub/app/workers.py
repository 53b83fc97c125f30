"""Edge processes: so many of them on one port, each with a socket of its own (SO_REUSEPORT). One that dies is replaced.

The sockets are ours: what a dead worker had not accepted yet waits for the next one. What a worker needs comes through its stdin, and the
end of that is its end, so none outlives us.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from codehub.adapters.system.machine import SystemTasks
from codehub.app.errors import CannotStart
from codehub.app.roles import supervised
from codehub.app.web import bound
from codehub.engine.system import System
from codehub.ports.system import Clock
from codehub.settings import Settings

log = structlog.get_logger()

_READY_S_MAX = 30.0
_AGAIN_S = 1.0
_END_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is told: which descriptor it listens on, which database, where the API is (a URL)."""

    listener: int
    port: int
    connect_args: Mapping[str, Any]
    api: str

    def to_json(self) -> str:
        told = {
            "listener": self.listener,
            "port": self.port,
            "connect_args": dict(self.connect_args),
            "api": self.api,
        }
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> "Orders":
        return cls(**json.loads(text))


@contextmanager
def shared_port(settings: Settings) -> Iterator[Sequence[socket.socket]]:
    """Take the port once for each worker; without any, once."""
    workers = settings.proxy_workers
    with ExitStack() as stack:
        first = stack.enter_context(bound(settings, is_shared=workers > 0))
        port = first.getsockname()[1]
        same = settings.model_copy(update={"port": port})
        yield [first, *(stack.enter_context(bound(same, is_shared=True)) for _ in range(workers - 1))]


@asynccontextmanager
async def edge_workers(
    listeners: Sequence[socket.socket], connect_args: Mapping[str, Any], api: str, system: System
) -> AsyncIterator[None]:
    """Run a worker on each listener until the end. Returns when all of them serve."""
    tasks = SystemTasks()
    serving = []
    try:
        for listener in listeners:
            listener.listen()
            orders = Orders(listener.fileno(), listener.getsockname()[1], connect_args, api)
            ready = asyncio.Event()
            serving.append(ready)
            keeping_up = supervised("edge-worker", partial(_keep_up, orders, ready, system.clock), system)
            tasks.spawn(keeping_up, name="edge-worker")
        await _until_all(serving)
        yield
    finally:
        await tasks.settle()


async def _until_all(serving: Sequence[asyncio.Event]) -> None:
    try:
        async with asyncio.timeout(_READY_S_MAX):
            for ready in serving:
                await ready.wait()
    except TimeoutError:
        raise CannotStart(
            f"not all edge workers serve after {_READY_S_MAX:g} s: the lines above say why, or CODEHUB_PROXY_WORKERS=0 does without"
        ) from None


async def _keep_up(orders: Orders, ready: asyncio.Event, clock: Clock) -> None:
    while True:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "codehub.app.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(orders.listener,),
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(orders.to_json().encode() + b"\n")
            if await process.stdout.readline() == b"ready\n":
                ready.set()
            code = await process.wait()
            log.warning("edge_worker_ended", pid=process.pid, code=code)
        finally:
            await _end(process)
        await clock.sleep(_AGAIN_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_END_S_MAX):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
