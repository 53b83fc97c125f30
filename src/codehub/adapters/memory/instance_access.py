"""A way into instances in memory: commands are functions that it
was given, and a port is what one of them listens on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from signal import SIGCHLD, SIGCONT, SIGHUP, SIGKILL, SIGURG, SIGWINCH, Signals
from uuid import UUID

from codehub.adapters.byte_streams import BoundedPipe
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.instances import MemoryInstances
from codehub.core.messages import Code, Message
from codehub.ports.instance_access import (
    ByteStream,
    Command,
    CommandSession,
    ExitStatus,
    Listener,
    NoSuchCommand,
    NothingListens,
    NotRunning,
    TerminalSize,
)

HOME = "/home/coder"
_HARMLESS = frozenset({SIGCHLD, SIGCONT, SIGURG, SIGWINCH})


@dataclass(frozen=True, slots=True)
class MemoryStream:
    """One side of a connection, or what a command has for its streams."""

    source: BoundedPipe
    sink: BoundedPipe

    async def read(self) -> bytes:
        return await self.source.read()

    async def write(self, data: bytes) -> None:
        await self.sink.write(data)

    async def close(self) -> None:
        await self.sink.close()


Server = Callable[[ByteStream], Awaitable[None]]


@dataclass
class MemoryProcess:
    """A command that runs: what it was given, and what it may do."""

    pid: int
    processes: Mapping[int, "MemoryProcess"]
    """All that run."""
    command: Command
    ports: dict[int, Server]
    """What listens on the loopback of its instance."""
    status: asyncio.Future[ExitStatus]
    size: TerminalSize | None
    input: BoundedPipe = field(default_factory=BoundedPipe)
    output: BoundedPipe = field(default_factory=BoundedPipe)
    error_output: BoundedPipe = field(default_factory=BoundedPipe)
    handlers: dict[int, Callable[[], None]] = field(default_factory=dict)
    """What it does at a signal, instead of ending."""
    keeps_output_open: bool = False
    """As if it had left something behind that holds its output."""
    task: asyncio.Task[None] | None = None

    @property
    def directory(self) -> str:
        return self.command.directory or HOME

    def end(self, status: ExitStatus) -> None:
        if not self.status.done():
            self.status.set_result(status)
        if self.task is not None:
            self.task.cancel()

    def take(self, number: int) -> None:
        """Receive a signal."""
        if number != SIGKILL and number in self.handlers:
            self.handlers[number]()
        elif number not in _HARMLESS:
            self.end(ExitStatus.killed(number))


Program = Callable[[MemoryProcess], Awaitable[int]]


class MemorySession:
    """A CommandSession of a process in memory."""

    def __init__(self, process: MemoryProcess) -> None:
        self._process = process
        self.input = process.input
        self.output = process.output
        self.error_output = process.error_output

    async def resize(self, size: TerminalSize) -> None:
        if self._process.size is not None and not self._process.status.done():
            self._process.size = size
            self._process.take(SIGWINCH)

    async def send_signal(self, number: Signals) -> None:
        if not self._process.status.done():
            self._process.take(number)

    async def wait(self) -> ExitStatus:
        return await asyncio.shield(self._process.status)


class MemoryInstanceAccess:
    """An InstanceAccess in memory. A fault point is "access.exec", "access.relay" or "access.listening"."""

    def __init__(
        self,
        instances: MemoryInstances,
        programs: Mapping[str, Program],
        *,
        directories: frozenset[str] = frozenset({HOME, "/"}),
        faults: Faults = no_faults,
    ) -> None:
        self._instances = instances
        self._programs = programs
        self._directories = directories
        self._faults = faults
        self._pids = count(2)
        self._ports: dict[UUID, dict[int, Server]] = {}
        self._processes: dict[int, MemoryProcess] = {}

    def exec(self, workspace_id: UUID, command: Command) -> AbstractAsyncContextManager[CommandSession]:
        return self._exec(workspace_id, command)

    def relay(self, workspace_id: UUID, port: int) -> AbstractAsyncContextManager[ByteStream]:
        return self._relay(workspace_id, port)

    async def listening(self, workspace_id: UUID) -> Sequence[Listener]:
        await self._faults("access.listening")
        self._require_running(workspace_id)
        return [Listener(port, "serve") for port in sorted(self._ports.get(workspace_id, {}))]

    @asynccontextmanager
    async def _exec(self, workspace_id: UUID, command: Command) -> AsyncIterator[CommandSession]:
        await self._faults("access.exec")
        self._require_running(workspace_id)
        program = self._programs.get(command.argv[0])
        if program is None:
            raise NoSuchCommand(Message(Code.NO_SUCH_COMMAND, {"command": command.argv[0]}))
        if command.directory is not None and command.directory not in self._directories:
            raise NoSuchCommand(Message(Code.NO_SUCH_DIRECTORY, {"directory": command.directory}))
        status: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()
        ports = self._ports.setdefault(workspace_id, {})
        process = MemoryProcess(next(self._pids), self._processes, command, ports, status, command.terminal)
        if command.terminal is not None:
            process.error_output = process.output
        self._processes[process.pid] = process
        process.task = asyncio.create_task(self._run(process, program))
        async with self._at_its_end(workspace_id, lambda: process.end(ExitStatus.killed(SIGKILL))):
            session = MemorySession(process)
            if command.terminal is not None:
                session.error_output = _ended_pipe()
            try:
                yield session
            finally:
                process.take(SIGHUP)
                process.end(ExitStatus.killed(SIGKILL))
                await asyncio.wait([process.task])

    async def _run(self, process: MemoryProcess, program: Program) -> None:
        try:
            code = await program(process)
            process.end(ExitStatus(code))
        except BrokenPipeError:
            process.end(ExitStatus.killed(Signals.SIGPIPE))
        finally:
            self._processes.pop(process.pid, None)
            process.input.abandon()
            if not process.keeps_output_open:
                process.output.end()
                process.error_output.end()

    @asynccontextmanager
    async def _at_its_end(self, workspace_id: UUID, end: Callable[[], object]) -> AsyncIterator[None]:
        """Call `end` when the instance ends within the block."""
        async with self._instances.events() as events:

            async def follow() -> None:
                async for changed in events:
                    if changed == workspace_id and not self._is_running(workspace_id):
                        end()

            following = asyncio.create_task(follow())
            try:
                yield
            finally:
                following.cancel()

    @asynccontextmanager
    async def _relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        await self._faults("access.relay")
        self._require_running(workspace_id)
        server = self._ports.get(workspace_id, {}).get(port)
        if server is None:
            raise NothingListens(port)
        up, down = BoundedPipe(), BoundedPipe()

        async def serve() -> None:
            try:
                await server(MemoryStream(up, down))
            finally:
                up.abandon()
                down.end()

        serving = asyncio.create_task(serve())
        async with self._at_its_end(workspace_id, serving.cancel):
            try:
                yield MemoryStream(down, up)
            finally:
                serving.cancel()
                await asyncio.wait([serving])

    def _is_running(self, workspace_id: UUID) -> bool:
        instance = self._instances.by_workspace.get(workspace_id)
        return instance is not None and instance.running

    def _require_running(self, workspace_id: UUID) -> None:
        if not self._is_running(workspace_id):
            raise NotRunning


def _ended_pipe() -> BoundedPipe:
    pipe = BoundedPipe()
    pipe.end()
    return pipe
