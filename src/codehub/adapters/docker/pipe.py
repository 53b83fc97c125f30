"""A helper's output as a pipe of this machine, past the engine, which would copy it twice. Every call blocks: for a thread.

The helper says first, by the engine, which way it can speak. An engine that does not see our directory, or that runs under another
kernel, costs nothing but time: all comes by the engine then.
"""

import fcntl
import os
import select
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from uuid import UUID

from codehub.adapters.docker.attach import PART_BYTES, Attached

TARGET = "/codehub-pipe"
_BY_PIPE = b"pipe"
# Opened for both first, so that nothing waits; then for writing alone, so that a reader who is gone is noticed, now and later.
_IS_READ = f"[ -p {TARGET} ] && [ -w {TARGET} ] && exec 4<>{TARGET} 3>{TARGET} 4<&- && (echo >&3) 2>/dev/null"
_END_MS_MAX = 10_000


def by_pipe(script: str) -> str:
    """Return the script that does the same and speaks by the pipe, if somebody reads it."""
    return f"work() {{ {script}; }}; if {_IS_READ}; then echo pipe; work >&3; else echo engine; work; fi"


class Pipe:
    """A pipe for one helper of a workspace. Its name is needed until the helper has started; another's that was left is removed."""

    def __init__(self, directory: Path, workspace_id: UUID) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in directory.glob(f"{workspace_id}.*"):
            left.unlink(missing_ok=True)
        self.path = directory / f"{workspace_id}.{token_hex(8)}"
        os.mkfifo(self.path, 0o600)
        self.handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # a user has a share of such memory, and it may be used up
            fcntl.fcntl(self.handle, fcntl.F_SETPIPE_SZ, PART_BYTES)

    def unname(self) -> None:
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.unname()
        os.close(self.handle)


class Piped:
    """What a helper says by its pipe or, if it can't, by the engine."""

    def __init__(self, streams: Attached, pipe: Pipe) -> None:
        self._streams = streams
        self._pipe = pipe.handle
        self._is_piped: bool | None = None
        self._patience_ms: int | None = None
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        self._poll.register(streams, select.POLLIN)

    def read(self) -> bytes:
        """Return the next part of its output, a large one if there is enough; nothing when it has ended."""
        if self._is_piped is None:
            self._is_piped = self._streams.line() == _BY_PIPE
            if self._is_piped:
                os.read(self._pipe, 1)  # what the helper tried it with
        if not self._is_piped:
            return self._streams.read()
        parts, length = [], 0
        while length < PART_BYTES and (part := self._next(PART_BYTES - length)):
            parts.append(part)
            length += len(part)
        if not parts:
            self._streams.read()  # the last of what it tells
        return b"".join(parts)

    def _next(self, size: int) -> bytes:
        """Return what is in the pipe, as soon as there is something. Listens to what the helper tells meanwhile."""
        while True:
            with suppress(BlockingIOError):
                return os.read(self._pipe, size)
            ready = self._poll.poll(self._patience_ms)
            if not ready or self._streams.is_hung_up:
                raise ConnectionError("the engine hung up")
            spoke = any(handle != self._pipe for handle, _ in ready)
            if spoke and self._streams.hear() is None:
                # The helper has ended, and with it the pipe. If not, we were cut off.
                self._poll.unregister(self._streams)
                self._patience_ms = _END_MS_MAX
