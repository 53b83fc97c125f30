"""The store's contract on what changed, on who holds an operation, on
last use, and on limits that are exact under concurrency.
"""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from tests.support.stores import World

from codehub.core.amendments import By, RulingRecord, Running
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.limits import Limits, refuse_one_more
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation
from codehub.core.progress import Progress
from codehub.core.requests import Accepted, Refusal, Refused
from codehub.core.workspace import Workspace
from codehub.ports.store import Change
from codehub.service.workspaces import WorkspaceService

BY = By("ann", verbatim("because"))


# What changed


async def test_the_first_look_returns_every_row_and_the_next_only_what_changed(world: World) -> None:
    first, second = await world.create(), await world.create()
    looked = await world.controller.changes(None)
    assert {row.id for row in looked.workspaces} == {first.id, second.id}
    again = await world.controller.changes(looked.cursor)
    await world.controller.persist([Change(first.id, replace(first.status, error_count=1))])
    changed = await world.controller.changes(again.cursor)
    assert first.id in {row.id for row in changed.workspaces}
    await world.api.touch({second.id: changed.now})
    after = await world.controller.changes(changed.cursor)
    rows = {row.id: row for row in after.workspaces}
    assert rows[second.id].spec.last_access_at == changed.now


async def test_a_look_at_an_empty_store_still_tells_the_time(world: World) -> None:
    looked = await world.controller.changes(None)
    assert looked.workspaces == []
    assert looked.now <= await world.now()


async def test_writers_at_once_are_all_seen_by_a_reader_that_follows(world: World) -> None:
    rows = [await world.create() for _ in range(8)]
    cursor = (await world.controller.changes(None)).cursor
    versions = {row.id: 0 for row in rows}

    async def write(row: Workspace) -> None:
        for count in range(5):
            await world.controller.persist(
                [Change(row.id, replace(row.status, version=count, error_count=count))]
            )

    writing = asyncio.gather(*(write(row) for row in rows))
    while not writing.done() or any(version < 5 for version in versions.values()):
        looked = await world.controller.changes(cursor)
        cursor = looked.cursor
        for row in looked.workspaces:
            versions[row.id] = max(versions[row.id], row.status.version)
        await asyncio.sleep(0)
    await writing
    assert set(versions.values()) == {5}


# Who holds an operation


async def test_only_the_row_s_own_operation_is_held(world: World) -> None:
    row, op_id = await world.create(), uuid4()
    begun = replace(
        row.status, operation=Operation.PROVISIONING, op_id=op_id, op_started_at=await world.now()
    )
    assert not await world.controller.holds(row.id, op_id)
    await world.controller.persist([Change(row.id, begun)])
    assert await world.controller.holds(row.id, op_id)
    assert not await world.controller.holds(row.id, uuid4())
    assert not await world.controller.holds(uuid4(), op_id)
    ended = replace(begun, version=1, operation=Operation.NONE, op_started_at=None)
    await world.controller.persist([Change(row.id, ended)])
    assert not await world.controller.holds(row.id, op_id)


# Last use


async def test_last_use_never_goes_back_and_unknown_workspaces_are_passed_over(world: World) -> None:
    row, now = await world.create(), await world.now()
    await world.api.touch({row.id: now, uuid4(): now})
    await world.api.touch({row.id: now - timedelta(hours=1)})
    touched = await world.api.get(row.id)
    assert (touched.spec.last_access_at, touched.spec.revision) == (now, 1)


# Usage and room


async def test_usage_is_what_was_last_measured_of_workspaces_that_exist(world: World) -> None:
    row, now = await world.create(), await world.now()
    first, second = Usage(300, None, 2000, now), Usage(None, 0.5, None, now)
    await world.controller.write_usage({row.id: first, uuid4(): first})
    assert await world.api.usages([row.id, uuid4()]) == {row.id: first}
    await world.controller.write_usage({row.id: second})
    assert await world.api.usages([row.id]) == {row.id: second}


async def test_a_shortage_is_told_until_it_is_over(world: World) -> None:
    assert await world.api.shortage() is None
    for room in (DiskSpace(900, 1024), DiskSpace(800, 1024)):
        await world.controller.write_shortage(room)
        assert await world.api.shortage() == room
    await world.controller.write_shortage(None)
    assert await world.api.shortage() is None


# Progress


async def test_progress_is_shown_only_of_the_operation_that_the_row_carries(world: World) -> None:
    row, op_id = await world.create(), uuid4()
    begun = replace(row.status, operation=Operation.RESTORING, op_id=op_id, op_started_at=await world.now())
    await world.controller.persist([Change(row.id, begun)])
    half = Progress("restore", 5, 10, 2.5, 2.0)
    await world.controller.write_progress({row.id: (uuid4(), half)}, [])
    assert await world.api.progress([row.id]) == {}
    await world.controller.write_progress({row.id: (op_id, half)}, [])
    assert await world.api.progress([row.id, uuid4()]) == {row.id: half}
    unknown = Progress("restore", 6, None, None, None)
    await world.controller.write_progress({row.id: (op_id, unknown)}, [])
    assert await world.api.progress([row.id]) == {row.id: unknown}
    await world.controller.write_progress({}, [row.id])
    assert await world.api.progress([row.id]) == {}


# History


async def test_old_history_is_forgotten_and_later_events_go_on_counting(world: World) -> None:
    row = await world.create()
    limited = service(world)
    await limited.set_wish(row.id, DesiredState.STANDBY, BY)
    first = (await world.api.history(row.id))[0].seq
    assert await world.controller.forget_history(timedelta(hours=1)) == 0
    assert await world.controller.forget_history(timedelta(0)) == 1
    assert await world.api.history(row.id) == []
    await limited.set_wish(row.id, DesiredState.PENDING, BY)
    assert (await world.api.history(row.id))[0].seq > first


# Limits


def service(world: World, *, per_user: int = 100, total: int = 1000) -> WorkspaceService:
    return WorkspaceService(world.api, limits=Limits(per_user, total), trash_s=100)


async def test_a_hundred_parallel_starts_against_a_limit_of_two_give_exactly_two(world: World) -> None:
    rows = [await world.create(desired_state=DesiredState.PENDING) for _ in range(100)]
    limited = service(world, per_user=2)
    ruled = await asyncio.gather(*(limited.set_wish(row.id, DesiredState.RUNNING, BY) for row in rows))
    assert sum(isinstance(result.ruling, Accepted) for result in ruled) == 2
    refused = [result.ruling for result in ruled if isinstance(result.ruling, Refused)]
    assert {refusal.code for refusal in refused} == {Refusal.LIMIT_EXCEEDED}
    stored = [await world.api.get(row.id) for row in rows]
    assert sum(row.spec.desired_state is DesiredState.RUNNING for row in stored) == 2


async def test_creations_and_starts_share_one_limit(world: World) -> None:
    rows = [await world.create(desired_state=DesiredState.PENDING) for _ in range(10)]
    limited = service(world, per_user=3)
    starts = [limited.set_wish(row.id, DesiredState.RUNNING, BY) for row in rows]
    creations = [limited.create(uuid4(), world.spec(), BY) for _ in range(10)]
    await asyncio.gather(*starts, *creations)
    everything = (await world.controller.changes(None)).workspaces
    assert sum(row.spec.desired_state is DesiredState.RUNNING for row in everything) == 3


async def test_at_the_limit_nothing_is_made(world: World) -> None:
    limited = service(world, total=0)
    workspace_id = uuid4()
    refused = await limited.create(workspace_id, world.spec(), BY)
    assert isinstance(refused, Refused)
    assert refused.details == {"limit": "total", "max": 0, "running": []}
    assert (await world.controller.load([workspace_id])).workspaces == []


async def test_what_already_counts_takes_no_second_place(world: World) -> None:
    row = await world.create(desired_state=DesiredState.RUNNING)
    limited = service(world, per_user=1)
    other = await limited.create(uuid4(), world.spec(), BY)
    assert isinstance(other, Refused)
    assert other.details == {
        "limit": "per_user",
        "max": 1,
        "running": [{"id": str(row.id), "name": row.spec.name}],
    }
    stopped = await limited.set_wish(row.id, DesiredState.STANDBY, BY)
    assert isinstance(stopped.ruling, Accepted)
    again = await limited.set_wish(row.id, DesiredState.RUNNING, BY)
    assert isinstance(again.ruling, Accepted)


async def test_a_ruling_sees_what_else_runs(world: World) -> None:
    row, other = await world.create(desired_state=DesiredState.PENDING), await world.create()
    counts: list[Running] = []

    def rule(_row: Workspace, _now: datetime, running: Running) -> RulingRecord:
        counts.append(running)
        refused = refuse_one_more(Limits(1, 1), running.of_owner, running.total)
        assert refused is not None
        return RulingRecord(refused)

    await world.api.amend_counted(row.id, rule)
    assert counts == [Running([(other.id, other.spec.name, other.status.phase)], 1, owned=1)]
