"""A log file goes in, its newest lines come out, and then what follows. Reading is not for the event loop, and is bounded. The file is kept from growing."""

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from codehub.adapters.threads import in_thread
from codehub.ports.system import Clock

SIZE_MAX = 4 << 20
SHOWN_MAX = 1 << 20
"""So many bytes of what was written before are shown, whatever a line is: a workspace writes what it likes."""
_KEPT = 1 << 20
_POLL_S = 0.1
_PIECE = 1 << 16


async def lines(path: Path, *, tail: int, follow: bool, clock: Clock) -> AsyncIterator[bytes]:
    """Yield the newest lines, oldest first, then what is written from now on, until the file is removed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        size, text = await in_thread(_newest, fd, tail)
        for at in range(0, len(text), _PIECE):
            yield text[at : at + _PIECE]
        while follow:
            found = os.fstat(fd)
            size = min(size, found.st_size)  # it was shortened: what it held then has been shown
            while size < found.st_size and (piece := await in_thread(os.pread, fd, _PIECE, size)):
                size += len(piece)
                yield piece
            if found.st_nlink == 0:
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
    """Keep the newest part of a file that has grown too long. Its writers append, so they go on at its new end.

    If that can't be done now, the next look will."""
    with suppress(OSError):
        if path.stat().st_size <= SIZE_MAX:
            return
        with path.open("r+b") as file:
            file.seek(-_KEPT, os.SEEK_END)
            kept = file.read(_KEPT)
            file.truncate(0)
            os.pwrite(file.fileno(), kept[kept.find(b"\n") + 1 :], 0)
