"""Pids go in, processes that can be signalled come out. A bare pid is never trusted: pids are reused."""

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from codehub.ports.system import Clock

_POLL_S = 0.01
_FILE_BYTES_MAX = 1 << 16
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process for ever: whoever gets the same pid later has started later."""

    pid: int
    started_ticks: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        ticks = _started_ticks(pid)
        return None if ticks is None else cls(pid, ticks)

    @classmethod
    def from_stat(cls, text: str) -> Self | None:
        """Parse a copy of /proc/PID/stat; None if it is not complete."""
        fields = text.rpartition(")")[2].split()
        pid = text.partition(" ")[0]
        return cls(int(pid), int(fields[19])) if pid.isdigit() and len(fields) > 19 else None  # noqa: PLR2004

    def alive(self) -> bool:
        """Say whether it runs.

        A zombie does not; and of a pid namespace whose first process is one, nothing is left.
        """
        return _started_ticks(self.pid) == self.started_ticks

    def age_s(self) -> float:
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
        return uptime_s - self.started_ticks / _TICKS_PER_S

    def send(self, number: signal.Signals) -> None:
        """Signal exactly this process, or nobody when it has ended."""
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(self.pid)
            try:
                # The descriptor is held, so between this question and the signal the pid can't change hands.
                if self.alive():
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)

    def reap(self) -> None:
        """Take the exit status of a child of ours that has ended: until then it stays a zombie.

        Others' are not ours to take.
        """
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


async def all_ended(processes: Iterable[Process], *, clock: Clock, within_s: float) -> bool:
    """Wait until none is alive; say whether that came true in time."""
    deadline = clock.monotonic() + within_s
    living = list(processes)
    while living := [process for process in living if process.alive()]:
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(_POLL_S)
    return True


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # twice as fast, on every scan


@contextmanager
def as_user(uid: int, gid: int) -> Iterator[None]:
    """Look at a process as its own user. Root in a container may lack CAP_SYS_PTRACE and see nothing of
    others'.

    Only this thread, and only between two lines without an await.
    """
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(gid)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())


def read_proc_file(pid: int, name: str) -> str | None:
    """Read one file of /proc in one piece, or None if the process is gone.

    Every list reads several per instance.
    """
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, _FILE_BYTES_MAX).decode(errors="replace")
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)


def _started_ticks(pid: int) -> int | None:
    text = read_proc_file(pid, "stat")
    if not text:
        return None
    # The name in parentheses may hold anything, so fields are counted from the last one: state, ppid, …
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
