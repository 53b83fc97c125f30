"""The store's contract on who lives: heard of lately, by the database's time; gone at once when it says
so.
"""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from tests.support.stores import PostgresWorld, World

from codehub.adapters.memory.store import MemoryStore
from codehub.core.membership import Member


def member() -> Member:
    return Member(uuid4(), "here", frozenset({"local-process", "local-dir"}))


async def fall_silent(world: World, by: timedelta) -> None:
    """Let everybody who was heard of have been heard of so much earlier."""
    if isinstance(world, PostgresWorld):
        await world.admin.execute("UPDATE controllers SET heartbeat_at = heartbeat_at - $1::interval", by)
        return
    assert isinstance(world.controller, MemoryStore)
    world.controller.silence_members(by)


async def test_who_beats_is_seen_by_everybody_who_beats(world: World) -> None:
    first, second = member(), member()
    assert await world.controller.beat(first, alive_s=60) == {first.id: first}
    both = {first.id: first, second.id: second}
    assert await world.controller.beat(second, alive_s=60) == both
    assert await world.controller.beat(first, alive_s=60) == both


async def test_who_was_not_heard_of_lately_is_not_seen(world: World) -> None:
    first, second = member(), member()
    await world.controller.beat(first, alive_s=60)
    await fall_silent(world, timedelta(seconds=61))
    assert await world.controller.beat(second, alive_s=60) == {second.id: second}
    assert await world.controller.beat(first, alive_s=60) == {first.id: first, second.id: second}


async def test_who_was_heard_of_by_a_clock_that_has_been_set_back_is_not_seen(world: World) -> None:
    first, second = member(), member()
    await world.controller.beat(first, alive_s=60)
    await fall_silent(world, timedelta(hours=-9))
    assert await world.controller.beat(second, alive_s=60) == {second.id: second}


async def test_who_leaves_is_gone_at_once(world: World) -> None:
    first, second = member(), member()
    await world.controller.beat(first, alive_s=60)
    await world.controller.leave(first.id)
    await world.controller.leave(uuid4())
    assert await world.controller.beat(second, alive_s=60) == {second.id: second}


async def test_the_latest_word_on_its_backends_counts(world: World) -> None:
    registered = member()
    await world.controller.beat(registered, alive_s=60)
    changed = replace(registered, backends=frozenset({"local-docker"}))
    assert await world.controller.beat(changed, alive_s=60) == {registered.id: changed}


async def test_faces_are_told_who_was_heard_of_the_latest_first(world: World) -> None:
    first, second = member(), member()
    await world.controller.beat(first, alive_s=60)
    await world.controller.beat(second, alive_s=60)
    heard = await world.api.members()
    assert [record.member for record in heard] == [second, first]
    assert heard[0].at >= heard[1].at
    await world.controller.leave(second.id)
    assert [record.member for record in await world.api.members()] == [first]


async def test_faces_are_told_when_each_controller_last_looked_at_all_it_handles(world: World) -> None:
    first, second = member(), member()
    looked_at = await world.now()
    await world.controller.beat(first, alive_s=60, looked_at=looked_at)
    await world.controller.beat(second, alive_s=60)
    assert {record.member.id: record.looked_at for record in await world.api.members()} == {
        first.id: looked_at,
        second.id: None,
    }
    later = looked_at + timedelta(seconds=1)
    await world.controller.beat(first, alive_s=60, looked_at=later)
    assert later in [record.looked_at for record in await world.api.members()]
    await world.controller.beat(first, alive_s=60)
    assert [record.looked_at for record in await world.api.members()] == [None, None]


async def test_faces_are_told_of_nobody_who_was_not_heard_of_within_the_time_they_ask_for(
    world: World,
) -> None:
    silent, heard = member(), member()
    await world.controller.beat(silent, alive_s=60)
    await fall_silent(world, timedelta(seconds=61))
    await world.controller.beat(heard, alive_s=60)
    assert [record.member for record in await world.api.members(within_s=60)] == [heard]
    assert [record.member for record in await world.api.members(within_s=120)] == [heard, silent]
