"""The store on PostgreSQL beyond its contract: plans at 100,000 rows, many writers at once, lost
connections.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from benchmarks import persist as benchmark
from benchmarks.fill import fill
from tests.conftest import POSTGRES, Servers
from tests.support.patience import PATIENCE_S, until
from tests.support.stores import PostgresWorld

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.sql import statements
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.core.amendments import RulingRecord
from codehub.core.conditions import Condition, Truth
from codehub.core.history import Event, EventKind
from codehub.core.listing import BEFORE_ALL
from codehub.core.messages import verbatim
from codehub.core.operations import Operation
from codehub.core.requests import Accepted, Refusal, Refused, Unchanged
from codehub.core.workspace import Workspace
from codehub.ports.store import Change, Contradiction, StoreUnavailable

BEGUN = Event(
    EventKind.OPERATION, "NONE", "PROVISIONING", "controller", verbatim("One step up, to where it should be.")
)
IDLE, ROWS = 50, 100_000
OWNER, LATEST = "somebody who has workspaces", "the oldest transaction that is open"


def begun(workspace: Workspace, now: datetime) -> Change:
    status = replace(workspace.status, operation=Operation.PROVISIONING, op_id=uuid4(), op_started_at=now)
    return Change(workspace.id, status, (BEGUN,))


# Plans


@pytest.fixture(params=POSTGRES, scope="module")
async def full_table(
    request: pytest.FixtureRequest, servers: Servers
) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """100,000 workspaces, of which few are idle."""
    server = await servers(request.param)
    async with server.migrated() as connect_args:
        connection = await asyncpg.connect(**connect_args)
        try:
            await fill(connection, ROWS, idle=IDLE)
            yield connection
        finally:
            await connection.close()


def scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node.get("Relation Name") == "workspaces" or "Index Name" in node:
        yield node
    for child in node.get("Plans", ()):
        yield from scans(child)


async def plan_of(
    connection: "asyncpg.Connection[asyncpg.Record]", statement: str, *arguments: object
) -> list[Mapping[str, Any]]:
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *arguments)
    return list(scans(json.loads(text)[0]["Plan"]))


def rows_read(nodes: list[Mapping[str, Any]]) -> int:
    kinds = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    return sum(int(node["Actual Loops"] * node.get(kind, 0)) for node in nodes for kind in kinds)


NOBODY = UUID(int=0)
PAGE: Mapping[str, Any] = {
    "pinned_at": BEFORE_ALL.pinned_at,
    "id": BEFORE_ALL.workspace_id,
    "phase": None,
    "search_text": None,
    "deleted": False,
    "limit": 51,
}
# Every statement of the program that looks for workspaces by
# something else than their ids, and what it reads.
PLANS: Mapping[str, tuple[Role, Mapping[str, Any], str]] = {
    "load_idle": (Role.CONTROLLER, {"limit": 10_000}, "idx_workspaces_idle"),
    "changes": (Role.CONTROLLER, {"cursor": LATEST}, "idx_workspaces_changed"),
    "sleeping_soon": (Role.API, {"within": timedelta(minutes=1)}, "idx_workspaces_idle"),
    "page_of_owner": (Role.API, {"owner_user_id": OWNER, **PAGE}, "idx_workspaces_owner"),
    "page_of_all": (Role.API, PAGE, "idx_workspaces_list"),
    "owned": (Role.API, {"owner_user_id": OWNER, "beside": NOBODY}, "idx_workspaces_name"),
    "running_of_owner": (Role.API, {"owner_user_id": OWNER, "beside": NOBODY}, "idx_workspaces_running"),
    "running_in_all": (Role.API, {"beside": NOBODY}, "idx_workspaces_running"),
    "count_running": (Role.API, {"owner_user_id": OWNER}, "idx_workspaces_running"),
    "workspace_of_label": (Role.API, {"label": "0" * 20}, "idx_workspaces_label"),
}


@pytest.mark.parametrize("name", PLANS)
async def test_each_statement_reads_its_index(
    full_table: "asyncpg.Connection[asyncpg.Record]", name: str
) -> None:
    role, parameters, index = PLANS[name]
    await full_table.execute("RESET ROLE")
    stored = {
        OWNER: await full_table.fetchval("SELECT owner_user_id FROM workspaces LIMIT 1"),
        LATEST: await full_table.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"),
    }
    # As it runs in production: a role with privileges per column, which decides what statistics it may use.
    await full_table.execute(f"SET ROLE {role}")
    given = {key: stored.get(value, value) for key, value in parameters.items()}
    nodes = await plan_of(full_table, *statements()[name](**given))
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}
    assert index in {node.get("Index Name") for node in nodes}


async def test_every_index_is_read_by_a_statement_and_named_alike(
    full_table: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    rows = await full_table.fetch("SELECT indexname FROM pg_indexes WHERE tablename = 'workspaces'")
    indexes = {row["indexname"] for row in rows} - {"workspaces_pkey"}
    assert indexes == {index for _role, _given, index in PLANS.values()}
    assert all(name.startswith("idx_workspaces_") for name in indexes)


@pytest.mark.parametrize("limit", [10_000, 1_000_000], ids=["limited", "unlimited"])
async def test_only_rows_that_are_idle_are_read(
    full_table: "asyncpg.Connection[asyncpg.Record]", limit: int
) -> None:
    await full_table.execute(f"SET ROLE {Role.CONTROLLER}")
    nodes = await plan_of(full_table, *statements()["load_idle"](limit=limit))
    assert rows_read(nodes) == IDLE
    assert sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in nodes) <= IDLE + 20


async def test_a_pass_takes_as_many_statements_however_many_rows_it_has(postgres: PostgresWorld) -> None:
    queries: list[str] = []

    async def watch(connection: Any) -> None:
        connection.add_query_logger(lambda record: queries.append(record.query))

    pool = await asyncpg.create_pool(
        **postgres.connect_args,
        server_settings={"role": Role.CONTROLLER.value},
        min_size=1,
        max_size=1,
        init=watch,
    )
    store = PostgresControllerStore(pool, MemoryHints())
    workspaces = [await postgres.create() for _ in range(60)]
    now = await postgres.now()
    counts = []
    # The first pass also asks for types; what it asks is not counted.
    for some in (workspaces[:2], workspaces[2:10], workspaces[10:]):
        queries.clear()
        await store.persist([begun(each, now) for each in some])
        counts.append(len([query for query in queries if "RESET" not in query.upper()]))
    await pool.close()
    assert counts[1] == counts[2] <= 5


# Many writers


class Tally:
    """What the writers were told they did."""

    def __init__(self, world: PostgresWorld, ids: list[UUID]) -> None:
        self.world = world
        self.ids = ids
        self.wins = Counter[UUID]()
        self.accepted = Counter[UUID]()
        self.begun: list[tuple[UUID, UUID | None]] = []

    async def be_a_controller(self, number: int) -> None:
        """Begin what rests and end what runs, over rows that overlap with everybody else's."""
        for round_ in range(6):
            some = self.ids[number % 3 :: 2] if round_ % 2 else self.ids
            loaded = await self.world.controller.load(some)
            changes = [begun_or_ended(each, loaded.now) for each in loaded.workspaces]
            lost = await self.world.controller.persist(changes[::-1] if number % 2 else changes)
            won = [change for change in changes if change.workspace_id not in lost]
            self.wins.update(change.workspace_id for change in won)
            self.begun += [(change.workspace_id, change.status.op_id) for change in won if change.events]

    async def be_a_person(self, number: int) -> None:
        for round_ in range(12):
            while not await self.is_accepted(self.ids[(number + round_) % len(self.ids)]):
                pass  # it is busy: ask again

    async def is_accepted(self, workspace_id: UUID) -> bool:
        ruled = await self.world.api.amend(workspace_id, count_unless_busy)
        self.accepted[workspace_id] += isinstance(ruled.ruling, Accepted)
        return isinstance(ruled.ruling, Accepted)

    async def be_controllers(self, number: int) -> None:
        """So many at once; when they are done, nothing is left busy."""
        await asyncio.gather(*(self.be_a_controller(each) for each in range(number)))
        loaded = await self.world.controller.load(self.ids)
        busy = [each for each in loaded.workspaces if each.status.operation is not Operation.NONE]
        assert not await self.world.controller.persist([begun_or_ended(each, loaded.now) for each in busy])
        self.wins.update(each.id for each in busy)


def begun_or_ended(workspace: Workspace, now: datetime) -> Change:
    if workspace.status.operation is Operation.NONE:
        return begun(workspace, now)
    return Change(workspace.id, replace(workspace.status, operation=Operation.NONE, op_started_at=None))


def count_unless_busy(workspace: Workspace, _now: datetime) -> RulingRecord:
    if workspace.status.operation is not Operation.NONE:
        return RulingRecord(Refused(Refusal.OPERATION_IN_PROGRESS, verbatim("Ask again.")))
    return RulingRecord(Accepted(replace(workspace.spec, revision=workspace.spec.revision + 1)))


async def test_fifty_writers_lose_no_update_and_start_no_operation_twice(postgres: PostgresWorld) -> None:
    tally = Tally(postgres, [(await postgres.create()).id for _ in range(12)])
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(tally.be_controllers(25), *(tally.be_a_person(number) for number in range(25)))
    # Who loses loses to somebody who wins: of 25 tries at a row one wins at least.
    assert tally.wins.total() >= 1326 / 25
    assert tally.accepted.total() == 25 * 12
    for each in (await postgres.controller.load(tally.ids)).workspaces:
        assert each.status.version == tally.wins[each.id]
        assert each.spec.revision == 1 + tally.accepted[each.id]
        op_ids = [op_id for workspace_id, op_id in tally.begun if workspace_id == each.id]
        history = await postgres.api.history(each.id, limit=1000)
        assert len(history) == len(op_ids) == len(set(op_ids))


async def test_passes_over_the_same_rows_in_any_order_never_deadlock(postgres: PostgresWorld) -> None:
    workspaces = [await postgres.create() for _ in range(40)]
    for round_ in range(15):
        loaded = await postgres.controller.load([each.id for each in workspaces])
        changes = [Change(each.id, replace(each.status, error_count=round_)) for each in loaded.workspaces]
        lost = await asyncio.gather(
            *(
                postgres.controller.persist(order)
                for order in (changes, changes[::-1], changes[20:] + changes[:20])
            )
        )
        assert sorted(len(each) for each in lost) == [0, 40, 40]


async def somebody_waits(world: PostgresWorld) -> None:
    """Return when a statement waits for a lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    await until(lambda: world.admin.fetchval(waiting))


async def test_a_request_is_ruled_on_at_a_time_after_the_wait_for_its_lock(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    ruled_at: list[datetime] = []

    def rule(workspace: Workspace, now: datetime) -> RulingRecord:
        assert workspace.status.version == 1
        ruled_at.append(now)
        return RulingRecord(Unchanged())

    async with postgres.controller_pool.acquire() as other, other.transaction():
        await other.execute("UPDATE workspaces SET version = 1 WHERE id = $1", created.id)
        waiting = asyncio.ensure_future(postgres.api.amend(created.id, rule))
        await somebody_waits(postgres)
        released_at = await other.fetchval("SELECT clock_timestamp()")
    await waiting
    assert ruled_at[0] >= released_at


# What can't be reached, and what can't be stored


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    nowhere = {"host": "/nowhere", "user": "nobody", "database": "nothing", "password": "", "ssl": False}
    with pytest.raises(StoreUnavailable):
        await open_pool(nowhere, Role.API)


async def test_a_connection_that_is_cut_off_is_unavailable_and_the_next_one_works(
    postgres: PostgresWorld,
) -> None:
    created = await postgres.create()
    pool = await open_pool(postgres.connect_args, Role.API, size_max=1)
    store = PostgresApiStore(pool, MemoryHints())
    pid = await pool.fetchval("SELECT pg_backend_pid()")
    async with postgres.controller_pool.acquire() as other, other.transaction():
        await other.execute("UPDATE workspaces SET version = 1 WHERE id = $1", created.id)
        waiting = asyncio.ensure_future(
            store.amend(created.id, lambda _each, _now: RulingRecord(Unchanged()))
        )
        await somebody_waits(postgres)
        await postgres.admin.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable):
            await waiting
    assert (await store.get(created.id)).id == created.id
    await pool.close()
    with pytest.raises(StoreUnavailable):
        await store.get(created.id)


async def test_a_connection_that_serves_is_acquainted_before_anybody_asks(postgres: PostgresWorld) -> None:
    pool = await open_pool(postgres.connect_args, Role.API, size_min=2, size_max=2)
    async with pool.acquire() as first, pool.acquire() as second:
        for connection in (first, second):
            asked = [row[0] for row in await connection.fetch("SELECT statement FROM pg_prepared_statements")]
            assert statements()["acquaint"].text in asked
    await pool.close()


async def test_a_wrong_argument_is_no_outage(postgres: PostgresWorld) -> None:
    with pytest.raises(Contradiction, match="invalid input"):
        await postgres.api.get("not an id")  # type: ignore[arg-type]  # what a bug could send


async def test_words_that_postgresql_can_not_hold_do_not_stop_a_pass(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    noise = "exit \0 \udcff 한글"
    seen = Condition(Truth.UNKNOWN, "Unreachable", verbatim(noise))
    status = replace(created.status, conditions=replace(created.status.conditions, container_ready=seen))
    await postgres.controller.persist([Change(created.id, status, (replace(BEGUN, reason=verbatim(noise)),))])
    stored = await postgres.api.get(created.id)
    assert str(stored.status.conditions.container_ready.message) == "exit \N{REPLACEMENT CHARACTER} ? 한글"
    (recorded,) = await postgres.api.history(created.id)
    assert str(recorded.event.reason) == "exit \N{REPLACEMENT CHARACTER} ? 한글"


async def test_what_persisting_is_measured_beside_writes_the_same(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "ROWS", 20)
    monkeypatch.setattr(benchmark, "REPETITIONS", 2)
    server = await servers(POSTGRES[0])
    async with server.migrated() as connect_args:
        admin = await asyncpg.connect(**connect_args)
        pool = await open_pool(connect_args, Role.CONTROLLER)
        try:
            await fill(admin, 100)
            ours, peers = await benchmark.measure(admin, pool, connect_args)
        finally:
            await pool.close()
            await admin.close()
    assert (len(ours), len(peers)) == (2, 2)


async def test_what_a_row_from_before_codes_says_is_shown_as_it_is(postgres: PostgresWorld) -> None:
    created = await postgres.create()
    await postgres.admin.execute(
        """
        UPDATE workspaces SET conditions = jsonb_set(conditions, '{storage.volume_ready}',
            '{"status": "False", "reason": "Absent", "message": "There is no volume.",
              "last_transition_time": null}')
        WHERE id = $1
        """,
        created.id,
    )
    await postgres.admin.execute(
        """
        INSERT INTO workspace_events (workspace_id, owner_user_id, kind, before, after, actor, reason)
        VALUES ($1, $2, 'wish', 'RUNNING', 'STANDBY', 'ann', 'Asked to stop it.')
        """,
        created.id,
        created.spec.owner_user_id,
    )
    stored = await postgres.api.get(created.id)
    assert stored.status.conditions.volume_ready.message == verbatim("There is no volume.")
    newest, *_ = await postgres.api.history(created.id)
    assert newest.event.reason == verbatim("Asked to stop it.")
