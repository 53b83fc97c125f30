"""A codehub of its own for tests to kill: runs the embedded
database, commits a growing counter, says each commit.

The upper half is what a test drives; the lower half is the program (`python
embedded_process.py DATA_DIR …`), which prints one JSON value per line: {"started":
pid}, {"error": message}, {"stopped": null}, or a committed number.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import asyncpg
import structlog

from codehub.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from codehub.adapters.system.machine import SystemClock, SystemTasks

DEADLINE_S = 120.0  # not from `patience`: the program below knows nothing of the tests
# What a client may see when the server dies under it.
LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


class EmbeddedProcess:
    """The program as a child of the test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.committed: list[int] = []
        self.reports: dict[str, Any] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def launch(
        cls, data_dir: Path, *options: str, prefix: tuple[str, ...] = (), **environ: str
    ) -> Self:
        process = await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, "-P", __file__, str(data_dir), *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **environ},
        )
        return cls(process)

    async def started(self) -> int:
        """Wait until the server accepts connections and return its pid."""
        await until(lambda: "started" in self.reports or self._reader.done())
        assert "started" in self.reports, f"the child never started a server: {self.reports}"
        return int(self.reports["started"])

    async def refused(self) -> str:
        """Wait until the child ends because the server can't start, and return what it says."""
        await self.ended()
        assert "error" in self.reports, f"the child did not refuse: {self.reports}"
        return str(self.reports["error"])

    async def commits(self, number: int) -> None:
        """Wait for so many more commits."""
        wanted = len(self.committed) + number
        await until(lambda: len(self.committed) >= wanted or self._reader.done())
        assert len(self.committed) >= wanted, f"the child ended: {self.reports}"

    async def stop(self) -> None:
        """Let it stop cleanly."""
        self.process.terminate()
        await self.ended()
        assert "stopped" in self.reports, f"the child did not stop cleanly: {self.reports}"

    async def kill(self) -> None:
        """End it by kill -9. What it said until then can still be read."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()

    async def ended(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.process.wait()
            await self._reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            with suppress(json.JSONDecodeError):  # a kill -9 may cut the last line
                self._take(json.loads(line))

    def _take(self, report: Any) -> None:
        if isinstance(report, int):
            self.committed.append(report)
        else:
            self.reports |= report


async def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait until it is true, however long that takes, but not for ever."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110  # other processes make it true, and tell nobody
            await asyncio.sleep(0.005)


async def connected(connect_args: dict[str, Any]) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect as soon as the server lets us: after a crash it recovers first."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await asyncpg.connect(**connect_args, timeout=5)
            except LOST:
                await asyncio.sleep(0.01)


def at_work_in(directory: Path) -> dict[int, int]:
    """Return the processes whose working directory this is, each
    with its parent. Shares no code with what it checks.
    """
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.path.samestat((entry / "cwd").stat(), directory.stat()):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def kill_9(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def postmasters_of(data_dir: Path) -> list[int]:
    """Return the processes at work in the data directory that no other one there has started."""
    parents = at_work_in(data_dir / "postgres" / "data")
    return [pid for pid, parent in parents.items() if parent not in parents]


def say(report: Any) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


async def commit_for_ever(server: EmbeddedPostgres, number: int) -> None:
    """Commit one number after the other, and say each one that is safe. A lost connection is made anew."""
    while True:
        try:
            connection = await connected(server.connect_args)
            await connection.execute("CREATE TABLE IF NOT EXISTS committed (number bigint PRIMARY KEY)")
            while True:
                number += 1
                await connection.execute("INSERT INTO committed VALUES ($1)", number)
                say(number)
        except LOST:
            await asyncio.sleep(0.01)


async def main(arguments: argparse.Namespace) -> None:
    tasks = SystemTasks()
    server = EmbeddedPostgres(arguments.data_dir, clock=SystemClock(), tasks=tasks, cache_dir=arguments.cache)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await server.start()
    except EmbeddedPostgresError as error:
        return say({"error": str(error)})
    connection = await asyncpg.connect(**server.connect_args, timeout=DEADLINE_S)
    say({"started": int((await connection.fetchval("SELECT pg_read_file('postmaster.pid')")).split()[0])})
    await connection.close()
    committer = None
    if arguments.commit_after is not None:
        committer = tasks.spawn(commit_for_ever(server, arguments.commit_after), name="committer")
    await stopping.wait()
    if committer is not None:
        committer.cancel()
    await server.stop()
    say({"stopped": None})
    await tasks.cancel_all()
    return None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument(
        "--uid", type=int, help="become this user; the interpreter need not be reachable for it"
    )
    parser.add_argument(
        "--wheel", help="where the package with the binaries is, instead of the installed one"
    )
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--commit-after", type=int, help="commit the numbers after this one")
    return parser.parse_args()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    options = parse()
    os.umask(0o077)
    if options.wheel is not None:
        sys.path.insert(0, options.wheel)
    if options.uid is not None:
        os.setgroups([])
        os.setgid(options.uid)
        os.setuid(options.uid)
    asyncio.run(main(options))
