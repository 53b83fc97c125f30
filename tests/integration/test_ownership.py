"""Who may write what: every column has one owner, and the database holds everybody to it."""

from collections.abc import Mapping
from dataclasses import fields

import asyncpg
import pytest
from tests.support.stores import PostgresWorld

from codehub.adapters.postgres.connect import Role
from codehub.core.workspace import Spec, Status

API, CONTROLLER = Role.API, Role.CONTROLLER
DATABASE = None  # nobody's but the database's own

# What people set is the API's, what was seen is the controller's: the two dataclasses say which is which.
OWNER: Mapping[str, Role | None] = {
    "id": API,
    **{field.name: API for field in fields(Spec)},
    **{field.name: CONTROLLER for field in fields(Status)},
    "observed_status": DATABASE,
    "health_status": DATABASE,
    "error_reason": DATABASE,
    "error_message": DATABASE,
    "created_at": DATABASE,
    "updated_at": DATABASE,
    "changed_xid": DATABASE,
    "label": DATABASE,
}

# What each role may do with a table or with some of its columns: the API's, then the controller's.
TABLES: Mapping[str, tuple[set[str], set[str]]] = {
    "users": ({"SELECT", "INSERT", "UPDATE"}, {"SELECT"}),
    "sessions": ({"SELECT", "INSERT", "UPDATE", "DELETE"}, set()),
    "api_tokens": ({"SELECT", "INSERT", "UPDATE", "DELETE"}, set()),
    "idempotency_keys": ({"SELECT", "INSERT", "DELETE"}, set()),
    "workspaces": ({"SELECT", "INSERT", "UPDATE"}, {"SELECT", "UPDATE"}),
    "workspace_events": ({"SELECT", "INSERT"}, {"SELECT", "INSERT", "DELETE"}),
    "controllers": ({"SELECT"}, {"SELECT", "INSERT", "UPDATE", "DELETE"}),
    "workspace_progress": ({"SELECT"}, {"SELECT", "INSERT", "UPDATE", "DELETE"}),
    "workspace_usage": ({"SELECT"}, {"SELECT", "INSERT", "UPDATE", "DELETE"}),
    "disk_shortage": ({"SELECT"}, {"SELECT", "INSERT", "UPDATE", "DELETE"}),
    "login_failures": ({"SELECT", "INSERT", "UPDATE", "DELETE"}, set()),
    "installation": ({"SELECT"}, {"SELECT"}),
    "device_key": ({"SELECT"}, set()),
    "door_codes": ({"SELECT", "INSERT", "DELETE"}, set()),
    "doors": ({"SELECT", "INSERT", "DELETE"}, set()),
    "workspace_ports": ({"SELECT", "INSERT", "UPDATE", "DELETE"}, set()),
    "schema_migrations": (set(), set()),
}


async def test_every_column_has_a_declared_owner(postgres: PostgresWorld) -> None:
    columns = await postgres.admin.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = "
        "'workspaces'"
    )
    assert {column["column_name"] for column in columns} == set(OWNER)


@pytest.mark.parametrize("column", OWNER)
async def test_the_database_refuses_whoever_does_not_own_the_column(
    postgres: PostgresWorld, column: str
) -> None:
    for role, pool in ((API, postgres.api_pool), (CONTROLLER, postgres.controller_pool)):
        may_update = OWNER[column] is role
        may_insert = may_update and role is API
        for allowed, statement in (
            (may_update, f"UPDATE workspaces SET {column} = {column} WHERE false"),
            (may_insert, f"INSERT INTO workspaces ({column}) SELECT {column} FROM workspaces WHERE false"),
        ):
            if allowed:
                await pool.execute(statement)
            else:
                with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.GeneratedAlwaysError)):
                    await pool.execute(statement)


async def test_each_role_may_do_what_is_declared_and_no_more(postgres: PostgresWorld) -> None:
    granted = await postgres.admin.fetch("""
        SELECT table_name, grantee, privilege_type FROM information_schema.role_column_grants
        WHERE table_schema = 'public'
        UNION
        SELECT table_name, grantee, privilege_type FROM information_schema.role_table_grants
        WHERE table_schema = 'public'
    """)
    tables = await postgres.admin.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert {row["tablename"] for row in tables} == set(TABLES)
    assert {row["grantee"] for row in granted} <= {*Role}
    for table, declared in TABLES.items():
        for role, wanted in zip((API, CONTROLLER), declared, strict=True):
            privileges = {
                row["privilege_type"]
                for row in granted
                if (row["table_name"], row["grantee"]) == (table, role)
            }
            assert privileges == wanted, (table, role)


async def test_the_controller_sees_no_secret_of_a_user(postgres: PostgresWorld) -> None:
    assert await postgres.controller_pool.fetch("SELECT id, username FROM users")
    for secret in ("password_hash", "role", "disabled"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await postgres.controller_pool.fetch(f"SELECT {secret} FROM users")


async def test_nobody_rewrites_history(postgres: PostgresWorld) -> None:
    for pool in (postgres.api_pool, postgres.controller_pool):
        for column in ("seq", "at", "xact"):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.GeneratedAlwaysError)):
                await pool.execute(
                    f"INSERT INTO workspace_events ({column}) SELECT {column} FROM workspace_events WHERE "
                    "false"
                )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await pool.execute("UPDATE workspace_events SET reason = reason")


async def test_everything_belongs_to_the_owner_role(postgres: PostgresWorld) -> None:
    owners = await postgres.admin.fetch("""
        SELECT relname AS name, relowner::regrole::text AS owner FROM pg_class
        WHERE relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT proname, proowner::regrole::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    """)
    assert {row["owner"] for row in owners} == {Role.OWNER}
