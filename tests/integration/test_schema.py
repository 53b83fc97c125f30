"""The schema itself: who may write what, what it derives, what it refuses, and that it agrees with the core."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.support.stores import PostgresWorld
from tests.support.workspaces import ABSENT, NOT_READY, READY, UNKNOWN, conditions, workspace

from codehub.adapters.memory.rules import contradictions, is_due
from codehub.adapters.postgres.connect import Role
from codehub.adapters.postgres.rows import from_changes, from_spec
from codehub.adapters.postgres.sql import statements
from codehub.core.conditions import Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.history import EventKind
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import (
    InstanceBackend,
    ObservedStatus,
    StorageBackend,
    Workspace,
    counts_as_running,
    health_status,
    observed_status,
)
from codehub.ports.store import Change

API, CONTROLLER = Role.API, Role.CONTROLLER
DATABASE = None  # nobody's but the database's own

# Spec §4 and wire.md, column by column.
OWNER: Mapping[str, Role | None] = {
    "id": API,
    "owner_user_id": API,
    "name": API,
    "description": API,
    "memo": API,
    "image_ref": API,
    "ide": API,
    "resources": API,
    "instance_backend": API,
    "storage_backend": API,
    "home_store_key": API,
    "desired_state": API,
    "deleted_at": API,
    "purge_at": API,
    "recover_at": API,
    "recover_accepts_loss": API,
    "forgotten_at": API,
    "standby_ttl_seconds": API,
    "archive_ttl_seconds": API,
    "last_access_at": API,
    "awake_until": API,
    "revision": API,
    "request_id": API,
    "conditions": CONTROLLER,
    "observed_at": CONTROLLER,
    "phase": CONTROLLER,
    "phase_changed_at": CONTROLLER,
    "operation": CONTROLLER,
    "op_started_at": CONTROLLER,
    "op_id": CONTROLLER,
    "retry_at": CONTROLLER,
    "version": CONTROLLER,
    "archive_key": CONTROLLER,
    "home_ctx": CONTROLLER,
    "error_info": CONTROLLER,
    "error_count": CONTROLLER,
    "restarts": CONTROLLER,
    "previous_status": CONTROLLER,
    "observed_status": DATABASE,
    "health_status": DATABASE,
    "error_reason": DATABASE,
    "error_message": DATABASE,
    "created_at": DATABASE,
    "updated_at": DATABASE,
    "changed_xid": DATABASE,
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
    "login_failures": ({"SELECT", "INSERT", "UPDATE", "DELETE"}, set()),
    "installation": ({"SELECT"}, {"SELECT"}),
    "schema_migrations": (set(), set()),
}


@asynccontextmanager
async def rolled_back(world: PostgresWorld) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """An administrator's transaction that leaves nothing."""
    transaction = world.admin.transaction()
    await transaction.start()
    try:
        yield world.admin
    finally:
        await transaction.rollback()


# Ownership


async def test_every_column_has_a_declared_owner(postgres: PostgresWorld) -> None:
    columns = await postgres.admin.fetch(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'workspaces'"
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
        SELECT table_name, grantee, privilege_type FROM information_schema.role_column_grants WHERE table_schema = 'public'
        UNION
        SELECT table_name, grantee, privilege_type FROM information_schema.role_table_grants WHERE table_schema = 'public'
    """)
    tables = await postgres.admin.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert {row["tablename"] for row in tables} == set(TABLES)
    assert {row["grantee"] for row in granted} <= {*Role}
    for table, declared in TABLES.items():
        for role, wanted in zip((API, CONTROLLER), declared, strict=True):
            found = {
                row["privilege_type"]
                for row in granted
                if (row["table_name"], row["grantee"]) == (table, role)
            }
            assert found == wanted, (table, role)


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
                    f"INSERT INTO workspace_events ({column}) SELECT {column} FROM workspace_events WHERE false"
                )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await pool.execute("UPDATE workspace_events SET reason = reason")


async def test_everything_belongs_to_the_owner_role(postgres: PostgresWorld) -> None:
    owners = await postgres.admin.fetch("""
        SELECT relname AS name, relowner::regrole::text AS owner FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT proname, proowner::regrole::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    """)
    assert {row["owner"] for row in owners} == {Role.OWNER}


async def test_there_is_exactly_one_installation(postgres: PostgresWorld) -> None:
    row = await postgres.api_pool.fetchrow("SELECT count(*) AS number, min(id::text) AS id FROM installation")
    assert row is not None
    assert row["number"] == 1
    assert UUID(row["id"]).version == 4
    async with rolled_back(postgres) as admin:
        with pytest.raises(asyncpg.UniqueViolationError):
            await admin.execute("INSERT INTO installation DEFAULT VALUES")


# What is derived


def every_status() -> Iterator[Workspace]:
    """Every phase, operation, wish and container with every state of the volume, but for contradictions."""
    containers, volumes = (READY, ABSENT, NOT_READY, UNKNOWN), (READY, ABSENT, UNKNOWN)
    for phase, operation, wish, container, volume in itertools.product(
        Phase, Operation, DesiredState, containers, volumes
    ):
        error = None
        if phase is Phase.ERROR:
            error = ErrorInfo(
                ErrorReason.TIMEOUT, "too slow", Operation.STARTING, 1, datetime(2026, 1, 1, tzinfo=UTC)
            )
        made = workspace(
            phase,
            wish,
            operation=operation,
            conditions=conditions(volume, container=container),
            error_info=error,
        )
        if not list(contradictions(made)):
            yield made


async def test_the_database_derives_what_the_core_derives(postgres: PostgresWorld) -> None:
    made = [replace(each, id=uuid4()) for each in every_status()]
    assert len(made) > 1500
    specs = [replace(each.spec, owner_user_id=postgres.user_id, name=str(each.id)) for each in made]
    async with postgres.api_pool.acquire() as connection:
        await connection.executemany(
            statements()["create_workspace"],
            [(each.id, *from_spec(spec)) for each, spec in zip(made, specs, strict=True)],
        )
    assert not await postgres.controller.persist([Change(each.id, each.status) for each in made])
    rows = await postgres.admin.fetch("""
        SELECT id, observed_status, health_status, error_reason, error_message,
            counts_as_running(conditions, phase, operation, desired_state) AS is_running
        FROM workspaces
    """)
    stored = {row["id"]: row for row in rows}
    for each in made:
        row, status = stored[each.id], each.status
        assert row["observed_status"] == observed_status(status), each
        assert row["health_status"] == health_status(status), each
        assert row["is_running"] == counts_as_running(each), each
        error = status.error_info
        assert (row["error_reason"], row["error_message"]) == (
            (None, None) if error is None else (error.reason, error.message)
        )


async def test_the_database_and_the_memory_adapter_agree_on_what_is_due(postgres: PostgresWorld) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    day = timedelta(days=1)
    points = []
    for each, is_deleted, recover_at in itertools.product(
        every_status(), (False, True), (None, now - day, now + day)
    ):
        wish = DesiredState.PENDING if is_deleted else each.spec.desired_state
        deleted_at = now if is_deleted else None
        spec = replace(
            each.spec, desired_state=wish, deleted_at=deleted_at, purge_at=deleted_at, recover_at=recover_at
        )
        error = each.status.error_info
        status = replace(each.status, error_info=error and replace(error, occurred_at=now))
        points.append(replace(each, spec=spec, status=status))
    columns = from_changes([Change(each.id, each.status) for each in points])
    rows = await postgres.admin.fetch(
        """
        SELECT is_due(phase, operation, desired_state, deleted_at, recover_at, error_info)
        FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::jsonb[])
            WITH ORDINALITY AS p (phase, operation, desired_state, deleted_at, recover_at, error_info, place)
        ORDER BY place
        """,
        columns[4],
        columns[6],
        [each.spec.desired_state for each in points],
        [each.spec.deleted_at for each in points],
        [each.spec.recover_at for each in points],
        columns[12],
    )
    assert [bool(row[0]) for row in rows] == [is_due(each) for each in points]


async def test_a_deadline_does_not_depend_on_the_time_zone(postgres: PostgresWorld) -> None:
    # In this span Berlin changes its clocks: a day there has 23 hours.
    at, seconds = datetime(2026, 3, 28, 12, tzinfo=UTC), 2 * 86400
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        async with rolled_back(postgres) as admin:
            await admin.execute(f"SET LOCAL timezone = '{zone}'")
            await admin.execute("SET LOCAL datestyle = 'SQL, DMY'")
            assert await admin.fetchval("SELECT add_seconds($1, $2)", at, seconds) == at + timedelta(
                seconds=seconds
            )
            error = json.dumps({"occurred_at": "2026-03-04T05:06:07.000008Z"})
            assert await admin.fetchval("SELECT error_time($1)", error) == datetime(
                2026, 3, 4, 5, 6, 7, 8, tzinfo=UTC
            )


# What is refused

ENUMERATIONS: Mapping[str, type[StrEnum] | tuple[str, ...]] = {
    "workspaces_instance_backend": InstanceBackend,
    "workspaces_storage_backend": StorageBackend,
    "workspaces_desired_state": DesiredState,
    "workspaces_phase": Phase,
    "workspaces_operation": Operation,
    "workspaces_previous_status": ObservedStatus,
    "workspace_events_kind": EventKind,
    "users_role": ("admin", "member"),
    "api_tokens_scope": ("read", "write"),
    "workspace_progress_stage": ("archive", "verify", "restore", "pull"),
}


@pytest.mark.parametrize("name", ENUMERATIONS)
async def test_an_enumeration_has_the_words_of_the_core(postgres: PostgresWorld, name: str) -> None:
    definition = await postgres.admin.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1", name
    )
    assert set(re.findall(r"'([^']+)'", definition)) == set(ENUMERATIONS[name])


CONDITION = {"status": "True", "reason": "Ready", "message": "", "last_transition_time": None}
CONDITIONS = dict.fromkeys(
    ("storage.volume_ready", "storage.archive_ready", "infra.container_ready", "policy.healthy"), CONDITION
)
ERROR = {
    "reason": "Timeout",
    "message": "too slow",
    "is_terminal": True,
    "operation": "STARTING",
    "error_count": 1,
    "context": {},
    "occurred_at": "2026-01-01T00:00:00Z",
}
HOME = {"volume_id": None, "restore_marker": None, "dirty": False}
RESOURCES = {"memory_mb": 1, "cpus": 0.5, "pids": 1}


def without(full: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the value without each of its keys, and with each of them an array."""
    for name in full:
        yield {key: value for key, value in full.items() if key != name}
        yield {**full, name: []}


SHAPES: Mapping[str, tuple[Mapping[str, Any], list[Any]]] = {
    "conditions": (
        CONDITIONS,
        [
            *without(CONDITIONS),
            *({**CONDITIONS, "policy.healthy": broken} for broken in without(CONDITION)),
            {**CONDITIONS, "policy.healthy": {**CONDITION, "status": True}},
            [],
        ],
    ),
    "home_ctx": (HOME, [*without(HOME), {**HOME, "dirty": "false"}, []]),
    "resources": (RESOURCES, [*without(RESOURCES), []]),
    "error_info": (
        ERROR,
        [
            *without(ERROR),
            {**ERROR, "reason": "Bored"},
            {**ERROR, "is_terminal": False},
            {**ERROR, "reason": "Unreachable"},
            {**ERROR, "operation": "DANCING"},
            {**ERROR, "occurred_at": "2026-01-01T00:00:00+01:00"},
            {**ERROR, "occurred_at": "yesterday"},
            [],
        ],
    ),
}


@pytest.mark.parametrize("column", SHAPES)
async def test_json_has_its_shape(postgres: PostgresWorld, column: str) -> None:
    created = await postgres.create()
    right, wrong = SHAPES[column]
    await postgres.admin.execute(
        "UPDATE workspaces SET phase = 'ERROR', error_info = $2 WHERE id = $1", created.id, json.dumps(ERROR)
    )
    statement = f"UPDATE workspaces SET {column} = $2 WHERE id = $1"
    await postgres.admin.execute(statement, created.id, json.dumps(right))
    for value in wrong:
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            await postgres.admin.execute(statement, created.id, json.dumps(value))
        assert refused.value.constraint_name in (f"workspaces_{column}_shape", "workspaces_error_is_terminal")


async def test_a_condition_may_have_each_status(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    for status in Truth:
        seen = {**CONDITIONS, "policy.healthy": {**CONDITION, "status": status}}
        await postgres.admin.execute(
            "UPDATE workspaces SET conditions = $2 WHERE id = $1", created.id, json.dumps(seen)
        )


async def test_a_user_has_an_argon2id_hash(postgres: PostgresWorld) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await postgres.api_pool.execute(
            "INSERT INTO users (id, username, password_hash, role) VALUES ($1, 'ann', 'secret', 'member')",
            uuid4(),
        )


# The history's order


async def test_a_reader_below_the_oldest_transaction_misses_nothing(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    insert = "INSERT INTO workspace_events (workspace_id, owner_user_id, kind, actor, reason) VALUES ($1, $2, 'wish', 'ann', $3)"
    read = """
        SELECT reason FROM workspace_events
        WHERE owner_user_id = $1 AND xact < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY seq
    """
    async with postgres.api_pool.acquire() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute(insert, created.id, postgres.user_id, "first in number")
        await postgres.api_pool.execute(insert, created.id, postgres.user_id, "first to commit")
        assert await postgres.api_pool.fetch(read, postgres.user_id) == []
        await transaction.commit()
    assert [row["reason"] for row in await postgres.api_pool.fetch(read, postgres.user_id)] == [
        "first in number",
        "first to commit",
    ]
