"""Lock files go in, held descriptors come out: one codehub owns a directory, one server is at work in it.

Never two.
"""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codehub.adapters.postgres.embedded.address import POSTGRES
from codehub.adapters.postgres.embedded.cluster import Layout
from codehub.adapters.postgres.embedded.errors import EmbeddedPostgresError
from codehub.adapters.postgres.embedded.processes import POLL_S, processes_in
from codehub.adapters.processes import all_ended
from codehub.ports.system import Clock

_INITDB = POSTGRES | {"initdb"}
_QUIT_S = 1.0
_VACATE_S = 10.0


def take_ownership(layout: Layout) -> int:
    """Return a descriptor that makes us the owner for as long as it is open. A kill -9 closes it too."""
    layout.base.parent.mkdir(parents=True, exist_ok=True)
    layout.base.mkdir(mode=0o700, exist_ok=True)
    with _open_lock_file(layout.lock) as fd:
        if not _try_lock(fd):
            holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
            raise EmbeddedPostgresError(
                f"{layout.base} is in use by another codehub (pid {holder}): stop that one,"
                f" or set CODEHUB_DATA_DIR to another directory"
            )
        # In one piece and always as long: whoever reads it meanwhile reads a pid.
        os.pwrite(fd, f"{os.getpid():<19}\n".encode(), 0)
        return fd


def owner_of(data_dir: Path) -> int | None:
    """Return the pid of the codehub that owns this DATA_DIR now, or None. For whoever is about to own it."""
    try:
        fd = os.open(Layout(data_dir.absolute() / "postgres").lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(fd):
            return None
        pid_text = os.pread(fd, 20, 0).strip()
        return int(pid_text) if pid_text.isdigit() else 0
    finally:
        os.close(fd)


async def vacate(layout: Layout, clock: Clock) -> int:
    """End what a dead codehub or a dead postmaster left at work here, and return the lock that proves that
    nothing is.

    Every process of a server inherits this lock, so it is free only when the last of them has ended, seen or
    unseen. Only for the owner, and only when no postmaster is alive: its backends are of no use to anybody.
    """
    deadline = clock.monotonic() + _VACATE_S
    with _open_lock_file(layout.busy) as fd:
        while not _try_lock(fd):
            await _sweep(layout, clock)
            if clock.monotonic() >= deadline:
                raise EmbeddedPostgresError(
                    f"{layout.data} is in use by a server that codehub cannot see from here (in another "
                    "container?): stop that one, or set CODEHUB_DATA_DIR to another directory"
                )
            await clock.sleep(POLL_S)
        return fd


def is_busy(layout: Layout) -> bool:
    """Say whether a server that a codehub started is at work here."""
    with _open_lock_file(layout.busy) as fd:
        is_free = _try_lock(fd)
        os.close(fd)
        return not is_free


async def _sweep(layout: Layout, clock: Clock) -> None:
    """End every process at work in the directory. Crash recovery makes that safe, at any moment."""
    backends = processes_in(layout.data, POSTGRES)
    initdb_processes = processes_in(layout.unfinished, _INITDB)
    for process in backends:
        process.send(signal.SIGQUIT)
    for process in initdb_processes:
        process.send(signal.SIGTERM)  # unlike a backend's, nobody else would give back its shared memory
    if not await all_ended([*backends, *initdb_processes], clock=clock, within_s=_QUIT_S):
        for process in (*backends, *initdb_processes):
            process.send(signal.SIGKILL)


@contextmanager
def _open_lock_file(path: Path) -> Iterator[int]:
    """Open a lock file that only we and our children may hold, and close it when the block fails."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    except BaseException:
        os.close(fd)
        raise


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
