"""A container and a command go in, a session over the engine's exec comes out.

The engine can't signal what it runs, and lets it run on when its caller goes. So
beside each command a second, small one waits in the same container: it signals the
command when it is told to, and ends it when its own input ends.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from signal import SIGKILL, Signals

from codehub.adapters.byte_streams import BoundedPipe, NoBytes, write_all
from codehub.adapters.command_script import (
    KEEPER,
    REPORT_BYTES_MAX,
    Process,
    check_report,
    environment_of,
    shell_argv,
)
from codehub.adapters.docker.containers import HOME, UID
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, refusal
from codehub.adapters.docker.frames import HEADER, STDOUT
from codehub.adapters.docker.hijack import hijack
from codehub.adapters.threads import wait_until_done
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import (
    ByteSource,
    Command,
    ExitStatus,
    NotRunning,
    TerminalSize,
)

_READ_MAX = 1 << 16
_ENDING_POLL_S = 0.05


@asynccontextmanager
async def exec_session(engine: Engine, container_id: str, command: Command) -> AsyncIterator["ExecSession"]:
    """Run it. Raises NoSuchCommand or NotRunning."""
    try:
        exec_id = await _create(
            engine,
            container_id,
            shell_argv(command, HOME, reports_to_output=True),
            environment=environment_of(command),
            has_terminal=command.terminal is not None,
        )
        has_terminal = command.terminal is not None
        start = {"Detach": False, "Tty": has_terminal}
        async with hijack(engine, f"exec/{exec_id}/start", start) as streams:
            session = ExecSession(engine, container_id, exec_id, *streams, has_terminal=has_terminal)
            try:
                await session.begin(command)
                yield session
            finally:
                await session.leave()
    except DockerError as error:
        raise _reason(error) from None


class ExecSession:
    """A CommandSession over one connection: what is unread of one output holds up the other, too."""

    def __init__(
        self,
        engine: Engine,
        container_id: str,
        exec_id: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        has_terminal: bool,
    ) -> None:
        self._engine = engine
        self._container_id = container_id
        self._exec_id = exec_id
        self._reader = reader
        self._has_terminal = has_terminal
        self._output, self._errors = BoundedPipe(), BoundedPipe()
        self.input = _Input(writer, is_terminal=has_terminal)
        self.output: ByteSource = self._output
        self.error_output: ByteSource = NoBytes() if has_terminal else self._errors
        self._keeper_input: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._status: asyncio.Task[ExitStatus] | None = None
        self._is_disconnected = asyncio.Event()
        self._is_kept = asyncio.Event()

    async def begin(self, command: Command) -> None:
        self._tasks.append(asyncio.create_task(self._read_output()))
        report, rest = b"", b""
        while b"\n" not in report and len(report) < REPORT_BYTES_MAX and (part := await self._output.read()):
            report += part
        report, _, rest = report.partition(b"\n")
        process = check_report(command, report)
        if process is None:
            raise NotRunning
        self._output.put_back(rest)
        self._status = asyncio.create_task(self._until_ended())
        if command.terminal is not None:
            await self.resize(command.terminal)  # where there is no stty; else it changes nothing
        self._tasks.append(asyncio.create_task(self._keep(process)))

    async def resize(self, size: TerminalSize) -> None:
        if self._has_terminal:
            with suppress(DockerError):  # it has ended
                path = f"exec/{self._exec_id}/resize"
                await self._engine.ask("POST", path, h=size.rows, w=size.columns)

    async def send_signal(self, number: Signals) -> None:
        self._keeper_input.put_nowait(b"%d\n" % number)

    async def wait(self) -> ExitStatus:
        assert self._status is not None
        return await asyncio.shield(self._status)

    async def leave(self) -> None:
        if self._status is not None and not self._status.done():
            await wait_until_done(asyncio.ensure_future(self._is_kept.wait()))  # or nobody would end it
        tasks = [*self._tasks, *([] if self._status is None else [self._status])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_output(self) -> None:
        try:
            if self._has_terminal:
                while part := await self._reader.read(_READ_MAX):
                    await self._output.write(part)
            else:
                while True:
                    kind, size = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                    pipe = self._output if kind == STDOUT else self._errors
                    while size:
                        part = await self._reader.read(min(size, _READ_MAX))
                        if not part:
                            return
                        size -= len(part)
                        await pipe.write(part)
        except (OSError, asyncio.IncompleteReadError):
            return  # the end, or the engine has gone: its exit status is still to be asked
        finally:
            self._output.end()
            self._errors.end()
            self._is_disconnected.set()

    async def _until_ended(self) -> ExitStatus:
        """Ask how it ended. The engine closes the connection then, even if something holds the output
        open.
        """
        await self._is_disconnected.wait()
        while True:
            try:
                outcome = await self._engine.ask("GET", f"exec/{self._exec_id}/json")
            except DockerError as error:
                if error.status in (NOT_FOUND, CONFLICT):  # it went with its container
                    return ExitStatus.killed(SIGKILL)
                raise refusal(error) from None
            if not outcome["Running"] and outcome["ExitCode"] is not None:
                return ExitStatus.from_shell(outcome["ExitCode"])
            await asyncio.sleep(_ENDING_POLL_S)

    async def _keep(self, process: Process) -> None:
        """Run the keeper until the command has ended. Cancelled, the keeper ends the command."""
        argv = ["/bin/sh", "-c", KEEPER]
        try:
            exec_id = await _create(self._engine, self._container_id, argv)
            async with hijack(self._engine, f"exec/{exec_id}/start", {"Detach": False, "Tty": False}) as (
                _,
                writer,
            ):
                await write_all(writer, process.line)
                self._is_kept.set()
                assert self._status is not None
                self._status.add_done_callback(lambda _: self._keeper_input.put_nowait(b"end\n"))
                while True:
                    await write_all(writer, await self._keeper_input.get())
        except (DockerError, ActionFailed, BackendUnreachable, BrokenPipeError):
            return  # the container has ended
        finally:
            self._is_kept.set()


class _Input:
    def __init__(self, writer: asyncio.StreamWriter, *, is_terminal: bool) -> None:
        self._writer = writer
        self._is_terminal = is_terminal

    async def write(self, data: bytes) -> None:
        await write_all(self._writer, data)

    async def close(self) -> None:
        if not self._is_terminal and not self._writer.is_closing():
            self._writer.write_eof()


async def _create(
    engine: Engine,
    container_id: str,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    has_terminal: bool = False,
) -> str:
    body = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": has_terminal,
        "User": f"{UID}:{UID}",
        "Env": [f"{name}={value}" for name, value in (environment or {}).items()],
        "Cmd": list(argv),
    }
    answer = await engine.ask("POST", f"containers/{container_id}/exec", body=body)
    return str(answer["Id"])


def _reason(error: DockerError) -> ActionFailed:
    if error.status in (NOT_FOUND, CONFLICT):
        return NotRunning()
    return refusal(error)
