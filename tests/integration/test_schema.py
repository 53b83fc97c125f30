"""The schema itself: what it derives, what it refuses, and that it agrees with the core."""

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

from codehub.adapters.memory.rules import contradictions
from codehub.adapters.postgres.rows import from_spec
from codehub.adapters.postgres.sql import statements
from codehub.core.conditions import Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.history import EventKind
from codehub.core.messages import verbatim
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


@asynccontextmanager
async def rolled_back(world: PostgresWorld) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """An administrator's transaction that leaves nothing."""
    transaction = world.admin.transaction()
    await transaction.start()
    try:
        yield world.admin
    finally:
        await transaction.rollback()


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
                ErrorReason.TIMEOUT,
                verbatim("too slow"),
                Operation.STARTING,
                1,
                datetime(2026, 1, 1, tzinfo=UTC),
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
    create = statements()["create_workspace"]
    arguments = [create(id=each.id, **from_spec(spec))[1:] for each, spec in zip(made, specs, strict=True)]
    async with postgres.api_pool.acquire() as connection:
        await connection.executemany(create.text, arguments)
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
            (None, None) if error is None else (error.reason, str(error.message))
        )


async def test_a_deadline_does_not_depend_on_the_time_zone(postgres: PostgresWorld) -> None:
    # In this span Berlin changes its clocks: a day there has 23 hours.
    at, seconds = datetime(2026, 3, 28, 12, tzinfo=UTC), 2 * 86400
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        async with rolled_back(postgres) as admin:
            await admin.execute(f"SET LOCAL timezone = '{zone}'")
            assert await admin.fetchval("SELECT add_seconds($1, $2)", at, seconds) == at + timedelta(
                seconds=seconds
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


async def test_there_is_exactly_one_installation(postgres: PostgresWorld) -> None:
    row = await postgres.api_pool.fetchrow("SELECT count(*) AS number, min(id::text) AS id FROM installation")
    assert row is not None
    assert row["number"] == 1
    assert UUID(row["id"]).version == 4
    async with rolled_back(postgres) as admin:
        with pytest.raises(asyncpg.UniqueViolationError):
            await admin.execute("INSERT INTO installation DEFAULT VALUES")


async def test_a_user_has_an_argon2id_hash_or_no_password(postgres: PostgresWorld) -> None:
    insert = "INSERT INTO users (id, username, password_hash, role) VALUES ($1, $2, $3, 'member')"
    for password_hash in ("secret", ""):
        with pytest.raises(asyncpg.CheckViolationError):
            await postgres.api_pool.execute(insert, uuid4(), "ann", password_hash)
    await postgres.api_pool.execute(insert, uuid4(), "without-password", None)


# The history's order


async def test_a_reader_below_the_oldest_transaction_misses_nothing(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    insert = (
        "INSERT INTO workspace_events (workspace_id, owner_user_id, kind, actor, reason) VALUES ($1, $2, "
        "'wish', 'ann', $3)"
    )
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
