"""Migrations: once each, by whoever comes first, under roles that a login can make or is told how to get."""

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from tests.conftest import POSTGRES
from tests.support.patience import until
from tests.support.postgres import TestServer, running_server
from tests.support.stores import PASSWORD_HASH, PostgresWorld, fetch, made_with_history

from codehub.adapters.postgres import migrate as module
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.migrate import Migration, MigrationRefused, migrate, shipped_migrations
from codehub.adapters.system.machine import SystemIdentity
from codehub.core.amendments import RulingRecord
from codehub.core.requests import Accepted

NUMBERS = [migration.number for migration in shipped_migrations()]


@pytest.fixture(params=POSTGRES, scope="module")
async def unprepared_server(request: pytest.FixtureRequest) -> AsyncIterator[TestServer]:
    async with running_server(request.param, is_prepared=False) as server:
        yield server


@pytest.fixture
async def bare_server(unprepared_server: TestServer) -> AsyncIterator[TestServer]:
    """A server that has never heard of codehub, with three logins."""
    logins = '"plain login", landlord, latecomer'
    await unprepared_server.sql(
        'CREATE ROLE "plain login" LOGIN; CREATE ROLE landlord LOGIN CREATEROLE; CREATE ROLE latecomer LOGIN'
    )
    yield unprepared_server
    await unprepared_server.sql(f"DROP ROLE IF EXISTS {', '.join(Role)}; DROP ROLE {logins}")


@pytest.fixture
async def database(server: TestServer) -> AsyncIterator[Mapping[str, Any]]:
    """An empty database."""
    async with server.empty() as name:
        yield server.connect_args(name)


async def applied(connect_args: Mapping[str, Any]) -> list[int]:
    return await fetch(connect_args, "SELECT number FROM schema_migrations ORDER BY applied_at")


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


async def test_an_empty_database_gets_all_of_them_and_then_none(database: Mapping[str, Any]) -> None:
    assert [migration.number for migration in await migrate(database)] == NUMBERS
    assert await migrate(database) == []
    assert await applied(database) == NUMBERS


async def test_connections_that_start_at_once_migrate_once(database: Mapping[str, Any]) -> None:
    done = await asyncio.gather(*(migrate(database) for _ in range(8)))
    assert sorted(migration.number for each in done for migration in each) == NUMBERS
    assert await applied(database) == NUMBERS


async def test_processes_that_start_at_once_migrate_once(database: Mapping[str, Any]) -> None:
    program = (
        "import asyncio, json, sys; from codehub.adapters.postgres.migrate import migrate;"
        "done = asyncio.run(migrate(json.loads(sys.argv[1])));"
        "print('done', *(migration.number for migration in done))"
    )
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, json.dumps(database), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    outputs = [(await process.communicate())[0].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    numbers = [int(word) for text in outputs for word in re.findall(r"\d+", text.rpartition("done")[2])]
    assert sorted(numbers) == NUMBERS


async def test_a_new_file_is_applied_to_an_old_database(database: Mapping[str, Any]) -> None:
    *old, _newest = shipped_migrations()
    await migrate(database, old)
    assert [migration.number for migration in await migrate(database)] == [NUMBERS[-1]]


async def test_a_home_in_a_directory_that_was_given_a_volume_s_name_gets_its_place(
    database: Mapping[str, Any],
) -> None:
    by_name = {migration.name: migration for migration in shipped_migrations()}
    mend = by_name["home_keys"]
    await migrate(database, [each for each in shipped_migrations() if each.number < mend.number])
    owner_id, *ids = (SystemIdentity().new_id() for _ in range(3))
    connection = await asyncpg.connect(**database)
    try:
        await connection.execute(
            "INSERT INTO users (id, username, password_hash, role) VALUES ($1, 'ann', $2, 'member')",
            *(owner_id, PASSWORD_HASH),
        )
        for workspace_id, storage in zip(ids, ("local-dir", "docker-volume"), strict=True):
            await connection.execute(
                "INSERT INTO workspaces (id, owner_user_id, name, image_ref, ide, resources, "
                "instance_backend, storage_backend, "
                "home_store_key) VALUES ($1::uuid, $2, $3::text, 'image', 'http', '{\"memory_mb\": 1, "
                '"cpus": 1, "pids": 1}\', \'local-docker\', $3, '
                "'ws-' || $1 || '-home')",
                *(workspace_id, owner_id, storage),
            )
    finally:
        await connection.close()
    await migrate(database, [each for each in shipped_migrations() if each.number <= mend.number])
    keys = await fetch(database, "SELECT home_store_key FROM workspaces ORDER BY storage_backend DESC")
    assert keys == [f"users/{owner_id}/workspaces/{ids[0]}/home", f"ws-{ids[1]}-home"]


async def test_what_was_deleted_before_the_trash_could_have_no_end_keeps_its_time(
    database: Mapping[str, Any],
) -> None:
    by_name = {migration.name: migration for migration in shipped_migrations()}
    number = by_name["trash_without_end"].number
    await migrate(database, [each for each in shipped_migrations() if each.number < number])
    owner_id, workspace_id = (SystemIdentity().new_id() for _ in range(2))
    connection = await asyncpg.connect(**database)
    without_end = "UPDATE workspaces SET purge_at = NULL"
    try:
        await connection.execute(
            "INSERT INTO users (id, username, password_hash, role) VALUES ($1, 'ann', $2, 'member')",
            *(owner_id, PASSWORD_HASH),
        )
        await connection.execute(
            "INSERT INTO workspaces (id, owner_user_id, name, image_ref, ide, resources, instance_backend, "
            "storage_backend, home_store_key, desired_state, deleted_at, purge_at) VALUES ($1, $2, 'demo', "
            "'image', 'http', '{\"memory_mb\": 1, \"cpus\": 1, \"pids\": 1}', 'local-docker', "
            "'docker-volume', 'key', 'PENDING', '2026-01-01T00:00:00Z', '2026-01-08T00:00:00Z')",
            *(workspace_id, owner_id),
        )
        with pytest.raises(asyncpg.CheckViolationError, match="workspaces_deletion_has_purge_time"):
            await connection.execute(without_end)
        await migrate(database)
        assert await fetch(database, "SELECT purge_at FROM workspaces") == [datetime(2026, 1, 8, tzinfo=UTC)]
        await connection.execute(without_end)
    finally:
        await connection.close()


async def test_a_migration_that_fails_leaves_nothing_of_itself(database: Mapping[str, Any]) -> None:
    broken = Migration(2, "broken", "CREATE TABLE half (id int); SELECT 1 / 0;")
    first, third = (
        Migration(1, "first", "CREATE TABLE whole (id int)"),
        Migration(3, "third", "CREATE TABLE third (id int)"),
    )
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(database, [first, broken, third])
    assert await applied(database) == [1]
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    assert await fetch(database, tables) == ["schema_migrations", "whole"]
    mended = Migration(2, "mended", "CREATE TABLE half (id int)")
    await migrate(database, [first, mended, third])
    assert await applied(database) == [1, 2, 3]


EXPANDS = Migration(NUMBERS[-1] + 1, "tomorrow", "CREATE TABLE tomorrow (id int)")
CONTRACTS = Migration(
    NUMBERS[-1] + 2, "less", "-- contract: the release before reads tomorrow\nDROP TABLE tomorrow"
)
AFTER = Migration(NUMBERS[-1] + 3, "after", "CREATE TABLE after (id int)")


async def test_a_program_goes_on_with_a_schema_that_a_newer_one_expanded(database: Mapping[str, Any]) -> None:
    await migrate(database)
    assert await migrate(database, [*shipped_migrations(), EXPANDS]) == [EXPANDS]
    assert await migrate(database) == []


async def test_a_schema_in_use_is_contracted_when_somebody_says_that_nobody_needs_the_rest(
    database: Mapping[str, Any],
) -> None:
    await migrate(database)
    newer = [*shipped_migrations(), EXPANDS, CONTRACTS, AFTER]
    assert await migrate(database, newer) == [EXPANDS, AFTER]
    assert await migrate(database) == []
    assert await migrate(database, newer, contracts=True) == [CONTRACTS]
    with pytest.raises(MigrationRefused, match=rf"it has had {EXPANDS.number:04} tomorrow, .* less"):
        await migrate(database)


async def test_an_empty_database_is_contracted_at_once(database: Mapping[str, Any]) -> None:
    newer = [*shipped_migrations(), EXPANDS, CONTRACTS, AFTER]
    assert await migrate(database, newer) == newer


async def test_a_migration_keeps_nobody_waiting_behind_a_transaction_that_lasts(
    database: Mapping[str, Any],
) -> None:
    """It waits for its turn, and gives the turn to others meanwhile."""
    await migrate(database)
    reader, other = await asyncpg.connect(**database), await asyncpg.connect(**database)
    widen = Migration(EXPANDS.number, "wider", "ALTER TABLE workspaces ADD COLUMN wider integer")
    try:
        open_transaction = reader.transaction()
        await open_transaction.start()
        await reader.fetch("SELECT FROM workspaces")
        migrating = asyncio.ensure_future(migrate(database, [*shipped_migrations(), widen]))
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        await until(lambda: other.fetchval(waits))
        await other.fetch("SELECT FROM workspaces")
        assert not migrating.done()
        await open_transaction.rollback()
        assert await migrating == [widen]
    finally:
        await reader.close()
        await other.close()


async def test_requests_go_on_while_a_table_is_expanded_under_them(server: TestServer) -> None:
    """Statements in transactions, too, which were prepared for fewer columns."""
    async with PostgresWorld.opened(server) as world:
        await world.add_user()
        row = await made_with_history(world)

        async def request() -> None:
            await world.api.amend(row, lambda workspace, _now: RulingRecord(Accepted(workspace.spec)))
            await made_with_history(world)
            await world.controller.changes("0/0")

        await request()
        await world.admin.execute("ALTER TABLE workspaces ADD COLUMN wider integer")
        await request()


# What the first nineteen did was before anybody served beside them.
_TAKES_AWAY = re.compile(
    r"\b(DROP\s+(TABLE|COLUMN|FUNCTION|VIEW|ROLE)|RENAME|SET\s+NOT\s+NULL|ALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE|REVOKE)\b"
    r"|ADD\s+(COLUMN\s+)?(IF\s+NOT\s+EXISTS\s+)?\w+[^,;]*\bNOT\s+NULL\b(?![^,;]*\b(DEFAULT|GENERATED)\b)",
    re.IGNORECASE,
)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE workspaces DROP COLUMN memo",
        "ALTER TABLE workspaces ALTER COLUMN memo SET NOT NULL",
        "ALTER TABLE workspaces ALTER COLUMN memo TYPE integer",
        "ALTER TABLE workspaces RENAME memo TO note",
        "ALTER TABLE workspaces ADD COLUMN colour text NOT NULL",
        "REVOKE UPDATE ON workspaces FROM codehub_api",
    ],
)
def test_what_takes_something_away_from_the_release_before_is_recognised(sql: str) -> None:
    assert _TAKES_AWAY.search(sql)


def test_what_only_adds_is_recognised() -> None:
    for sql in ("ADD COLUMN colour text NOT NULL DEFAULT 'red'", "ADD COLUMN colour text", EXPANDS.sql):
        assert not _TAKES_AWAY.search(f"ALTER TABLE workspaces {sql}")


def test_a_migration_takes_nothing_away_unless_it_says_so() -> None:
    for migration in shipped_migrations()[19:]:
        statements = re.sub(r"--[^\n]*", "", migration.sql)
        assert migration.contracts or not _TAKES_AWAY.search(statements), (
            f"{migration.number:04} {migration.name}: the release before still serves (CONTRIBUTING, "
            "Migrations)"
        )


async def test_a_migration_that_was_edited_is_refused(database: Mapping[str, Any]) -> None:
    first, *rest = shipped_migrations()
    await migrate(database)
    with pytest.raises(MigrationRefused, match="Migration 0001 people is not the one this database has had"):
        await migrate(database, [Migration(first.number, first.name, first.sql + " "), *rest])


def test_what_a_database_remembers_is_the_file_itself() -> None:
    first = shipped_migrations()[0]
    assert first.sha256 == hashlib.sha256(first.sql.encode()).hexdigest()


def test_an_old_server_is_refused() -> None:
    old: Any = SimpleNamespace(get_server_version=lambda: SimpleNamespace(major=14, minor=9))
    with pytest.raises(MigrationRefused, match=r"PostgreSQL 14\.9; codehub needs 15 or later"):
        module.check_server(old)


# Roles


async def test_an_administrators_sql_is_all_that_a_plain_login_needs(bare_server: TestServer) -> None:
    async with bare_server.empty() as name:
        connect_args = bare_server.connect_args(name, user="plain login")
        with pytest.raises(
            MigrationRefused, match="Let an administrator run this in the database"
        ) as refused:
            await migrate(connect_args)
        statements = re.findall(r"^    (.*;)$", str(refused.value), re.MULTILINE)
        assert statements == [
            "CREATE ROLE codehub_owner NOLOGIN;",
            "CREATE ROLE codehub_api NOLOGIN;",
            "CREATE ROLE codehub_controller NOLOGIN;",
            'GRANT codehub_owner, codehub_api, codehub_controller TO "plain login";',
            "GRANT USAGE, CREATE ON SCHEMA public TO codehub_owner;",
        ]
        for statement in statements:
            await bare_server.sql(statement, database=name)
        assert len(await migrate(connect_args)) == len(NUMBERS)
        assert await migrate(connect_args) == []
        for role in (Role.API, Role.CONTROLLER):
            pool = await open_pool(connect_args, role)
            assert await pool.fetchval("SELECT current_user") == role
            assert await pool.fetch("SELECT * FROM workspaces") == []
            await pool.close()


async def test_only_what_is_missing_is_asked_for(bare_server: TestServer) -> None:
    async with bare_server.empty() as elsewhere, bare_server.empty(owner="latecomer") as name:
        await migrate(bare_server.connect_args(elsewhere))  # the roles are there now
        with pytest.raises(MigrationRefused) as refused:
            await migrate(bare_server.connect_args(name, user="latecomer"))
        assert "CREATE ROLE" not in str(refused.value)
        assert "GRANT codehub_owner, codehub_api, codehub_controller TO latecomer;" in str(refused.value)


async def test_a_login_that_may_create_roles_and_owns_the_database_needs_nobody(
    bare_server: TestServer,
) -> None:
    async with bare_server.empty(owner="landlord") as name:
        connect_args = bare_server.connect_args(name, user="landlord")
        assert len(await migrate(connect_args)) == len(NUMBERS)
        await (await open_pool(connect_args, Role.API)).close()


async def test_databases_that_are_migrated_at_once_share_the_roles(bare_server: TestServer) -> None:
    async with bare_server.empty() as first, bare_server.empty() as second, bare_server.empty() as third:
        databases = [bare_server.connect_args(name) for name in (first, second, third)]
        done = await asyncio.gather(*(migrate(each) for each in databases))
        assert [len(each) for each in done] == [len(NUMBERS)] * 3
