"""A Pod and a command go in, a session over two execs of the API comes out.

The API can neither signal what it runs nor end it when its caller goes: the second exec does, and is
there before the command is. Nor does it tell the command's end while something holds its output
open: so a shell stays beside the command and writes a mark behind all that the command wrote, with how
it ended. What the API says itself counts only if that shell was killed: it takes a lost runtime for success.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from signal import SIGKILL, Signals

from codehub.adapters.byte_streams import BoundedPipe, NoBytes
from codehub.adapters.command_script import (
    KEEPER,
    REPORT_BYTES_MAX,
    Process,
    check_report,
    environment_of,
    shell_argv,
)
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.entry import RESTORE_TERMINAL, Entry, enter, is_over
from codehub.adapters.kubernetes.exec import ExecSession, Stream
from codehub.adapters.kubernetes.pods import HOME_PLACE, Pod
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import ByteSource, Command, ExitStatus, NotRunning, TerminalSize

_CODE_DIGITS = 3
# All that end a process and can be caught: the shell outlives them, the command beside it has them as usual.
_CAUGHT = " ".join(
    str(number) for number in range(1, 65) if number not in (9, 17, 18, 19, 20, 21, 22, 23, 28, 32, 33)
)
# What the shell itself says of a command that was killed is for nobody: its error output is put aside. In
# brackets, so that the descriptors are changed for the command alone.
_SCRIPT = """{restore}
exec 3>&2 2>/dev/null
trap : {caught}
(exec {command}) 2>&3 3>&-
code=$?
printf '%s%03d' {mark} "$code"
printf '%s%03d' {mark} "$code" >&3"""
# The runtime may kill an exec's own process when the connection breaks, and leave its input open. So the
# keeper is another process, and a third one looks whether the exec's own is still there.
_KEEPER = f"""
exec 3<&0
(trap : TERM{KEEPER}) <&3 3<&- &
keeper=$!
exec 3<&-
(while kill -0 $$; do sleep 2; done; kill $keeper) >/dev/null 2>&1 &
watcher=$!
wait $keeper
kill $watcher"""


@asynccontextmanager
async def command_session(
    client: KubernetesClient, pod: Pod, command: Command
) -> AsyncIterator["PodCommandSession"]:
    """Run it. Raises NoSuchCommand or NotRunning."""
    has_terminal = command.terminal is not None
    async with (
        enter(client, pod, has_terminal=has_terminal) as shell,
        enter(client, pod) as keeper,  # the first to go: its end is the command's
    ):
        session = PodCommandSession(client, pod, shell, keeper, has_terminal=has_terminal)
        try:
            await session.begin(command)
            yield session
        finally:
            await session.leave()


class PodCommandSession:
    """A CommandSession over one connection: what is unread of one output holds up the other, too."""

    def __init__(
        self, client: KubernetesClient, pod: Pod, shell: Entry, keeper: Entry, *, has_terminal: bool
    ) -> None:
        self._client = client
        self._pod = pod
        self._shell = shell
        self._keeper = keeper
        self._has_terminal = has_terminal
        self._mark = token_hex(16)
        self._outputs = {Stream.STDOUT: _Output(self._mark)}
        if not has_terminal:
            self._outputs[Stream.STDERR] = _Output(self._mark)
        self.input = _Input(shell.session, is_terminal=has_terminal)
        self._output = self._outputs[Stream.STDOUT].pipe
        self.output: ByteSource = self._output
        self.error_output: ByteSource = NoBytes() if has_terminal else self._outputs[Stream.STDERR].pipe
        self._status: asyncio.Task[ExitStatus] | None = None

    async def begin(self, command: Command) -> None:
        process = await self._shell.ready()
        await self._keeper.ready()
        await self._keeper.run(_KEEPER)
        await self._keep(process)
        await self._shell.run(self._script(command))
        self._status = asyncio.create_task(self._pass_on_output())
        await self._keep(await self._read_report(command))
        if command.terminal is not None:
            await self.resize(command.terminal)  # where there is no stty; else it changes nothing

    async def resize(self, size: TerminalSize) -> None:
        if self._has_terminal:
            with suppress(BackendUnreachable):  # it has ended, or `wait` tells
                await self._shell.session.resize(size.columns, size.rows)

    async def send_signal(self, number: Signals) -> None:
        with suppress(BackendUnreachable):
            await self._keeper.session.write(b"%d\n" % number)

    async def wait(self) -> ExitStatus:
        assert self._status is not None
        return await asyncio.shield(self._status)

    async def leave(self) -> None:
        if self._status is not None:
            self._status.cancel()
            await asyncio.gather(self._status, return_exceptions=True)

    async def _keep(self, process: Process) -> None:
        """Return when the keeper knows whom to signal and to end."""
        await self._keeper.session.write(process.line)
        if await self._keeper.read_line() != "kept":
            raise NotRunning

    def _script(self, command: Command) -> str:
        argv = shell_argv(command, HOME_PLACE, reports_to_output=True)
        if environment := environment_of(command):
            argv = ["env", *(f"{name}={value}" for name, value in environment.items()), *argv]
        restore = RESTORE_TERMINAL if self._has_terminal else ""
        return _SCRIPT.format(restore=restore, caught=_CAUGHT, command=shlex.join(argv), mark=self._mark)

    async def _read_report(self, command: Command) -> Process:
        report = b""
        while b"\n" not in report and len(report) < REPORT_BYTES_MAX and (part := await self._output.read()):
            report += part
        report, _, rest = report.partition(b"\n")
        process = check_report(command, report)
        if process is None:
            await self.wait()  # raises what it ended by, if that was an outage
            raise NotRunning
        self._output.put_back(rest)
        return process

    async def _pass_on_output(self) -> ExitStatus:
        """Pass on what the command writes, and return how it ended."""
        session = self._shell.session
        try:
            while (part := await session.read()) is not None:
                stream, data = part
                await self._outputs[stream].feed(data)
                if all(output.exit_code is not None for output in self._outputs.values()):
                    break
            return self._exit_status(session)
        except (BackendUnreachable, ActionFailed):
            if await is_over(self._client, self._pod):
                return ExitStatus.killed(SIGKILL)
            raise
        finally:
            for output in self._outputs.values():
                output.pipe.end()
            self.input.end()

    def _exit_status(self, session: ExecSession) -> ExitStatus:
        """Return how the command ended, by its marks or by how the shell beside it was killed."""
        codes = [output.exit_code for output in self._outputs.values() if output.exit_code is not None]
        status = ExitStatus.from_shell(codes[0] if codes else session.exit_code)
        if not codes and status.signal is None:
            raise BackendUnreachable(Message(Code.KUBERNETES_COMMAND_LOST))
        return status


class _Output:
    """One output: the command's up to the mark, behind which there is its exit code."""

    def __init__(self, mark: str) -> None:
        self.pipe = BoundedPipe()
        self.exit_code: int | None = None
        self._mark = mark.encode()
        self._pending = b""

    async def feed(self, data: bytes) -> None:
        """Pass on what is the command's. What is behind the mark is not."""
        if self.exit_code is not None:
            return
        data = self._pending + data
        at = data.find(self._mark)
        if at < 0:
            at = len(data) - self._mark_overlap(data)
        elif len(code := data[at + len(self._mark) :]) >= _CODE_DIGITS:
            self.exit_code = int(code[:_CODE_DIGITS])
        self._pending = data[at:]
        await self.pipe.write(data[:at])
        if self.exit_code is not None:
            self.pipe.end()

    def _mark_overlap(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of the mark."""
        longest = min(len(self._mark) - 1, len(data))
        return next((size for size in range(longest, 0, -1) if data.endswith(self._mark[:size])), 0)


class _Input:
    def __init__(self, session: ExecSession, *, is_terminal: bool) -> None:
        self._session = session
        self._is_terminal = is_terminal
        self._has_ended = False

    async def write(self, data: bytes) -> None:
        if data and self._has_ended:
            raise BrokenPipeError
        try:
            await self._session.write(data)
        except BackendUnreachable as error:
            raise BrokenPipeError(str(error)) from None

    async def close(self) -> None:
        if not self._is_terminal and not self._has_ended:
            self._has_ended = True
            with suppress(BackendUnreachable):
                await self._session.end_input()

    def end(self) -> None:
        """Nobody reads it any more."""
        self._has_ended = True
        self._session.hang_up()
