"""A log file goes in, its newest lines come out, then what follows. Reads are bounded, and run in threads.

A file that has grown too long is shortened.
"""

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from codehub.adapters.threads import in_thread
from codehub.ports.system import Clock

SIZE_MAX = 4 << 20
SHOWN_MAX = 1 << 20
"""So many bytes of what was written before are shown, whatever a line is: a workspace writes what it likes.
"""
_KEPT_BYTES = 1 << 20
_POLL_S = 0.1
_PART_BYTES = 1 << 16


async def lines(path: Path, *, tail: int, follow: bool, clock: Clock) -> AsyncIterator[bytes]:
    """Yield the newest lines, oldest first, then what is written from now on, until the file is removed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        size, text = await in_thread(_newest, fd, tail)
        for at in range(0, len(text), _PART_BYTES):
            yield text[at : at + _PART_BYTES]
        while follow:
            status = os.fstat(fd)
            size = min(size, status.st_size)  # it was shortened: its earlier content has been yielded
            while size < status.st_size and (part := await in_thread(os.pread, fd, _PART_BYTES, size)):
                size += len(part)
                yield part
            if status.st_nlink == 0:
                return
            await clock.sleep(_POLL_S)
    finally:
        os.close(fd)


def _newest(fd: int, tail: int) -> tuple[int, bytes]:
    """Return how long the file is, and its newest lines."""
    size = os.fstat(fd).st_size
    start = max(0, size - SHOWN_MAX)
    text = os.pread(fd, size - start, start) if tail > 0 else b""
    cut = len(text) - text.endswith(b"\n")
    for _ in range(tail):
        cut = text.rfind(b"\n", 0, cut)
        if cut < 0:
            return size, text
    return size, text[cut + 1 :]


def shorten(path: Path) -> None:
    """Keep the newest part of a file that has grown too long. Its writers append, so they go on at its new
    end.

    If that can't be done now, the next look will.
    """
    with suppress(OSError):
        if path.stat().st_size <= SIZE_MAX:
            return
        with path.open("r+b") as file:
            file.seek(-_KEPT_BYTES, os.SEEK_END)
            newest = file.read(_KEPT_BYTES)
            file.truncate(0)
            os.pwrite(file.fileno(), newest[newest.find(b"\n") + 1 :], 0)
