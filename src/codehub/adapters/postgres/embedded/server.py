"""A prepared data directory goes in, a running postmaster comes out, and ends when asked.

Knows nothing of why.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from codehub.adapters.postgres.embedded.account import Account
from codehub.adapters.postgres.embedded.address import PORT, POSTGRES, find_postmaster
from codehub.adapters.postgres.embedded.binaries import Binaries
from codehub.adapters.postgres.embedded.cluster import HERE, Layout
from codehub.adapters.postgres.embedded.errors import EmbeddedPostgresError
from codehub.adapters.postgres.embedded.processes import POLL_S, processes_in, spawn
from codehub.adapters.processes import Process, all_ended
from codehub.ports.system import Clock

_LOG_BYTES_MAX = 10 * 1024 * 1024

# What keeps data safe and strangers out is on the command line, where neither a file nor ALTER SYSTEM can
# change it.
INVARIANTS = {
    "listen_addresses": "",
    "unix_socket_directories": HERE,
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "fsync": "on",
    "full_page_writes": "on",
    "restart_after_crash": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
}

# A clean shutdown; an end at once, at the price of a recovery; the kernel's end. Together they fit in 8 s.
WAYS_TO_END = ((signal.SIGINT, 4.5), (signal.SIGQUIT, 1.5), (signal.SIGKILL, 0.5))


class Server:
    """One run of a postmaster: our child, or adopted from a codehub that was killed."""

    def __init__(
        self, layout: Layout, process: Process, child: subprocess.Popen[bytes] | None, log_offset: int
    ) -> None:
        self._layout = layout
        self._process = process
        self._child = child
        self._log_offset = log_offset

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def adopted(self) -> bool:
        return self._child is None

    @property
    def exit_code(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def alive(self) -> bool:
        # A child must be asked through its handle, which reaps it.
        return self._process.alive() if self._child is None else self._child.poll() is None

    def runs(self, binaries: Binaries, account: Account) -> bool:
        """Say whether this is the server that we would start: the same program, settings and user."""
        try:
            proc_directory = Path(f"/proc/{self.pid}")
            arguments = (proc_directory / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            return proc_directory.stat().st_uid == account.uid and arguments == [
                os.fsencode(argument) for argument in _command(binaries)
            ]
        except OSError:
            return False

    def reload(self) -> None:
        self._process.send(signal.SIGHUP)

    def output(self) -> str:
        """Return what was logged since this run began."""
        with suppress(OSError), self._layout.log.open("rb") as log:
            log.seek(self._log_offset)
            return log.read(1 << 20).decode(errors="replace")
        return ""

    async def end(self, clock: Clock) -> None:
        """End it and everything it started.

        Whoever cancels this is in a hurry: then the next, harder way is taken.
        """
        cancellation: asyncio.CancelledError | None = None
        for number, patience_s in WAYS_TO_END:
            self._process.send(number)
            try:
                if await self._wait_for_end(clock, patience_s):
                    break
            except asyncio.CancelledError as error:
                cancellation = error
        # Nothing is left after a clean end. After a kill -9 there are backends that have not noticed yet.
        remaining = processes_in(self._layout.data, POSTGRES)
        for process in remaining:
            process.send(signal.SIGKILL)
        if cancellation is not None:
            raise cancellation
        if self.alive() or not await all_ended(remaining, clock=clock, within_s=10.0):
            raise EmbeddedPostgresError(
                f"postgres (pid {self.pid}) does not end, not even by kill -9: the disk may hang"
            )

    async def _wait_for_end(self, clock: Clock, within_s: float) -> bool:
        deadline = clock.monotonic() + within_s
        while self.alive():
            if clock.monotonic() >= deadline:
                return False
            await clock.sleep(POLL_S)
        return True


def adopt(layout: Layout) -> Server | None:
    """Return the live server of this directory, if there is one."""
    process = find_postmaster(layout.data)
    return None if process is None else Server(layout, process, None, _size(layout.log))


def launch(layout: Layout, *, binaries: Binaries, account: Account, busy: int) -> Server:
    """Start a postmaster.

    It inherits `busy`, so that lock is held until the last of its processes has ended.
    """
    bound_log(layout.log)
    log = os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        offset = os.fstat(log).st_size
        child = spawn(
            _command(binaries), cwd=layout.data, output=log, drop_to=account.drop_to, pass_fds=(busy,)
        )
    finally:
        os.close(log)
    # It may have ended already: then nobody is signalled, for nobody started at such a time.
    process = Process.of(child.pid) or Process(child.pid, started_ticks=-1)
    return Server(layout, process, child, offset)


def bound_log(log: Path) -> None:
    """Keep a log that has grown too long as log.1 and begin again, in place: a server may be
    writing to it.
    """
    if _size(log) > _LOG_BYTES_MAX:
        with suppress(OSError):  # on a full disk the old lines are what can be spared
            shutil.copyfile(log, log.with_name(log.name + ".1"))
        with suppress(OSError):
            os.truncate(log, 0)


def _command(binaries: Binaries) -> list[str]:
    settings = [argument for name, value in INVARIANTS.items() for argument in ("-c", f"{name}={value}")]
    return [str(binaries.postgres), "-D", HERE, *settings]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
