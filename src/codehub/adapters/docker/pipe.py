"""A helper's output through a named pipe, not through the engine, which would copy it twice.

Every call blocks: run it in a thread. The helper first reports, through the engine, which way it can write.
If the engine does not see our directory, or runs under another kernel, all output comes through the engine,
more slowly.
"""

import fcntl
import os
import select
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from uuid import UUID

from codehub.adapters.docker.attach import PART_BYTES, AttachedStreams

TARGET = "/codehub-pipe"
_BY_PIPE = b"pipe"
# Opened for reading and writing first, so that open does not wait; then for writing alone, so that it fails
# if the reader is gone.
_IS_READ = f"[ -p {TARGET} ] && [ -w {TARGET} ] && exec 4<>{TARGET} 3>{TARGET} 4<&- && (echo >&3) 2>/dev/null"
_END_MS_MAX = 10_000


def by_pipe(script: str) -> str:
    """Return the script that does the same and writes into the pipe, if it has a reader."""
    return f"work() {{ {script}; }}; if {_IS_READ}; then echo pipe; work >&3; else echo engine; work; fi"


class Pipe:
    """A pipe for one helper of a workspace. Its name is needed until the helper has started.

    A pipe that an earlier helper left is removed."""

    def __init__(self, directory: Path, workspace_id: UUID) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old_pipe in directory.glob(f"{workspace_id}.*"):
            old_pipe.unlink(missing_ok=True)
        self.path = directory / f"{workspace_id}.{token_hex(8)}"
        os.mkfifo(self.path, 0o600)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # a user's share of pipe memory may be used up
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PART_BYTES)

    def remove_name(self) -> None:
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.remove_name()
        os.close(self.fd)


class PipedOutput:
    """A helper's output: through its pipe or, if that is not possible, through the engine."""

    def __init__(self, streams: AttachedStreams, pipe: Pipe) -> None:
        self._streams = streams
        self._pipe = pipe.fd
        self._is_piped: bool | None = None
        self._poll_ms_max: int | None = None
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._poll.register(streams, select.POLLIN)

    def read(self) -> bytes:
        """Return the next part of the output, up to PART_BYTES at once; b"" at its end."""
        if self._is_piped is None:
            self._is_piped = self._streams.read_line() == _BY_PIPE
            if self._is_piped:
                os.read(self._pipe, 1)  # the byte that the helper tested the pipe with
        if not self._is_piped:
            return self._streams.read()
        parts, length = [], 0
        while length < PART_BYTES and (part := self._next(PART_BYTES - length)):
            parts.append(part)
            length += len(part)
        if not parts:
            self._streams.read()  # the rest of its error output
        return b"".join(parts)

    def _next(self, size: int) -> bytes:
        """Wait for data in the pipe and return it. Reads the helper's error output meanwhile."""
        while True:
            with suppress(BlockingIOError):
                return os.read(self._pipe, size)
            ready = self._poll.poll(self._poll_ms_max)
            if not ready or self._streams.is_disconnected:
                raise ConnectionError("the engine closed the connection")
            has_frame = any(fd != self._pipe for fd, _ in ready)
            if has_frame and self._streams.read_frame() is None:
                # The helper has ended, so the pipe must end soon. If not, the connection was lost.
                self._poll.unregister(self._streams)
                self._poll_ms_max = _END_MS_MAX
