"""Locks on files that end with their holder. Asking whether one is held does not take it."""

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
    """Hold the lock of this workspace's instance, against this and every other process.

    Each workspace is a byte of one file, so that there is no file to clean up, and none to lock after it was
    removed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(fd, workspace_id.int & _OFFSET_MASK, 1):
            await clock.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


def hold_lock(path: Path) -> int:
    """Return a descriptor that locks the whole file.

    Children inherit the lock; it ends with its last holder.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _try_lock(fd, 0, 0):
        os.close(fd)
        raise BlockingIOError(f"{path} is held")
    return fd


def is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def _try_lock(fd: int, start: int, length: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX allows both
        return False
    return True
