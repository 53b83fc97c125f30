"""Programs that move bytes: a command goes in, a process with pipes comes out, which never outlives its
caller.
"""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from codehub.adapters.gnutar import complaint
from codehub.adapters.threads import begin, wait_for, wait_until_done

PIPE_BYTES = 1 << 20
_STDERR_BYTES_MAX = 8192
_STDERR_S_MAX = 5.0
# Error messages are compared, so they must be English; file names stay bytes.
ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


@dataclass
class Program:
    """A running program, our end of its pipe, and the end of its standard error."""

    process: asyncio.subprocess.Process
    pipe: int
    stderr: bytearray

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield its output, reading one part ahead. A caller that stops early kills the program."""
        next_part = begin(_read_part, self.pipe)
        part = b"?"
        try:
            while part := await asyncio.shield(
                next_part
            ):  # cancelled, it is killed first and waited for then
                next_part = begin(_read_part, self.pipe)
                yield part
        finally:
            if part:
                self.kill()  # so that the thread which waits for its output ends
            await wait_until_done(next_part)

    async def write(self, part: memoryview) -> None:
        """Write to its input. Raises BrokenPipeError if it has ended."""
        await wait_for(begin(_write_part, self.pipe, part), hurry=self.kill)

    def close(self) -> None:
        """Close its input."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    async def exit_code(self) -> int:
        return await self.process.wait()

    @property
    def complaint(self) -> str:
        """The last informative line of its standard error."""
        return complaint(bytes(self.stderr))

    def kill(self) -> None:
        """Kill it with its children: a bwrap that is killed while it sets up leaves a child that waits for it
        for ever.
        """
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@asynccontextmanager
async def run_program(command: Sequence[str | bytes], *, feeds_it: bool) -> AsyncIterator[Program]:
    """Run a program that we read from, or that we feed.

    At the end of the block it has ended, killed if need be.
    """
    read_end, write_end = os.pipe()
    our_end, their_end = (write_end, read_end) if feeds_it else (read_end, write_end)
    with suppress(PermissionError):  # a user may have only so many large pipes; a small one works too
        fcntl.fcntl(our_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    creation = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=their_end if feeds_it else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if feeds_it else their_end,
            stderr=asyncio.subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    )
    try:
        process = await _wait_for_creation(creation)
    except BaseException:
        os.close(our_end)
        raise
    finally:
        os.close(their_end)
    program = Program(process, our_end, bytearray())
    reading_stderr = asyncio.ensure_future(_collect_stderr(process.stderr, program.stderr))
    try:
        yield program
    finally:
        program.close()
        program.kill()
        await wait_until_done(asyncio.ensure_future(process.wait()))
        # A child that it has left behind may hold its standard error open: that is not worth waiting for.
        await wait_until_done(asyncio.ensure_future(asyncio.wait([reading_stderr], timeout=_STDERR_S_MAX)))
        reading_stderr.cancel()


async def _wait_for_creation(
    creation: "asyncio.Future[asyncio.subprocess.Process]",
) -> asyncio.subprocess.Process:
    """Return the new process.

    Cancelled half way, asyncio would kill it alone and then wait for what its children hold open.
    """
    try:
        return await asyncio.shield(creation)
    except asyncio.CancelledError:
        await wait_until_done(creation)
        if not creation.cancelled() and creation.exception() is None:
            with suppress(ProcessLookupError):
                os.killpg(creation.result().pid, signal.SIGKILL)
            await wait_until_done(asyncio.ensure_future(creation.result().wait()))
        raise


async def run(*command: str | bytes) -> tuple[int, str]:
    """Run a program to its end, and return its exit code and its complaint. Cancelled, it is killed."""
    async with run_program(command, feeds_it=True) as program:
        program.close()
        code = await program.exit_code()
    return code, program.complaint


async def _collect_stderr(stderr: asyncio.StreamReader | None, stderr_tail: bytearray) -> None:
    assert stderr is not None
    while line := await stderr.read(4096):
        stderr_tail += line
        del stderr_tail[:-_STDERR_BYTES_MAX]


def _read_part(pipe: int) -> bytes:
    """Read until a part is full or the output has ended: few large parts cost less than many small ones."""
    parts, length = [], 0
    while length < PIPE_BYTES and (part := os.read(pipe, PIPE_BYTES - length)):
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def _write_part(pipe: int, part: memoryview) -> None:
    while part:
        part = part[os.write(pipe, part) :]
