"""Compare-and-swap, for every adapter: who wrote first wins, and who lost leaves nothing."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.stores import BEGUN, World, claim

from codehub.core.amendments import By, RulingRecord
from codehub.core.history import Event, EventKind
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.requests import Accepted
from codehub.core.workspace import (
    Status,
)
from codehub.ports.store import ApiStore, Change
from codehub.service.workspaces import WorkspaceService

ARRIVED = Event(
    EventKind.PHASE, "PENDING", "STANDBY", "controller", verbatim("It is done: its effect was seen.")
)


async def events_of(api: ApiStore, workspace_id: UUID) -> list[Event]:
    return [recorded.event for recorded in await api.history(workspace_id)]


async def test_a_pass_is_stored_and_adds_one_to_each_version(world: World) -> None:
    workspaces = [await world.create() for _ in range(3)]
    now = await world.now()
    changes = [claim(each, now) for each in workspaces]
    assert await world.controller.persist(changes) == frozenset()
    for before, change in zip(workspaces, changes, strict=True):
        after = await world.api.get(before.id)
        assert after.status == replace(change.status, version=1)
        assert after.spec == before.spec
        assert after.updated_at > before.updated_at
        assert await events_of(world.api, before.id) == [BEGUN]


async def test_nothing_to_persist_is_nothing(world: World) -> None:
    assert await world.controller.persist([]) == frozenset()


async def test_a_pass_names_a_workspace_once(world: World) -> None:
    change = claim(await world.create(), await world.now())
    with pytest.raises(ValueError, match="one change per workspace"):
        await world.controller.persist([change, change])


async def test_a_change_that_answers_a_request_is_lost_when_there_is_a_newer_one(world: World) -> None:
    created = await world.create(desired_state=DesiredState.PENDING)
    by = By("ann", verbatim("because"))
    service = WorkspaceService(world.api, limits=Limits(), trash_s=60)
    answer = replace(claim(created, created.created_at), revision=created.spec.revision)
    await service.set_wish(created.id, DesiredState.STANDBY, by)
    assert await world.controller.persist([answer]) == {created.id}
    assert (await world.api.get(created.id)).status == created.status
    assert (
        await world.controller.persist([replace(answer, revision=created.spec.revision + 1)]) == frozenset()
    )


async def test_a_change_that_answers_a_request_is_lost_when_there_is_a_newer_recovery(world: World) -> None:
    created = await world.create(desired_state=DesiredState.PENDING)
    known = created.spec
    for seconds in (1, 2):
        answer = replace(
            claim(created, created.created_at), revision=known.revision, recover_at=known.recover_at
        )
        recovered = replace(known, recover_at=created.created_at + timedelta(seconds=seconds))
        await world.api.amend(created.id, lambda _row, _now, spec=recovered: RulingRecord(Accepted(spec)))  # type: ignore[misc]
        assert await world.controller.persist([answer]) == {created.id}
        known = recovered
    assert (await world.api.get(created.id)).status == created.status
    answer = replace(answer, recover_at=known.recover_at)
    assert await world.controller.persist([answer]) == frozenset()


async def test_who_lost_the_swap_is_reported_and_leaves_nothing(world: World) -> None:
    won, lost = await world.create(), await world.create()
    now = await world.now()
    first = claim(lost, now)
    await world.controller.persist([first])
    late = claim(lost, now)
    unknown = Change(uuid4(), Status(), (BEGUN,))
    assert await world.controller.persist([late, claim(won, now), unknown]) == {lost.id, unknown.workspace_id}
    assert (await world.api.get(won.id)).status.version == 1
    assert (await world.api.get(lost.id)).status == replace(first.status, version=1)
    assert await events_of(world.api, lost.id) == [BEGUN]
    assert await events_of(world.api, unknown.workspace_id) == []


async def test_a_claim_by_two_passes_at_once_is_won_by_exactly_one(world: World) -> None:
    workspaces = [await world.create() for _ in range(20)]
    now = await world.now()
    ours = [claim(each, now) for each in workspaces]
    theirs = [claim(each, now) for each in reversed(workspaces)]
    lost_by_us, lost_by_them = await asyncio.gather(
        world.controller.persist(ours), world.controller.persist(theirs)
    )
    assert lost_by_us | lost_by_them == {each.id for each in workspaces}
    assert not lost_by_us & lost_by_them
    op_ids = {change.workspace_id: change.status.op_id for change in theirs} | {
        change.workspace_id: change.status.op_id for change in ours if change.workspace_id not in lost_by_us
    }
    for each in (await world.controller.load([each.id for each in workspaces])).workspaces:
        assert (each.status.version, each.status.op_id) == (1, op_ids[each.id])
        assert await events_of(world.api, each.id) == [BEGUN]


async def test_an_operation_is_claimed_and_finished(world: World) -> None:
    created = await world.create()
    await world.controller.persist([claim(created, await world.now())])
    (under_way,) = (await world.controller.load([created.id])).workspaces
    assert under_way.status.operation is Operation.PROVISIONING
    finished = replace(
        under_way.status,
        operation=Operation.NONE,
        op_started_at=None,
        phase=Phase.STANDBY,
        phase_changed_at=await world.now(),
    )
    assert await world.controller.persist([Change(created.id, finished, (BEGUN, ARRIVED))]) == frozenset()
    after = await world.api.get(created.id)
    assert (after.status.phase, after.status.op_id, after.status.version) == (
        Phase.STANDBY,
        under_way.status.op_id,
        2,
    )
    assert await events_of(world.api, created.id) == [ARRIVED, BEGUN, BEGUN]


async def test_a_wish_does_not_cost_the_controller_its_swap_nor_the_other_way_round(world: World) -> None:
    created = await world.create()
    await world.api.amend(
        created.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, memo="new", revision=2)))
    )
    assert await world.controller.persist([claim(created, await world.now())]) == frozenset()
    after = await world.api.get(created.id)
    assert (after.spec.memo, after.spec.revision, after.status.version) == ("new", 2, 1)
