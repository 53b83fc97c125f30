"""A directory goes in, the processes at work in it come out; commands go in, their ends come out."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codehub.adapters.processes import Process, all_pids, as_user
from codehub.ports.system import Clock

POLL_S = 0.02
_TERMINATE_S = 1.0


@contextmanager
def watch_end(pid: int) -> Iterator[asyncio.Event]:
    """Yield what is set when the process ends. Asking again and again would be most of what an idle codehub
    does.

    It may be missing, if the process has ended already or there are no descriptors left.
    """
    ended = asyncio.Event()
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        yield ended
        return
    loop = asyncio.get_running_loop()

    def on_end() -> None:
        loop.remove_reader(fd)
        ended.set()

    loop.add_reader(fd, on_end)
    try:
        yield ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def processes_in(directory: Path, programs: frozenset[str]) -> list[Process]:
    """Return the live processes that run one of `programs` with `directory` as their working directory."""
    processes = (process_in(directory, pid, programs) for pid in all_pids())
    return [process for process in processes if process is not None]


def process_in(directory: Path, pid: int, programs: frozenset[str]) -> Process | None:
    """Return this process if it is one of `programs` at work in `directory`.

    Postgres never leaves its data directory.
    """
    process = Process.of(pid)
    try:
        directory_status = directory.stat()
        process_status = Path(f"/proc/{pid}").stat()
        if process_status.st_uid != directory_status.st_uid:
            return None  # PostgreSQL insists on owning its directory
        try:
            cwd, program = _cwd_and_program(pid)
        except PermissionError:
            with as_user(process_status.st_uid, process_status.st_gid):
                cwd, program = _cwd_and_program(pid)
    except OSError:
        return None  # it ended meanwhile, or is none of ours
    if not os.path.samestat(cwd, directory_status) or program not in programs:
        return None
    return process if process is not None and process.alive() else None


async def run(
    command: Iterable[str | Path],
    *,
    clock: Clock,
    cwd: Path = Path("/"),
    drop_to: tuple[int, int] | None = None,
    pass_fds: Iterable[int] = (),
) -> tuple[int, str]:
    """Run a command to its end and return its code and output; when cancelled, nothing of it is left."""
    # The output goes to memory: it must be readable when the disk is full.
    output = os.memfd_create("codehub-command")
    try:
        child = spawn(command, cwd=cwd, output=output, drop_to=drop_to, pass_fds=pass_fds)
        try:
            while child.poll() is None:
                await clock.sleep(POLL_S)
        finally:
            if child.poll() is None:
                await _end_group(child, clock)
        return child.returncode, os.pread(output, 1 << 20, 0).decode(errors="replace")
    finally:
        os.close(output)


async def _end_group(child: subprocess.Popen[bytes], clock: Clock) -> None:
    """End a command and what it started: asked first, because initdb then gives back its shared memory."""
    os.killpg(child.pid, signal.SIGTERM)  # not reaped yet, so the group is still ours
    deadline = clock.monotonic() + _TERMINATE_S
    try:
        while child.poll() is None and clock.monotonic() < deadline:
            await clock.sleep(POLL_S)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def spawn(
    command: Iterable[str | Path],
    *,
    cwd: Path,
    output: int,
    drop_to: tuple[int, int] | None = None,
    pass_fds: Iterable[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that a terminal's Ctrl-C reaches us and not it.

    The child enters `cwd` before it drops to another (uid, gid), so parents that only we may pass are no
    obstacle. The environment is ours: a PGDATA or PGPORT of the caller must not reach the server.
    """
    return subprocess.Popen(  # noqa: S603  # the command is ours
        [str(argument) for argument in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        umask=0o077,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
        user=drop_to[0] if drop_to else None,
        group=drop_to[1] if drop_to else None,
        extra_groups=[] if drop_to else None,
    )


def _cwd_and_program(pid: int) -> tuple[os.stat_result, str]:
    program = Path(f"/proc/{pid}/exe").readlink().name
    return Path(f"/proc/{pid}/cwd").stat(), program.removesuffix(" (deleted)")
