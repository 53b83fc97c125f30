"""A PostgreSQL with a replica, which takes over when the first is killed."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from tests.support.patience import until
from tests.support.postgres import DEBIAN_15

_NOBODY = 65534
_SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "jit=off", "autovacuum=off")


@dataclass
class Pair:
    """Two servers, each in a directory of its own, and the database `codehub` on both."""

    directories: tuple[Path, Path]
    processes: list[subprocess.Popen[bytes]]

    @property
    def url(self) -> str:
        hosts = ",".join(str(directory) for directory in self.directories)
        return f"postgresql://admin@/codehub?host={hosts}&target_session_attrs=read-write"

    async def ask(self, place: int, statement: str, database: str = "codehub") -> object:
        host = str(self.directories[place])
        connection = await asyncpg.connect(host=host, user="admin", database=database, password="", ssl=False)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def answers(self, place: int, statement: str = "SELECT true") -> bool:
        with suppress(OSError, asyncpg.PostgresError):
            return bool(await self.ask(place, statement, "postgres"))
        return False

    async def cut(self) -> None:
        """Let the replica hear nothing more."""
        await self.ask(1, "ALTER SYSTEM SET primary_conninfo = ''", "postgres")
        await self.ask(1, "SELECT pg_reload_conf()", "postgres")
        await until(lambda: self.answers(1, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)"))

    async def fail_over(self) -> None:
        """Kill the first, and let the second take its place."""
        self.processes[0].send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.processes[0].wait)
        await self.ask(1, "SELECT pg_promote()", "postgres")


@asynccontextmanager
async def replicated(*, is_synchronous: bool) -> AsyncIterator[Pair]:
    first, second = (Path(tempfile.mkdtemp(prefix=f"codehub-{name}-")) for name in ("first", "second"))
    pair = Pair((first, second), [])
    try:
        initdb = (
            "initdb",
            "-D",
            str(first / "data"),
            "-U",
            "admin",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "-N",
        )
        await asyncio.to_thread(_run, first, *initdb)
        pair.processes.append(_launch(first))
        await until(lambda: pair.answers(0))
        await pair.ask(0, "CREATE DATABASE codehub", "postgres")
        copy = (
            "pg_basebackup",
            "-h",
            str(first),
            "-U",
            "admin",
            "-D",
            str(second / "data"),
            "-R",
            "-c",
            "fast",
            "-X",
            "stream",
        )
        await asyncio.to_thread(_run, second, *copy)
        pair.processes.append(_launch(second))
        await until(
            lambda: pair.answers(
                0, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')"
            )
        )
        if is_synchronous:
            await pair.ask(0, "ALTER SYSTEM SET synchronous_standby_names = '*'", "postgres")
            await pair.ask(0, "SELECT pg_reload_conf()", "postgres")
            await until(
                lambda: pair.answers(0, "SELECT bool_or(sync_state = 'sync') FROM pg_stat_replication")
            )
        yield pair
    finally:
        for process in pair.processes:
            process.send_signal(signal.SIGQUIT)
            await asyncio.to_thread(process.wait)
        for directory in pair.directories:
            shutil.rmtree(directory)


def _prefix(directory: Path) -> list[str]:
    """It ends with us, even if we are killed; and never runs as root, as which PostgreSQL refuses to."""
    prefix = ["setpriv", "--pdeathsig", "QUIT"]
    if os.geteuid() == 0:
        os.chown(directory, _NOBODY, _NOBODY)
        prefix += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return prefix


def _run(directory: Path, program: str, *arguments: str) -> None:
    command = [*_prefix(directory), str(DEBIAN_15 / program), *arguments]
    subprocess.run(command, cwd="/", check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _launch(directory: Path) -> subprocess.Popen[bytes]:
    settings = (*_SETTINGS, f"unix_socket_directories={directory}")
    options = [word for setting in settings for word in ("-c", setting)]
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [*_prefix(directory), str(DEBIAN_15 / "postgres"), "-D", str(directory / "data"), *options],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
