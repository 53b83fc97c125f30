"""Edge processes: so many of them on one port, each with a socket of its own (SO_REUSEPORT where there are
several). One that dies is replaced.

The sockets are ours: what a dead worker had not accepted yet waits for the next one. What a worker needs
comes through its stdin, and the end of that is its end, so none outlives us. They are started before anybody
knows what to tell them: loading the program takes as long as the database does to come up.
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
from codehub.app.drain import Drain
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.server import bind_port
from codehub.app.supervisor import supervise
from codehub.engine.system import System
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.settings import Settings

log = structlog.get_logger()

READY_S_MAX = 60.0
_AGAIN_S = 1.0
_END_S_MAX = 5.0
DRAIN = b"drain\n"
"""The line that tells a worker to leave in order."""
PAGE = "page"
"""The word that a worker writes before the outcome of a page of an IDE: its parent has the metrics."""


@dataclass(frozen=True, slots=True)
class SharedConfig:
    """The configuration that all workers share: the database, and the URL of the API."""

    connect_args: Mapping[str, Any]
    api: str


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of one worker: its listening descriptor, the database, and the URL of the API."""

    listener: int
    port: int
    connect_args: Mapping[str, Any]
    api: str

    def to_json(self) -> str:
        content = {
            "listener": self.listener,
            "port": self.port,
            "connect_args": dict(self.connect_args),
            "api": self.api,
        }
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> "WorkerConfig":
        return cls(**json.loads(text))


@contextmanager
def shared_port(settings: Settings) -> Iterator[Sequence[socket.socket]]:
    """Bind the port once for each worker.

    A single worker does not share it: then a port in use is an error.
    """
    workers = settings.proxy_workers
    with ExitStack() as stack:
        first = stack.enter_context(bind_port(settings, is_shared=workers > 1))
        port = first.getsockname()[1]
        resolved = settings.model_copy(update={"port": port})
        yield [first, *(stack.enter_context(bind_port(resolved, is_shared=True)) for _ in range(workers - 1))]


class EdgeWorkers:
    """A worker on each listener. They load at once, and serve once they get their configuration."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        system: System,
        *,
        ready_s_max: float = READY_S_MAX,
        metrics: Metrics | None = None,
    ) -> None:
        self._system = system
        self._metrics = metrics or NoMetrics()
        self._ready_s_max = ready_s_max
        self._tasks = SystemTasks()
        self._config: asyncio.Future[SharedConfig] = asyncio.get_running_loop().create_future()
        self._serving: list[asyncio.Event] = []
        self._listeners = listeners
        self._processes: set[asyncio.subprocess.Process] = set()
        self._leave_asked = asyncio.Event()
        for listener in listeners:
            listener.listen()
            ready = asyncio.Event()
            self._serving.append(ready)
            work = supervise("edge-worker", partial(self._run_worker, listener, ready), system)
            self._tasks.spawn(work, name="edge-worker")

    @asynccontextmanager
    async def serving(self, connect_args: Mapping[str, Any], api: str) -> AsyncIterator[None]:
        """Make them serve until the end of the block. Yields when all of them do."""
        self._config.set_result(SharedConfig(connect_args, api))
        try:
            await self._wait_for_all()
            yield
        finally:
            await self.end()

    async def leave(self, drain: Drain) -> None:
        """Have them leave in order, and return when they have."""
        self._leave_asked.set()
        for process in self._processes:
            if process.returncode is None:  # else its pipe is closed
                assert process.stdin is not None
                process.stdin.write(DRAIN)
        await self._system.clock.sleep(drain.notice_s)
        for listener in self._listeners:
            listener.close()  # theirs are closed too: else the kernel would go on taking connections
        with suppress(TimeoutError):
            async with asyncio.timeout(drain.rest_s + _END_S_MAX):
                await asyncio.gather(*(process.wait() for process in list(self._processes)))

    async def end(self) -> None:
        """End them, whether they serve or have nothing to do yet."""
        await self._tasks.cancel_all()

    async def _wait_for_all(self) -> None:
        try:
            async with asyncio.timeout(self._ready_s_max):
                for ready in self._serving:
                    await ready.wait()
        except TimeoutError:
            raise CannotStart(say("no_workers", seconds=self._ready_s_max)) from None

    async def _run_worker(self, listener: socket.socket, ready: asyncio.Event) -> None:
        while not self._leave_asked.is_set():
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "codehub.app.edge_process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=(listener.fileno(),),
                start_new_session=True,  # Ctrl-C is for the parent: it stops the workers in order
            )
            self._processes.add(process)
            counting: asyncio.Task[None] | None = None
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                shared = await asyncio.shield(self._config)
                config = WorkerConfig(
                    listener.fileno(), listener.getsockname()[1], shared.connect_args, shared.api
                )
                process.stdin.write(config.to_json().encode() + b"\n")
                if self._leave_asked.is_set():  # since it was started
                    process.stdin.write(DRAIN)
                if await process.stdout.readline() == b"ready\n":
                    ready.set()
                    # Not waited for: who else has its end of the pipe keeps nobody from replacing it.
                    counting = self._tasks.spawn(self._count_pages(process.stdout), name="edge-pages")
                code = await process.wait()
                if not self._leave_asked.is_set():
                    log.warning("edge_worker_ended", pid=process.pid, code=code)
            finally:
                if counting is not None:
                    counting.cancel()
                self._processes.discard(process)
                await _end(process)
            await self._system.clock.sleep(_AGAIN_S)

    async def _count_pages(self, output: asyncio.StreamReader) -> None:
        """Count what a worker says of pages, until it ends."""
        while line := await output.readline():
            word, _, outcome = line.decode().strip().partition(" ")
            if word == PAGE:
                self._metrics.count_page(outcome)


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
