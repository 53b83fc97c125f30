"""A dump of a cluster that had counted further, restored into a younger server: its history."""

from collections.abc import AsyncIterator

import pytest
from tests.support.postgres import TestServer
from tests.support.stores import PostgresWorld, fetch, made_with_history

from codehub.adapters.postgres.migrate import migrate
from codehub.ports.store import Position


@pytest.fixture
async def restored(server: TestServer) -> AsyncIterator[PostgresWorld]:
    """A database as pg_restore leaves it in a younger cluster, in
    which a codehub that did not know has run since.
    """
    async with PostgresWorld.opened(server) as world:
        await world.add_user()
        made = [await made_with_history(world) for _ in range(3)]
        await world.admin.execute("SET session_replication_role = replica")
        await world.admin.execute("UPDATE workspaces SET changed_xid = '50000000000'")
        await world.admin.execute(
            "UPDATE workspace_events SET xact = (50000000000 - seq)::text::xid8 WHERE workspace_id <> $1",
            made[0],
        )
        await world.admin.execute("RESET session_replication_role")
        await made_with_history(world)
        yield world


async def test_after_a_dump_was_restored_a_look_reads_what_changed_and_no_more(
    restored: PostgresWorld,
) -> None:
    touched = "SELECT updated_at FROM workspaces ORDER BY id"
    before = await fetch(restored.connect_args, touched)
    assert await migrate(restored.connect_args) == []
    first = await restored.controller.changes(None)
    assert len(first.workspaces) == 4
    assert not (await restored.controller.changes(first.cursor)).workspaces
    changed = await made_with_history(restored)
    assert [row.id for row in (await restored.controller.changes(first.cursor)).workspaces] == [changed]
    assert (await fetch(restored.connect_args, touched))[:4] == before


async def test_after_a_dump_was_restored_a_stream_waits_for_nothing_and_goes_on_in_order(
    restored: PostgresWorld,
) -> None:
    await migrate(restored.connect_args)
    everything = await restored.api.feed(Position(0, 0), limit=10)
    numbers = [event.position.seq for event in everything.events]
    assert numbers == sorted(numbers)
    assert len(numbers) == 4
    assert not everything.is_held_back
    for index, seq in enumerate(numbers):
        position = await restored.api.feed_position(seq)
        assert position is not None
        later = await restored.api.feed(position, limit=10)
        assert [event.position.seq for event in later.events] == numbers[index + 1 :]
    await made_with_history(restored)
    end = everything.events[-1].position
    assert len((await restored.api.feed(end, limit=10)).events) == 1


async def test_where_nothing_is_ahead_nothing_is_written(server: TestServer) -> None:
    async with PostgresWorld.opened(server) as world:
        await world.add_user()
        await made_with_history(world)
        stamps = (
            "SELECT ARRAY[w.xmin::text, e.xmin::text] FROM workspaces w JOIN workspace_events e ON "
            "e.workspace_id = w.id"
        )
        before = await fetch(world.connect_args, stamps)
        await migrate(world.connect_args)
        assert await fetch(world.connect_args, stamps) == before
