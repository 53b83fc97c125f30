"""Persisting a pass of 10,000 changed workspaces against the
same rows and history by two hand-written statements.

The peer is as fast as two statements can be: no locks in order, no swap on version, no
losers, no hint, and its arrays are built before the clock starts. Ours includes all of that
and the encoding of the dataclasses. Both take turns, on rows of their own.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
from benchmarks.database import migrated_database
from benchmarks.fill import fill

from codehub.adapters.postgres.connect import ConnectArgs, Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.postgres.rows import from_changes, from_events, to_workspace
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.adapters.system.machine import SystemClock
from codehub.core.conditions import Condition, Truth
from codehub.core.history import events_of_pass
from codehub.core.messages import Code, Message
from codehub.core.operations import Operation, Phase
from codehub.core.plan import Why
from codehub.core.workspace import HomeCtx, Workspace
from codehub.ports.store import Change

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Executor, Pool

ROWS = 10_000
REPETITIONS = 8
RATIO_MAX = 1.3

PEER_COLUMNS = (
    "id", "version", "conditions", "observed_at", "phase", "phase_changed_at", "operation", "op_started_at",
    "op_id", "retry_at", "archive_key", "home_ctx", "error_info", "error_count", "restarts",
    "previous_status", "held_up",
)  # fmt: skip  # as the statement below has them
PEER_UPDATE = """
UPDATE workspaces w SET
    version = s.version + 1, conditions = s.conditions, observed_at = s.observed_at, phase = s.phase,
    phase_changed_at = s.phase_changed_at, operation = s.operation, op_started_at = s.op_started_at,
    op_id = s.op_id, retry_at = s.retry_at, archive_key = s.archive_key, home_ctx = s.home_ctx,
    error_info = s.error_info, error_count = s.error_count, restarts = s.restarts::timestamptz[],
    previous_status = s.previous_status, held_up = s.held_up
FROM unnest(
    $1::uuid[], $2::bigint[], $3::jsonb[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::text[],
    $8::timestamptz[], $9::uuid[], $10::timestamptz[], $11::text[], $12::jsonb[], $13::jsonb[],
    $14::integer[], $15::text[], $16::text[], $17::jsonb[]
) AS s (
    id, version, conditions, observed_at, phase, phase_changed_at, operation, op_started_at,
    op_id, retry_at, archive_key, home_ctx, error_info, error_count, restarts, previous_status, held_up
)
WHERE w.id = s.id
"""
PEER_INSERT = """
INSERT INTO workspace_events (
    workspace_id, kind, before, after, actor, reason, request_id, facts, owner_user_id
)
SELECT * FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::jsonb[],
    $9::uuid[]
)
"""


def main() -> None:
    asyncio.run(run())


async def run() -> None:
    async with migrated_database() as connect_args:
        admin = await asyncpg.connect(**connect_args)
        await fill(admin, 3 * ROWS)
        pool = await open_pool(connect_args, Role.CONTROLLER)
        try:
            ours, peers = await measure(admin, pool, connect_args)
        finally:
            await pool.close()
            await admin.close()
    # Of neighbours in time, so that what else the machine does weighs on both.
    ratio = statistics.median(our / peer for our, peer in zip(ours, peers, strict=True))
    for name, seconds in (("persist", ours), ("two statements", peers)):
        spread = f"{min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f}"
        print(
            f"{name}: median {statistics.median(seconds) * 1000:.0f} ms ({spread} ms, {len(seconds)} times)"
        )
    print(f"persist_ratio: {ratio:.2f} (at most {RATIO_MAX})")


async def measure(
    admin: "Executor", pool: "Pool", connect_args: ConnectArgs
) -> tuple[list[float], list[float]]:
    """Return seconds of ours and of the peer's. They swap their
    rows each time, so that both write the same things.
    """
    store = PostgresControllerStore(
        pool, PostgresHints(pool, connect_args, Role.CONTROLLER, clock=SystemClock())
    )
    chosen = await admin.fetch(
        "SELECT * FROM workspaces WHERE phase IN ('STANDBY', 'ARCHIVED') ORDER BY random() LIMIT $1", 2 * ROWS
    )
    rows = [to_workspace(row) for row in chosen]
    halves = [rows[:ROWS], rows[ROWS:]]
    ours, peers = [], []
    for repetition in range(REPETITIONS + 1):
        for half in (0, 1):
            workspaces = halves[half]
            changes = [next_change(workspace) for workspace in workspaces]
            await admin.execute("VACUUM ANALYZE workspaces")
            await admin.execute("VACUUM ANALYZE workspace_events")
            await admin.execute("CHECKPOINT")
            gc.collect()
            if half == repetition % 2:
                ours.append(await persist(store, changes))
            else:
                peers.append(await persist_as_peer(pool, changes, workspaces))
            halves[half] = [
                replace(workspace, status=replace(change.status, version=change.status.version + 1))
                for workspace, change in zip(workspaces, changes, strict=True)
            ]
    stored = await store.load([workspace.id for half in halves for workspace in half])
    assert {each.id: each.status for each in stored.workspaces} == {
        each.id: each.status for half in halves for each in half
    }
    return ours[1:], peers[1:]  # the first ones warm caches and statements


async def persist(store: PostgresControllerStore, changes: Sequence[Change]) -> float:
    began = time.perf_counter()
    lost = await store.persist(changes)
    seconds = time.perf_counter() - began
    assert not lost
    return seconds


async def persist_as_peer(pool: "Pool", changes: Sequence[Change], workspaces: Sequence[Workspace]) -> float:
    encoded = from_changes(changes)
    columns = [encoded[name] for name in PEER_COLUMNS]
    owners = {workspace.id: workspace.spec.owner_user_id for workspace in workspaces}
    events = [(change.workspace_id, event) for change in changes for event in change.events]
    history = (*from_events(events).values(), [owners[workspace_id] for workspace_id, _event in events])
    async with pool.acquire() as connection:
        began = time.perf_counter()
        async with connection.transaction():
            await connection.execute(PEER_UPDATE, *columns)
            await connection.execute(PEER_INSERT, *history)
        return time.perf_counter() - began


def next_change(workspace: Workspace) -> Change:
    """Begin STARTING, then arrive in RUNNING, then begin
    STOPPING, then arrive in STANDBY: one or two events each.
    """
    now = datetime.now(UTC)
    before = workspace.status
    ready = Condition(Truth.TRUE, "Ready", Message(Code.INSTANCE_READY), now)
    if before.operation is Operation.NONE:
        operation = Operation.STOPPING if before.phase is Phase.RUNNING else Operation.STARTING
        after = replace(before, operation=operation, op_id=uuid4(), op_started_at=now, observed_at=now)
    else:
        started = before.operation is Operation.STARTING
        after = replace(
            before,
            conditions=replace(before.conditions, container_ready=ready),
            phase=Phase.RUNNING if started else Phase.STANDBY,
            phase_changed_at=now,
            operation=Operation.NONE,
            op_started_at=None,
            observed_at=now,
            home_ctx=HomeCtx(volume_id=str(uuid4()), dirty=True),
        )
    events = events_of_pass(before, after, actor="controller", reason=Message(Why.MOVES_UP))
    return Change(workspace.id, after, tuple(events))


if __name__ == "__main__":
    main()
