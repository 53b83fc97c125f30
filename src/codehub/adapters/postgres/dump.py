"""A database goes in and PostgreSQL's own dump of it comes out, by the programs in the wheel; or the other
way round, in one transaction.

Refuses to load into a database that holds anything.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from codehub.adapters.postgres.connect import ConnectArgs, Role, report_outages
from codehub.adapters.postgres.embedded.binaries import find_installed
from codehub.adapters.postgres.migrate import prepare_roles

_PART_BYTES = 1 << 20
_INSTALLATION = "SELECT id, now() FROM installation"
_HOMES = """
    SELECT id, name, storage_backend, home_store_key, archive_key,
        home_ctx ->> 'volume_id', (home_ctx ->> 'dirty')::boolean FROM workspaces ORDER BY id
"""
_HAS_CONTENT = """
    SELECT EXISTS (
        SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'S')
    )
"""
# Of an older server than the dump's program, whose dump sets it: it is nothing that a server of that age has.
_UNKNOWN_TO_OLDER = b"SET transaction_timeout = 0;\n"
# What was seen of the archive before was of another one: the next look decides.
_USE_HOME = """
    UPDATE workspaces SET archive_key = $2, version = version + 1,
        home_ctx = home_ctx || '{"volume_id": null, "dirty": false}',
        conditions = jsonb_set(conditions, '{storage.archive_ready}',
            '{"status": "Unknown", "reason": "NotLooked", "message": "It comes from a back-up.",
              "last_transition_time": null}')
    WHERE id = $1 AND home_ctx ->> 'volume_id' IS NOT DISTINCT FROM $3 AND deleted_at IS NULL
"""


class DumpFailed(Exception):
    """The dump could not be made or loaded. It says why, in PostgreSQL's message."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a database: its installation, and the homes of its workspaces. Valid while it is open."""

    id: str
    installation: str
    taken_at: datetime
    homes: tuple["HomeSnapshot", ...]


@dataclass(frozen=True, slots=True)
class HomeSnapshot:
    """Where a workspace's files were at that moment."""

    workspace_id: UUID
    name: str
    storage_backend: str
    home_store_key: str
    archive_key: str | None
    volume_id: str | None
    dirty: bool


@asynccontextmanager
async def snapshot(connect_args: ConnectArgs) -> AsyncIterator[Snapshot]:
    """Open a snapshot of a database: all that is read and dumped of it is consistent."""
    async with report_outages():
        connection = await asyncpg.connect(**connect_args)
    try:
        await connection.execute(f"SET ROLE {Role.OWNER}")
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            name = await connection.fetchval("SELECT pg_export_snapshot()")
            (installation,) = await connection.fetch(_INSTALLATION)
            homes = tuple(HomeSnapshot(*row) for row in await connection.fetch(_HOMES))
            yield Snapshot(name, str(installation["id"]), installation["now"], homes)
    finally:
        await connection.close()


async def dump_database(connect_args: ConnectArgs, snapshot_taken: Snapshot) -> AsyncGenerator[bytes, None]:
    """Yield the dump of a snapshot, part by part. Raises DumpFailed at its end if it is not whole."""
    options, environment = client_options(connect_args)
    process = await asyncio.create_subprocess_exec(
        str(find_installed().postgres.with_name("pg_dump")),
        *(
            "--format=custom",
            "--no-password",
            f"--role={Role.OWNER}",
            f"--snapshot={snapshot_taken.id}",
            *options,
        ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    error_output = asyncio.ensure_future(process.stderr.read())
    try:
        while part := await process.stdout.read(_PART_BYTES):
            yield part
        if await process.wait():
            raise DumpFailed((await error_output).decode(errors="replace").strip())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.wait([error_output])


async def require_empty(connect_args: ConnectArgs) -> None:
    """Raise DumpFailed unless nothing is in the database."""
    async with report_outages():
        connection = await asyncpg.connect(**connect_args)
        try:
            has_content = await connection.fetchval(_HAS_CONTENT)
        finally:
            await connection.close()
    if has_content:
        raise DumpFailed("the database is not empty")


async def load(connect_args: ConnectArgs, dump: Path) -> None:
    """Load a dump into an empty database, all or nothing."""
    await require_empty(connect_args)
    async with report_outages():
        connection = await asyncpg.connect(**connect_args)
        try:
            await prepare_roles(connection)
        finally:
            await connection.close()
    programs = find_installed().postgres.parent
    script = dump.with_suffix(".sql")
    script.touch(mode=0o600)
    try:
        await _run(programs / "pg_restore", "--exit-on-error", f"--file={script}", str(dump))
        await asyncio.to_thread(_comment_out, script)
        options, environment = client_options(connect_args)
        psql_options = (
            "--no-psqlrc",
            "--quiet",
            "--single-transaction",
            "--set=ON_ERROR_STOP=1",
            "--no-password",
        )
        await _run(programs / "psql", *psql_options, f"--file={script}", *options, environment=environment)
    finally:
        script.unlink(missing_ok=True)


async def use_home(
    connect_args: ConnectArgs, workspace_id: UUID, archive_key: str, volume_id: str | None
) -> None:
    """Set a workspace whose volume is gone to use the archive that was made of it."""
    async with report_outages():
        connection = await asyncpg.connect(**connect_args)
        try:
            await connection.execute(f"SET ROLE {Role.CONTROLLER}")
            await connection.execute(_USE_HOME, workspace_id, archive_key, volume_id)
        finally:
            await connection.close()


async def _run(program: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
    process = await asyncio.create_subprocess_exec(
        str(program),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment or _environment(),
    )
    try:
        output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise DumpFailed(output.decode(errors="replace").strip())


def _comment_out(script: Path) -> None:
    """Make a comment of what older servers do not know. It stands before the first table."""
    with script.open("r+b") as file:
        head = file.read(_PART_BYTES)
        file.seek(0)
        file.write(head.replace(_UNKNOWN_TO_OLDER, b"--" + b" " * (len(_UNKNOWN_TO_OLDER) - 3) + b"\n"))


def client_options(connect_args: ConnectArgs) -> tuple[list[str], dict[str, str]]:
    """Return the options and the environment for a program of PostgreSQL. The password is in the environment,
    because every user can see a command line.
    """
    if (url := connect_args.get("dsn")) is None:
        variables = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}
        return [], _environment() | {name: str(connect_args[key]) for key, name in variables.items()}
    environment = {**os.environ, "LC_ALL": "C"}
    parts = urlsplit(str(url))
    if parts.password is not None:
        environment["PGPASSWORD"] = unquote(parts.password)
        user = f"{quote(unquote(parts.username or ''), safe='')}@"
        parts = parts._replace(netloc=user + parts.netloc.rpartition("@")[2])
    return [f"--dbname={urlunsplit(parts)}"], environment


def _environment() -> dict[str, str]:
    """Return our environment without PostgreSQL's variables, and with English messages."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
