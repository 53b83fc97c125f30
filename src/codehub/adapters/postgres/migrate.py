"""Bring a database to this program's schema: roles first, then numbered SQL files, each once.

A file expands the schema, so that the release before goes on beside it, unless it says in its
first line that it contracts it. Refuses what can't be done safely, and says why.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import asyncpg
import structlog

from codehub.adapters.postgres.connect import ConnectArgs, Role, report_outages

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Connection

log = structlog.get_logger()

SERVER_VERSION_MIN = 15
_LOCK = 0x636F6465687562  # "codehub": one key for all processes that migrate this database
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_CONTRACTS = "-- contract"
_ROLE_ATTEMPTS_MAX = 5
# Whoever waits for a lock on a table stops everybody who comes after: so it waits shortly, and comes back.
_LOCK_WAIT = "SET LOCAL lock_timeout = '2s'"
_LOCK_ATTEMPTS_MAX = 30
_HAS_STAMPS = """
    SELECT to_regclass('idx_workspaces_changed') IS NOT NULL
        AND to_regclass('workspace_events_in_order') IS NOT NULL
"""
_TELLS_CONTRACTIONS = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'schema_migrations'::regclass AND attname = 'contracts' AND NOT attisdropped
    )
"""
# Whatever this cluster's transactions have written is older than the next of them. Two looks at the end of an
# index each.
_IS_AHEAD = """
    SELECT greatest((SELECT max(changed_xid) FROM workspaces), (SELECT max(xact) FROM workspace_events))
        >= pg_snapshot_xmax(pg_current_snapshot())
"""
# Without the trigger, for nobody has changed these workspaces. Of the history everything from the first such
# event on is of one transaction then, and in the order of its numbers: what was written here since the dump
# was restored comes after it, as it did.
_CATCH_UP = """
    ALTER TABLE workspaces DISABLE TRIGGER workspaces_stamp_update;
    UPDATE workspaces SET changed_xid = pg_current_xact_id()
        WHERE changed_xid >= pg_snapshot_xmax(pg_current_snapshot());
    ALTER TABLE workspaces ENABLE TRIGGER workspaces_stamp_update;
    UPDATE workspace_events SET xact = pg_current_xact_id() WHERE seq >= (
        SELECT min(seq) FROM workspace_events WHERE xact >= pg_snapshot_xmax(pg_current_snapshot())
    );
"""


class MigrationRefused(Exception):
    """The message says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def contracts(self) -> bool:
        """Whether it takes away what the release before needs: it waits until that serves nowhere."""
        return self.sql.startswith(_CONTRACTS)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped_migrations() -> Sequence[Migration]:
    files = resources.files(__package__).joinpath("schema").iterdir()
    return sorted(
        (
            Migration(int(match[1]), match[2], file.read_text("utf-8"))
            for file in files
            if (match := _FILE.fullmatch(file.name)) is not None
        ),
        key=lambda migration: migration.number,
    )


async def migrate(
    connect_args: ConnectArgs, migrations: Sequence[Migration] | None = None, *, contracts: bool = False
) -> Sequence[Migration]:
    """Apply what is missing and return it. `contracts`: what contracts a schema in use, too.

    Processes that start at once wait for each other: each migration runs once.
    """
    async with report_outages():
        connection = await asyncpg.connect(**connect_args)
    try:
        check_server(connection)
        async with report_outages():
            await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
            await prepare_roles(connection)
            await connection.execute(f"SET ROLE {Role.OWNER}")
            shipped = shipped_migrations() if migrations is None else migrations
            applied = await _apply(connection, shipped, contracts=contracts)
            await _catch_up(connection)
            return applied
    finally:
        await connection.close()  # which gives the lock back


def check_server(connection: "Connection") -> None:
    version = connection.get_server_version()
    if version.major < SERVER_VERSION_MIN:
        raise MigrationRefused(
            f"The server is PostgreSQL {version.major}.{version.minor}; codehub needs {SERVER_VERSION_MIN} "
            "or later. Upgrade it, or unset CODEHUB_DATABASE_URL to use the embedded one."
        )


async def prepare_roles(connection: "Connection") -> None:
    """Make what the login may make.

    Roles belong to the whole cluster: another database's codehub may be making them now.
    """
    for _attempt in range(_ROLE_ATTEMPTS_MAX):
        missing = await missing_grants(connection)
        if not missing:
            return
        try:
            for statement in missing:
                await connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError as error:
            raise MigrationRefused(await _grants_message(connection)) from error
        except (
            asyncpg.DuplicateObjectError,
            asyncpg.UniqueViolationError,
            asyncpg.InternalServerError,  # "tuple concurrently updated"
        ) as error:
            log.info("roles_made_elsewhere", reason=str(error))
    if await missing_grants(connection):
        raise MigrationRefused(await _grants_message(connection))


async def missing_grants(connection: "Connection") -> Sequence[str]:
    """Return the SQL after which this login can migrate and run codehub: nothing if it already can."""
    existing = {
        row["rolname"]
        for row in await connection.fetch(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY ($1::text[])", [role.value for role in Role]
        )
    }
    # From 16 on, being a member and being allowed to SET ROLE are two things.
    mode = "SET" if connection.get_server_version().major >= 16 else "MEMBER"  # noqa: PLR2004  # the release that split them
    statements = [f"CREATE ROLE {role} NOLOGIN" for role in Role if role not in existing]
    not_granted = [
        role.value
        for role in Role
        if role not in existing
        or not await connection.fetchval("SELECT pg_has_role($1::name, $2)", role.value, mode)
    ]
    if not_granted:
        login = await connection.fetchval("SELECT quote_ident(current_user)")
        statements.append(f"GRANT {', '.join(not_granted)} TO {login}")
    may_create = Role.OWNER in existing and await connection.fetchval(
        (
            "SELECT has_schema_privilege($1::name, 'public', 'USAGE') AND has_schema_privilege($1::name, "
            "'public', 'CREATE')"
        ),
        Role.OWNER.value,
    )
    if not may_create:
        statements.append(f"GRANT USAGE, CREATE ON SCHEMA public TO {Role.OWNER}")
    return statements


async def _grants_message(connection: "Connection") -> str:
    login, database = await connection.fetchrow("SELECT current_user, current_database()") or ("", "")
    statements = "".join(f"\n    {statement};" for statement in await missing_grants(connection))
    return (
        f"The login {login} may not make codehub's roles. Let an administrator run this in the database "
        f"{database}, then start codehub again:{statements}"
    )


async def _apply(
    connection: "Connection", migrations: Sequence[Migration], *, contracts: bool
) -> Sequence[Migration]:
    applied = await _read_applied(connection)
    _check_applied(applied, {migration.number: migration for migration in migrations})
    is_in_use = bool(applied)
    pending = [migration for migration in migrations if migration.number not in applied]
    now = [migration for migration in pending if contracts or not (migration.contracts and is_in_use)]
    for migration in now:
        await _apply_when_free(connection, migration)
        log.info("migrated", number=migration.number, name=migration.name)
    if len(now) < len(pending):
        log.info("contractions_wait", left=len(pending) - len(now), command="codehub migrate --contract")
    return now


async def _apply_when_free(connection: "Connection", migration: Migration) -> None:
    """Apply it between the requests of those that serve, none of which is kept waiting for long."""
    for attempt in range(1, _LOCK_ATTEMPTS_MAX + 1):
        try:
            async with connection.transaction():
                await connection.execute(_LOCK_WAIT)
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO schema_migrations (number, name, sha256, contracts) VALUES ($1, $2, $3, $4)",
                    migration.number,
                    migration.name,
                    migration.sha256,
                    migration.contracts,
                )
        except asyncpg.LockNotAvailableError as error:
            if attempt == _LOCK_ATTEMPTS_MAX:
                raise MigrationRefused(
                    f"Migration {migration.number:04} {migration.name} found a table in use each of "
                    f"{attempt} times ({error}). End what holds it (pg_stat_activity shows long "
                    "transactions), then start codehub again."
                ) from None
            log.info("migration_waits", number=migration.number, name=migration.name)
        else:
            return


async def _catch_up(connection: "Connection") -> None:
    """Let nothing be of a transaction that is still to come: a dump brings the numbers of the cluster that it
    was made in.

    Readers look again at what a transaction that was open may have written. Until this cluster had got that
    far they would read all of it at every look, and streams would wait for it.
    """
    if not await connection.fetchval(_HAS_STAMPS) or not await connection.fetchval(_IS_AHEAD):
        return
    async with connection.transaction():
        await connection.execute(_CATCH_UP)
    log.info("caught_up_with_another_cluster")


async def _read_applied(connection: "Connection") -> Mapping[int, asyncpg.Record]:
    await connection.execute("""
        CREATE TABLE IF NOT EXISTS schema_migrations (
            number integer PRIMARY KEY,
            name text NOT NULL,
            sha256 text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
        )
    """)
    if not await connection.fetchval(_TELLS_CONTRACTIONS):
        await connection.execute(
            "ALTER TABLE schema_migrations ADD COLUMN contracts boolean NOT NULL DEFAULT false"
        )
    return {row["number"]: row for row in await connection.fetch("SELECT * FROM schema_migrations")}


def _check_applied(applied: Mapping[int, asyncpg.Record], shipped: Mapping[int, Migration]) -> None:
    unknown = {number: applied[number] for number in sorted(applied.keys() - shipped.keys())}
    names = ", ".join(f"{number:04} {row['name']}" for number, row in unknown.items())
    if any(row["contracts"] for row in unknown.values()):
        raise MigrationRefused(
            f"The database is newer than this program: it has had {names}. Run the version of codehub that "
            "made it, or a later one."
        )
    if unknown:
        log.warning("database_is_newer", migrations=names)
    for number, row in sorted(applied.items()):
        if number in shipped and row["sha256"] != shipped[number].sha256:
            raise MigrationRefused(
                f"Migration {number:04} {row['name']} is not the one this database has had. Migrations are "
                "never edited: run the version of codehub that made the database, or a later one, and put "
                "changes in a new file."
            )
