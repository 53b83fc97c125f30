"""Files go in, locks that end with their holder come out. Asking whether one is held takes nothing and disturbs nobody."""

import fcntl
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.processes import POLL_S
from codehub.ports.system import Clock

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi0q")
_OFFSET_MASK = (1 << 62) - 1


@asynccontextmanager
async def exclusive(path: Path, workspace_id: UUID, clock: Clock) -> AsyncIterator[None]:
    """Be the only one, in this and every other process, who changes this workspace's instance.

    Each workspace is a byte of one file, so that there is no file to clean up, and none to lock after it was removed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _take(fd, workspace_id.int & _OFFSET_MASK, 1):
            await clock.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


def taken(path: Path) -> int:
    """Return a descriptor that holds the whole file. Whoever inherits it holds it too; the last one to end lets go."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _take(fd, 0, 0):
        os.close(fd)
        raise BlockingIOError(f"{path} is held")
    return fd


def is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, question)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def _take(fd: int, start: int, length: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX allows both
        return False
    return True
