"""Programs that move bytes: a command goes in, a process with pipes comes out, and never outlives the one who asked for it."""

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
_TOLD_BYTES_MAX = 8192
_WORDS_S_MAX = 5.0
# Words of errors are compared below; names are bytes, and stay what they are.
ENVIRONMENT: Mapping[str, str] = {"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


@dataclass
class Program:
    """A running program, the end of its pipe that is ours, and the last of what it told."""

    process: asyncio.subprocess.Process
    pipe: int
    told: bytearray

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield its output, one part ahead of whoever takes it. Whoever stops early kills it."""
        following = begin(_fill, self.pipe)
        part = b"?"
        try:
            while part := await asyncio.shield(
                following
            ):  # cancelled, it is killed first and waited for then
                following = begin(_fill, self.pipe)
                yield part
        finally:
            if part:
                self.kill()  # so that the thread which waits for its output ends
            await wait_until_done(following)

    async def write(self, part: memoryview) -> None:
        """Give it input. Raises BrokenPipeError if it has ended."""
        await wait_for(begin(_drain, self.pipe, part), hurry=self.kill)

    def close(self) -> None:
        """Say that there is no more input."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    async def exit_code(self) -> int:
        return await self.process.wait()

    @property
    def complaint(self) -> str:
        """The last line that it told."""
        return complaint(bytes(self.told))

    def kill(self) -> None:
        """Kill it with its children: a bwrap that is killed while it sets up leaves a child that waits for it for ever."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


@asynccontextmanager
async def running(command: Sequence[str | bytes], *, feeds_it: bool) -> AsyncIterator[Program]:
    """Run a program that we read from, or that we feed. When the block is left it has ended, killed if need be."""
    reading, writing = os.pipe()
    ours, theirs = (writing, reading) if feeds_it else (reading, writing)
    with suppress(PermissionError):  # a user may have only so many large pipes; a small one works too
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    creating = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=theirs if feeds_it else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if feeds_it else theirs,
            stderr=asyncio.subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    )
    try:
        process = await _created(creating)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    program = Program(process, ours, bytearray())
    listening = asyncio.ensure_future(_listen(process.stderr, program.told))
    try:
        yield program
    finally:
        program.close()
        program.kill()
        await wait_until_done(asyncio.ensure_future(process.wait()))
        # Whoever it has left behind may hold its words open: they are not worth waiting for.
        await wait_until_done(asyncio.ensure_future(asyncio.wait([listening], timeout=_WORDS_S_MAX)))
        listening.cancel()


async def _created(creating: "asyncio.Future[asyncio.subprocess.Process]") -> asyncio.subprocess.Process:
    """Return the new process. Cancelled half way, asyncio would kill it alone and then wait for what its children hold open."""
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        await wait_until_done(creating)
        if not creating.cancelled() and creating.exception() is None:
            with suppress(ProcessLookupError):
                os.killpg(creating.result().pid, signal.SIGKILL)
            await wait_until_done(asyncio.ensure_future(creating.result().wait()))
        raise


async def run(*command: str | bytes) -> tuple[int, str]:
    """Run a program to its end, and return its exit code and its complaint. Cancelled, it is killed."""
    async with running(command, feeds_it=True) as program:
        program.close()
        code = await program.exit_code()
    return code, program.complaint


async def _listen(stderr: asyncio.StreamReader | None, told: bytearray) -> None:
    assert stderr is not None
    while line := await stderr.read(4096):
        told += line
        del told[:-_TOLD_BYTES_MAX]


def _fill(pipe: int) -> bytes:
    """Read until a part is full or the output has ended: few large parts cost less than many small ones."""
    parts, length = [], 0
    while length < PIPE_BYTES and (part := os.read(pipe, PIPE_BYTES - length)):
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def _drain(pipe: int, part: memoryview) -> None:
    while part:
        part = part[os.write(pipe, part) :]
