"""What a store tells others of its writes: hints."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.stores import World, claim

from codehub.core.amendments import RulingRecord
from codehub.core.requests import Accepted, Unchanged
from codehub.ports.store import Change, Contradiction


@asynccontextmanager
async def collected_hints(world: World) -> AsyncIterator[set[UUID]]:
    """Collect the ids that are hinted at inside. A last hint of our own says that all before it have come."""
    collected: set[UUID] = set()
    async with world.hints.listen() as hints:
        yield collected
        last = uuid4()
        await world.hints.send({last})
        async for hint in hints:
            collected |= hint
            if last in hint:
                break
    collected.discard(last)


async def test_hints_follow_what_was_written_and_nothing_else(world: World) -> None:
    won, lost, amended, refused = [await world.create() for _ in range(4)]
    now = await world.now()
    await world.controller.persist([claim(lost, now)])
    async with collected_hints(world) as hinted:
        await world.controller.persist([claim(won, now), claim(lost, now)])
        await world.api.amend(
            amended.id, lambda each, _now: RulingRecord(Accepted(replace(each.spec, memo="new")))
        )
        await world.api.amend(refused.id, lambda _each, _now: RulingRecord(Unchanged()))
        with pytest.raises(Contradiction):
            await world.controller.persist([Change(refused.id, replace(refused.status, error_count=-1))])
        created = await world.create()
    assert hinted == {won.id, amended.id, created.id}


async def test_whoever_is_woken_by_a_hint_sees_what_it_is_about(world: World) -> None:
    created = await world.create()
    async with world.hints.listen() as hints:
        await world.controller.persist([claim(created, await world.now())])
        async for _hint in hints:
            assert (await world.api.get(created.id)).status.version == 1
            break


async def test_a_look_that_changed_nothing_else_is_stored_and_hinted_to_nobody(world: World) -> None:
    row, other = await world.create(), await world.create()
    async with asyncio.timeout(PATIENCE_S), world.hints.listen() as listener:
        looked = replace(row.status, observed_at=await world.now())
        assert not await world.controller.persist([Change(row.id, looked, is_quiet=True)])
        assert not await world.controller.persist([Change(other.id, other.status)])
        assert await anext(listener) == {other.id}
    assert (await world.api.get(row.id)).status.observed_at == looked.observed_at
