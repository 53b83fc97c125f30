"""Throw-away PostgreSQL servers for tests: a version goes in, databases
with the schema come out. Nothing outlives the test run.

Not EmbeddedPostgres: that keeps data safe (fsync), lets one user in and may outlive a killed owner.
Here all three are unwanted, and Debian's 15 and the wheel's 18 must run alike.
"""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.support.ci import IS_CI
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.postgres.embedded.account import server_account
from codehub.adapters.postgres.embedded.binaries import usable_binaries
from codehub.adapters.postgres.migrate import migrate
from codehub.adapters.system.machine import SystemClock

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
VERSIONS = ("postgres-18", "postgres-15")
# Not in CI: there it fails instead.
NEEDS_DEBIAN_15 = pytest.mark.skipif(
    not DEBIAN_15.exists() and not IS_CI,
    reason=f"no PostgreSQL 15 in {DEBIAN_15} (apt-get install postgresql-15)",
)
_NOBODY = 65534
_TEMPLATE = "migrated"


class TestServer:
    """One running server. `connect_args()` of a database;
    `migrated()` for one with the schema, made from a template.
    """

    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self.directory = directory
        self.process = process
        self._numbers = itertools.count()

    def connect_args(self, database: str, user: str = "admin") -> Mapping[str, Any]:
        return {
            "host": str(self.directory),
            "user": user,
            "database": database,
            "password": "",
            "ssl": False,
        }

    async def sql(self, statement: str, *arguments: object, database: str = "postgres") -> None:
        connection = await asyncpg.connect(**self.connect_args(database))
        try:
            await connection.execute(statement, *arguments)
        finally:
            await connection.close()

    @asynccontextmanager
    async def empty(self, *, owner: str = "admin", template: str = "template0") -> AsyncIterator[str]:
        """Lend a database's name."""
        name = f"test_{next(self._numbers)}"
        await self.sql(f"CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}")
        try:
            yield name
        finally:
            await self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    @asynccontextmanager
    async def migrated(self) -> AsyncIterator[Mapping[str, Any]]:
        async with self.empty(template=_TEMPLATE) as name:
            yield self.connect_args(name)

    async def prepare(self) -> None:
        await self.sql(f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0")
        await migrate(self.connect_args(_TEMPLATE))


@asynccontextmanager
async def running_server(
    version: str, *, is_prepared: bool = True, address: str | None = None
) -> AsyncIterator[TestServer]:
    """Run a server. One that is not prepared knows none of codehub's roles yet. `address`: of this machine,
    where everybody is trusted, too.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"codehub-{version}-"))
    try:
        programs = DEBIAN_15 if version == "postgres-15" else await _wheel()
        server = await _start(programs, directory, address)
        try:
            if is_prepared:
                await server.prepare()
            yield server
        finally:
            await asyncio.to_thread(_stop, server.process)
    finally:
        shutil.rmtree(directory)


async def _wheel() -> Path:
    clock = SystemClock()
    return (await usable_binaries(await server_account(clock), cache_dir=None, clock=clock)).postgres.parent


async def _start(programs: Path, directory: Path, address: str | None) -> TestServer:
    # Not in a thread: what is to end with its parent ends with the thread that started it.
    server = TestServer(directory, _launch(programs, directory, address))
    try:
        await until(lambda: _is_ready(server))
    except BaseException:
        _stop(server.process)
        raise
    return server


def _launch(programs: Path, directory: Path, address: str | None) -> subprocess.Popen[bytes]:
    prefix = ["setpriv", "--pdeathsig", "QUIT"]  # it ends with us, even if we are killed
    if os.geteuid() == 0:  # as which PostgreSQL refuses to run
        os.chown(directory, _NOBODY, _NOBODY)
        prefix += [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    data = str(directory / "data")
    initdb = (
        str(programs / "initdb"),
        "-D",
        data,
        "-U",
        "admin",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "-N",
    )
    subprocess.run([*prefix, *initdb], cwd="/", check=True, stdin=subprocess.DEVNULL, capture_output=True)
    if address is not None:
        with Path(data, "pg_hba.conf").open("a") as rules:
            rules.write("host all all 0.0.0.0/0 trust\n")
    settings = (
        *(f"listen_addresses={address or ''}", f"unix_socket_directories={directory}", "max_connections=100"),
        *("fsync=off", "synchronous_commit=off", "full_page_writes=off", "jit=off"),
        "autovacuum=off",  # its transactions would hold back what a stream is told
    )
    options = [word for setting in settings for word in ("-c", setting)]
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            [*prefix, str(programs / "postgres"), "-D", data, *options],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


async def _is_ready(server: TestServer) -> bool:
    try:
        await server.sql("SELECT 1")
    except (OSError, asyncpg.PostgresError):
        if server.process.poll() is not None:
            raise RuntimeError("the server ended: read the log in its directory") from None
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait(PATIENCE_S)
