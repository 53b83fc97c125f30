"""The store's contract, for every adapter: what is created,
amended and read, each in one transaction with its history.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.stores import BEGUN, World, claim

from codehub.core.amendments import RulingRecord
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.history import Event, EventKind
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import Accepted, Refusal, Refused, Unchanged, rule_undeletion
from codehub.core.workspace import (
    Status,
    Workspace,
)
from codehub.ports.store import ApiStore, Change, Contradiction, NameTaken, UnknownWorkspace

WISHED = Event(EventKind.WISH, "RUNNING", "STANDBY", "ann", verbatim("asked for"), "req-1")
NONSENSE = replace(BEGUN, kind="nonsense")  # type: ignore[arg-type]  # what a bug could send


async def events_of(api: ApiStore, workspace_id: UUID) -> list[Event]:
    return [recorded.event for recorded in await api.history(workspace_id)]


# Creating and reading


async def test_a_new_workspace_has_what_was_asked_for_and_nothing_was_seen_of_it(world: World) -> None:
    spec, workspace_id = world.spec(), uuid4()
    before = await world.now()
    created = await world.api.create_workspace(workspace_id, spec, [WISHED])
    assert (created.id, created.spec, created.status) == (workspace_id, spec, Status())
    assert before <= created.created_at <= created.updated_at <= await world.now()
    assert await world.api.get(workspace_id) == created
    assert await events_of(world.api, workspace_id) == [WISHED]


async def test_a_workspace_of_nobody_is_refused(world: World) -> None:
    with pytest.raises(Contradiction):
        await world.api.create_workspace(uuid4(), world.spec(owner_user_id=uuid4()), [])


async def test_what_is_unknown_is_said_to_be_unknown(world: World) -> None:
    with pytest.raises(UnknownWorkspace):
        await world.api.get(uuid4())
    with pytest.raises(UnknownWorkspace):
        await world.api.amend(uuid4(), lambda _workspace, _now: RulingRecord(Unchanged()))
    assert await world.api.history(uuid4()) == []


async def test_only_those_that_exist_are_loaded(world: World) -> None:
    first, second = await world.create(), await world.create()
    loaded = await world.controller.load([second.id, uuid4(), first.id])
    assert sorted(loaded.workspaces, key=lambda each: each.id) == sorted(
        [first, second], key=lambda each: each.id
    )
    assert loaded.now >= second.created_at
    assert (await world.controller.load([])).workspaces == []


# Names


async def test_a_name_is_taken_by_an_undeleted_workspace_of_the_same_owner(world: World) -> None:
    taken = await world.create(name="demo")
    with pytest.raises(NameTaken):
        await world.create(name="demo")
    other = replace(world, user_id=uuid4())
    await other.add_user()
    await other.create(name="demo")
    renamed = await world.create(name="other")
    with pytest.raises(NameTaken):
        await world.api.amend(
            renamed.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, name="demo")))
        )
    assert (await world.api.get(renamed.id)).spec.name == "other"
    assert (await world.api.get(taken.id)).spec.name == "demo"


async def test_a_deleted_workspace_frees_its_name_and_may_not_take_it_back(world: World) -> None:
    now = await world.now()
    deleted = {
        "deleted_at": now,
        "purge_at": now + timedelta(days=7),
        "desired_state": DesiredState.PENDING,
    }
    first = await world.create(name="demo", **deleted)
    second = await world.create(name="demo")
    with pytest.raises(NameTaken):
        await world.api.amend(first.id, lambda each, now: RulingRecord(rule_undeletion(each, now)))
    await world.api.amend(
        second.id,
        lambda each, now: RulingRecord(
            Accepted(replace(each.spec, deleted_at=now, purge_at=now, desired_state=DesiredState.PENDING))
        ),
    )
    ruled = await world.api.amend(first.id, lambda each, now: RulingRecord(rule_undeletion(each, now)))
    assert ruled.workspace.spec.deleted_at is None


# One transaction

CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "an operation without an id": {"operation": Operation.STARTING, "op_id": None},
    "an operation without a clock": {"operation": Operation.STARTING, "op_id": uuid4()},
    "a clock without an operation": {"op_started_at": datetime(2026, 1, 1, tzinfo=UTC)},
    "a retry without an operation": {"retry_at": datetime(2026, 1, 1, tzinfo=UTC)},
    "ERROR without an error": {"phase": Phase.ERROR},
    "a terminal error without ERROR": {
        "error_info": ErrorInfo(
            ErrorReason.DATA_LOST, verbatim("gone"), Operation.NONE, 0, datetime(2026, 1, 1, tzinfo=UTC)
        )
    },
    "ERROR for what is tried again": {
        "phase": Phase.ERROR,
        "error_info": ErrorInfo(
            ErrorReason.ACTION_FAILED, verbatim("again"), Operation.NONE, 0, datetime(2026, 1, 1, tzinfo=UTC)
        ),
    },
    "ERROR with an operation": {
        "phase": Phase.ERROR,
        "operation": Operation.STARTING,
        "op_id": uuid4(),
        "op_started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "error_info": ErrorInfo(
            ErrorReason.TIMEOUT, verbatim("late"), Operation.STARTING, 0, datetime(2026, 1, 1, tzinfo=UTC)
        ),
    },
    "another workspace's archive": {"archive_key": f"{uuid4()}/{uuid4()}/home.tar.zst"},
    "a negative count": {"error_count": -1},
}


@pytest.mark.parametrize("fields", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
async def test_one_contradictory_row_stops_the_whole_pass(world: World, fields: dict[str, Any]) -> None:
    good, bad = await world.create(), await world.create()
    wrong = Change(bad.id, replace(bad.status, **fields), (BEGUN,))
    with pytest.raises(Contradiction):
        await world.controller.persist([claim(good, await world.now()), wrong])
    for untouched in (good, bad):
        assert await world.api.get(untouched.id) == untouched
        assert await events_of(world.api, untouched.id) == []


SPEC_CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "no name": {"name": ""},
    "a name too long": {"name": "n" * 256},
    "a standby TTL below 10 s": {"standby_ttl_seconds": 9},
    "a negative archive TTL": {"archive_ttl_seconds": -1},
    "a purge time without a deletion": {"purge_at": datetime(2026, 1, 1, tzinfo=UTC)},
    "deleted, and wished to run": {
        "deleted_at": datetime(2026, 1, 1, tzinfo=UTC),
        "purge_at": datetime(2026, 1, 1, tzinfo=UTC),
    },
    "no revision": {"revision": 0},
}


@pytest.mark.parametrize("fields", SPEC_CONTRADICTIONS.values(), ids=SPEC_CONTRADICTIONS)
async def test_a_contradictory_wish_is_refused_and_leaves_nothing(
    world: World, fields: dict[str, Any]
) -> None:
    workspace_id = uuid4()
    with pytest.raises(Contradiction):
        await world.api.create_workspace(workspace_id, world.spec(**fields), [WISHED])
    assert await events_of(world.api, workspace_id) == []
    created = await world.create()
    with pytest.raises(Contradiction):
        await world.api.amend(
            created.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, **fields)), (WISHED,))
        )
    assert await world.api.get(created.id) == created
    assert await events_of(world.api, created.id) == []


async def test_history_that_can_not_be_written_takes_the_change_with_it(world: World) -> None:
    created = await world.create()
    now = await world.now()
    with pytest.raises(Contradiction):
        await world.controller.persist([replace(claim(created, now), events=(BEGUN, NONSENSE))])
    with pytest.raises(Contradiction):
        await world.api.amend(
            created.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, memo="new")), (NONSENSE,))
        )
    with pytest.raises(Contradiction):
        await world.api.create_workspace(uuid4(), world.spec(), [NONSENSE])
    assert await world.api.get(created.id) == created
    assert await events_of(world.api, created.id) == []
    assert (await world.controller.load([created.id])).workspaces == [created]


# Amending


async def test_an_accepted_ruling_is_stored_with_its_history(world: World) -> None:
    created = await world.create()
    ruled_at: list[datetime] = []

    def to_standby(workspace: Workspace, now: datetime) -> RulingRecord:
        assert workspace == created
        ruled_at.append(now)
        wanted = replace(workspace.spec, desired_state=DesiredState.STANDBY, revision=2)
        return RulingRecord(Accepted(wanted), (WISHED,))

    ruled = await world.api.amend(created.id, to_standby)
    assert ruled.ruling == Accepted(ruled.workspace.spec)
    assert ruled.workspace.spec == replace(created.spec, desired_state=DesiredState.STANDBY, revision=2)
    assert ruled.workspace.status == created.status
    assert ruled.workspace.created_at == created.created_at <= ruled_at[0] <= ruled.workspace.updated_at
    assert await world.api.get(created.id) == ruled.workspace
    assert await events_of(world.api, created.id) == [WISHED]


@pytest.mark.parametrize(
    "ruling",
    [Unchanged(), Refused(Refusal.OPERATION_IN_PROGRESS, verbatim("Ask again."))],
    ids=["unchanged", "refused"],
)
async def test_a_ruling_that_accepts_nothing_writes_nothing(
    world: World, ruling: Unchanged | Refused
) -> None:
    created = await world.create()
    ruled = await world.api.amend(created.id, lambda _workspace, _now: RulingRecord(ruling, (WISHED,)))
    assert (ruled.ruling, ruled.workspace) == (ruling, created)
    assert await world.api.get(created.id) == created
    assert await events_of(world.api, created.id) == []


async def test_a_judge_that_fails_leaves_nothing(world: World) -> None:
    created = await world.create()

    def fails(_workspace: Workspace, _now: datetime) -> RulingRecord:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.api.amend(created.id, fails)
    assert await world.api.get(created.id) == created


async def test_requests_at_once_are_ruled_on_one_after_another(world: World) -> None:
    created = await world.create()

    def count(workspace: Workspace, _now: datetime) -> RulingRecord:
        return RulingRecord(Accepted(replace(workspace.spec, revision=workspace.spec.revision + 1)))

    await asyncio.gather(*(world.api.amend(created.id, count) for _ in range(20)))
    assert (await world.api.get(created.id)).spec.revision == 21


# History


async def test_history_is_read_newest_first_and_page_by_page(world: World) -> None:
    created = await world.create()
    status = created.status
    for number in range(5):
        event = replace(BEGUN, reason=verbatim(f"number {number}"))
        await world.controller.persist([Change(created.id, replace(status, version=number), (event,))])
    first = await world.api.history(created.id, limit=2)
    assert [str(recorded.event.reason) for recorded in first] == ["number 4", "number 3"]
    assert all(recorded.workspace_id == created.id for recorded in first)
    rest = await world.api.history(created.id, before_seq=first[-1].seq)
    assert [str(recorded.event.reason) for recorded in rest] == ["number 2", "number 1", "number 0"]
    times = [recorded.at for recorded in (*first, *rest)]
    assert times == sorted(times, reverse=True)
