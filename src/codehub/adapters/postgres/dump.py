"""A database goes in and PostgreSQL's own dump of it comes out, by the programs in the wheel; or the other way round, in one transaction.

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

from codehub.adapters.postgres.connect import ConnectArgs, Role, reaching
from codehub.adapters.postgres.embedded.binaries import installed
from codehub.adapters.postgres.migrate import prepare_roles

_PART_BYTES = 1 << 20
_WHOSE = "SELECT id, now() FROM installation"
_HOMES = """
    SELECT id, name, storage_backend, home_store_key, archive_key,
        home_ctx ->> 'volume_id', (home_ctx ->> 'dirty')::boolean FROM workspaces ORDER BY id
"""
_HOLDS_ANYTHING = """
    SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'S'))
"""
# Of an older server than the dump's program, whose dump sets it: it is nothing that a server of that age has.
_UNKNOWN_TO_OLDER = b"SET transaction_timeout = 0;\n"
# What was seen of the archive before was of another one: the next look decides.
_USE_HOME = """
    UPDATE workspaces SET archive_key = $2, version = version + 1,
        home_ctx = home_ctx || '{"volume_id": null, "dirty": false}',
        conditions = jsonb_set(conditions, '{storage.archive_ready}',
            '{"status": "Unknown", "reason": "NotLooked", "message": "It comes from a back-up.", "last_transition_time": null}')
    WHERE id = $1 AND home_ctx ->> 'volume_id' IS NOT DISTINCT FROM $3 AND deleted_at IS NULL
"""


class DumpFailed(Exception):
    """The dump could not be made or loaded. It says why, in PostgreSQL's words."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a database: whose it is, and what its workspaces have in the other stores. Good while it is held."""

    id: str
    installation: str
    taken_at: datetime
    homes: tuple["HomeThen", ...]


@dataclass(frozen=True, slots=True)
class HomeThen:
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
    """Hold one moment of a database. What is read and dumped of it is the same."""
    async with reaching():
        connection = await asyncpg.connect(**connect_args)
    try:
        await connection.execute(f"SET ROLE {Role.OWNER}")
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            name = await connection.fetchval("SELECT pg_export_snapshot()")
            (whose,) = await connection.fetch(_WHOSE)
            homes = tuple(HomeThen(*row) for row in await connection.fetch(_HOMES))
            yield Snapshot(name, str(whose["id"]), whose["now"], homes)
    finally:
        await connection.close()


async def dumped(connect_args: ConnectArgs, taken: Snapshot) -> AsyncGenerator[bytes, None]:
    """Yield the dump of a snapshot, part by part. Raises DumpFailed at its end if it is not whole."""
    words, environment = _connection(connect_args)
    process = await asyncio.create_subprocess_exec(
        str(installed().postgres.with_name("pg_dump")),
        *("--format=custom", "--no-password", f"--role={Role.OWNER}", f"--snapshot={taken.id}", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told = asyncio.ensure_future(process.stderr.read())
    try:
        while part := await process.stdout.read(_PART_BYTES):
            yield part
        if await process.wait():
            raise DumpFailed((await told).decode(errors="replace").strip())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await asyncio.wait([told])


async def refuse_used(connect_args: ConnectArgs) -> None:
    """Raise DumpFailed unless nothing is in the database."""
    async with reaching():
        connection = await asyncpg.connect(**connect_args)
        try:
            holds_anything = await connection.fetchval(_HOLDS_ANYTHING)
        finally:
            await connection.close()
    if holds_anything:
        raise DumpFailed("the database is not empty")


async def load(connect_args: ConnectArgs, dump: Path) -> None:
    """Load a dump into an empty database, all or nothing."""
    await refuse_used(connect_args)
    async with reaching():
        connection = await asyncpg.connect(**connect_args)
        try:
            await prepare_roles(connection)
        finally:
            await connection.close()
    programs = installed().postgres.parent
    script = dump.with_suffix(".sql")
    script.touch(mode=0o600)
    try:
        await _run(programs / "pg_restore", "--exit-on-error", f"--file={script}", str(dump))
        await asyncio.to_thread(_leave_out, script)
        words, environment = _connection(connect_args)
        only = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--no-password")
        await _run(programs / "psql", *only, f"--file={script}", *words, environment=environment)
    finally:
        script.unlink(missing_ok=True)


async def use_home(
    connect_args: ConnectArgs, workspace_id: UUID, archive_key: str, volume_id: str | None
) -> None:
    """Let a workspace whose volume is not there any more rest in the archive that was made of it."""
    async with reaching():
        connection = await asyncpg.connect(**connect_args)
        try:
            await connection.execute(f"SET ROLE {Role.CONTROLLER}")
            await connection.execute(_USE_HOME, workspace_id, archive_key, volume_id)
        finally:
            await connection.close()


async def _run(program: Path, *words: str, environment: dict[str, str] | None = None) -> None:
    process = await asyncio.create_subprocess_exec(
        str(program),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment or _environment(),
    )
    try:
        told, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        raise DumpFailed(told.decode(errors="replace").strip())


def _leave_out(script: Path) -> None:
    """Make a comment of what older servers do not know. It stands before the first table."""
    with script.open("r+b") as file:
        head = file.read(_PART_BYTES)
        file.seek(0)
        file.write(head.replace(_UNKNOWN_TO_OLDER, b"--" + b" " * (len(_UNKNOWN_TO_OLDER) - 3) + b"\n"))


def _connection(connect_args: ConnectArgs) -> tuple[list[str], dict[str, str]]:
    """Return what a program of PostgreSQL's is told on its command line, which everybody sees, and in its environment, which nobody does."""
    if (url := connect_args.get("dsn")) is None:
        named = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}
        return [], _environment() | {name: str(connect_args[key]) for key, name in named.items()}
    environment = {**os.environ, "LC_ALL": "C"}
    parts = urlsplit(str(url))
    if parts.password is not None:
        environment["PGPASSWORD"] = unquote(parts.password)
        user = f"{quote(unquote(parts.username or ''), safe='')}@"
        parts = parts._replace(netloc=user + parts.netloc.rpartition("@")[2])
    return [f"--dbname={urlunsplit(parts)}"], environment


def _environment() -> dict[str, str]:
    """Return ours without what would lead a program of PostgreSQL's elsewhere, and so that its words can be read."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
