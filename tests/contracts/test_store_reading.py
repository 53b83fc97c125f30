"""The store's contract on what faces read: pages, keys of creations, and streams that miss nothing."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.stores import PostgresWorld, World

from codehub.adapters.system.machine import SystemIdentity
from codehub.core.amendments import RulingRecord
from codehub.core.history import Event, EventKind
from codehub.core.listing import BEFORE_ALL, list_cursor, read_cursor
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.progress import Progress
from codehub.core.requests import Accepted, Refusal, Refused
from codehub.core.workspace import Status, Workspace
from codehub.ports.store import Change, Key, KeyReused, PageQuery, Position

MADE = Event(EventKind.WISH, None, "RUNNING", "ann", verbatim("asked for"))
KEY = Key("k1", b"x" * 32)
START = Position(0, 0)


async def make(world: World, **fields: object) -> Workspace:
    return await world.api.create_workspace(SystemIdentity().new_id(), world.spec(**fields), [MADE])


async def other_user(world: World) -> World:
    other = replace(world, user_id=uuid4())
    await other.add_user()
    return other


# Pages


async def test_rows_are_loaded_with_the_database_s_time_and_those_that_are_not_there_are_left_out(
    world: World,
) -> None:
    row = await make(world)
    for reader in (world.api, world.controller):
        loaded = await reader.load([row.id, uuid4()])
        assert list(loaded.workspaces) == [row]
        assert loaded.now >= row.created_at
        assert (await reader.load([])).workspaces == []


async def all_pages(world: World, owner_user_id: UUID | None) -> list[UUID]:
    got: list[UUID] = []
    after = BEFORE_ALL
    while page := await world.api.page(PageQuery(2, owner_user_id, after)):
        got += [row.id for row in page]
        after = read_cursor(list_cursor(page[-1]))
    return got


async def test_pages_are_newest_first_and_end(world: World) -> None:
    made = [(await world.create()).id for _ in range(5)]
    assert await all_pages(world, world.user_id) == sorted(made, reverse=True)


async def pin(world: World, workspace_id: UUID, at: datetime | None) -> None:
    await world.api.amend(
        workspace_id, lambda row, _now: RulingRecord(Accepted(replace(row.spec, pinned_at=at)))
    )


@pytest.mark.parametrize("whose", ["one owner's", "everybody's"])
async def test_pinned_workspaces_are_first_on_every_page_and_the_newest_pin_on_top(
    world: World, whose: str
) -> None:
    made = sorted([(await world.create()).id for _ in range(7)])
    now = await world.now()
    # By microseconds, and one pair at the same time: the cursor is exact, and ids decide.
    pins = {made[1]: timedelta(0), made[4]: timedelta(microseconds=1), made[2]: timedelta(0)}
    for workspace_id, age in pins.items():
        await pin(world, workspace_id, now - age)
    expected = [made[2], made[1], made[4], made[6], made[5], made[3], made[0]]
    owner_user_id = world.user_id if whose == "one owner's" else None
    assert [each for each in await all_pages(world, owner_user_id) if each in made] == expected
    await pin(world, made[2], None)
    unpinned = [made[1], made[4], made[6], made[5], made[3], made[2], made[0]]
    assert [each for each in await all_pages(world, owner_user_id) if each in made] == unpinned


async def test_a_page_is_one_owner_s_or_everybody_s(world: World) -> None:
    mine = await world.create()
    theirs = await (await other_user(world)).create()
    assert [row.id for row in await world.api.page(PageQuery(10, world.user_id))] == [mine.id]
    assert {row.id for row in await world.api.page(PageQuery(10))} == {mine.id, theirs.id}


@pytest.mark.parametrize(
    ("search_text", "is_found"),
    [("50%", True), ("MACHINE", True), ("about", True), ("5_%", False), ("\\", False), ("nothing", False)],
)
async def test_words_are_looked_for_in_name_and_description_and_mean_themselves(
    world: World, search_text: str, is_found: bool
) -> None:
    row = await world.create(name="Machine learning 50%", description="All about it")
    await world.create(name="other")
    page = await world.api.page(PageQuery(10, world.user_id, search_text=search_text))
    assert [each.id for each in page] == ([row.id] if is_found else [])


async def test_a_page_can_be_of_one_phase(world: World) -> None:
    await world.create()
    asleep = await world.place(world.spec(desired_state=DesiredState.STANDBY), Status(phase=Phase.STANDBY))
    page = await world.api.page(PageQuery(10, world.user_id, phase=Phase.STANDBY))
    assert [row.id for row in page] == [asleep.id]
    assert await world.api.phases() == {Phase.PENDING: 1, Phase.STANDBY: 1}


async def test_the_deleted_are_apart_and_only_while_they_can_be_undeleted(world: World) -> None:
    now = await world.now()
    kept, over = now + timedelta(days=1), now - timedelta(seconds=1)
    deleted = {"desired_state": DesiredState.PENDING, "deleted_at": now - timedelta(days=2)}
    live = await world.create()
    leaving = await world.create(**deleted, purge_at=kept)
    trash = await world.place(world.spec(**deleted, purge_at=kept), Status(phase=Phase.DELETED))
    kept_for_good = await world.place(world.spec(**deleted), Status(phase=Phase.DELETED))
    await world.place(world.spec(**deleted, purge_at=over), Status(phase=Phase.DELETED))
    undeleted = await world.place(world.spec(desired_state=DesiredState.PENDING), Status(phase=Phase.DELETED))
    for owner_user_id in (world.user_id, None):
        here = await world.api.page(PageQuery(10, owner_user_id))
        assert {row.id for row in here} == {live.id, leaving.id, undeleted.id}
        in_trash = await world.api.page(PageQuery(10, owner_user_id, deleted=True))
        assert {row.id for row in in_trash} == {trash.id, kept_for_good.id}


async def test_a_row_that_has_not_changed_is_the_same_object_and_one_that_has_is_new(world: World) -> None:
    row = await world.create()
    (first,) = await world.api.page(PageQuery(10, world.user_id))
    (again,) = await world.api.page(PageQuery(10, world.user_id))
    assert first is again
    assert (await world.api.several([row.id]))[row.id] is first
    await world.controller.persist([Change(row.id, replace(row.status, error_count=7))])
    (changed,) = await world.api.page(PageQuery(10, world.user_id))
    assert changed.status.error_count == 7
    await world.api.touch({row.id: await world.now()})
    assert (await world.api.several([row.id, uuid4()]))[row.id].spec.last_access_at is not None


async def test_people_have_names_and_places(world: World) -> None:
    await world.create()
    await world.create(desired_state=DesiredState.PENDING)
    assert await world.api.count_running(world.user_id) == 1
    assert await world.api.count_running(uuid4()) == 0
    names = await world.api.usernames([world.user_id, uuid4()])
    assert names == {world.user_id: f"user-{world.user_id}"}


# Keys of creations


async def test_a_key_makes_one_workspace_however_often_it_is_used(world: World) -> None:
    spec = world.spec()
    made = await asyncio.gather(*(world.api.create_workspace(uuid4(), spec, [MADE], KEY) for _ in range(5)))
    assert len({row.id for row in made}) == 1
    with pytest.raises(KeyReused):
        await world.api.create_workspace(uuid4(), world.spec(), [], Key("k1", b"y" * 32))
    other = await other_user(world)
    assert (await other.api.create_workspace(uuid4(), other.spec(), [], KEY)).id != made[0].id


async def test_a_key_counts_before_the_limit_and_not_if_nothing_was_made(world: World) -> None:
    refused = Refused(Refusal.LIMIT_EXCEEDED, verbatim("no"))
    spec = world.spec()
    assert await world.api.create_counted(uuid4(), spec, [], lambda _running: refused, KEY) is refused
    made = await world.api.create_counted(uuid4(), spec, [], lambda _running: None, KEY)
    assert isinstance(made, Workspace)
    again = await world.api.create_counted(uuid4(), spec, [], lambda _running: refused, KEY)
    assert isinstance(again, Workspace)
    assert again.id == made.id


# Streams


async def follow(world: World, after: Position, owner: UUID | None = None) -> tuple[list[int], Position]:
    """Read to the end, waiting for what other transactions hold back."""
    seqs: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while True:
            feed = await world.api.feed(after, limit=3, owner_user_id=owner)
            seqs += [event.position.seq for event in feed.events]
            after = feed.position
            if not feed.events and not feed.is_held_back:
                return seqs, after
            await asyncio.sleep(0)


async def end(world: World) -> Position:
    """The end of the history, once everything that was committed can be read."""
    _seqs, position = await follow(world, START)
    return position


async def test_a_stream_goes_on_where_it_was_cut(world: World) -> None:
    begin = await end(world)
    for _ in range(5):
        await make(world)
    seqs, position = await follow(world, begin)
    assert len(seqs) == 5
    assert await follow(world, position) == ([], position)
    resumed = await world.api.feed_position(seqs[2])
    assert resumed is not None
    assert (await follow(world, resumed))[0] == seqs[3:]
    assert await world.api.feed_position(seqs[-1] + 1000) is None
    assert await world.api.feed_end() == position


async def test_a_stream_can_be_one_owner_s_and_knows_the_end_of_a_workspace(world: World) -> None:
    begin = await end(world)
    mine = await make(world)
    await make(await other_user(world))
    gone = Event(EventKind.PHASE, "PENDING", "DELETED", "c1", verbatim("seen"))
    await world.controller.persist([Change(mine.id, mine.status, (gone,))])
    await follow(world, begin)
    feed = await world.api.feed(begin, limit=10, owner_user_id=world.user_id)
    assert [(event.workspace_id, event.is_end) for event in feed.events] == [
        (mine.id, False),
        (mine.id, True),
    ]
    assert {event.owner_user_id for event in feed.events} == {world.user_id}


async def test_a_reader_that_follows_many_writers_misses_nothing_and_reads_nothing_twice(
    world: World,
) -> None:
    rows = [await make(world) for _ in range(8)]
    position = await end(world)

    async def write(row: Workspace) -> None:
        for count in range(10):
            event = replace(MADE, reason=verbatim(f"{count}"))
            await world.api.amend(
                row.id,
                lambda each, _now, event=event: RulingRecord(  # type: ignore[misc]
                    Accepted(replace(each.spec, memo=str(event.reason))), (event,)
                ),
            )

    writing = asyncio.gather(*(write(row) for row in rows))
    got: list[int] = []
    while not writing.done():
        feed = await world.api.feed(position, limit=7)
        got += [event.position.seq for event in feed.events]
        position = feed.position
        await asyncio.sleep(0)
    await writing
    got += (await follow(world, position))[0]
    recorded = {event.seq for row in rows for event in await world.api.history(row.id, limit=10)}
    assert len(got) == len(set(got)) == 80
    assert set(got) == recorded


async def test_a_number_taken_early_and_committed_late_is_not_missed(postgres: PostgresWorld) -> None:
    """The order of numbers is not the order of transactions:
    whoever went by number alone would lose the first.
    """
    late_row, early_row = await make(postgres), await make(postgres)
    begin = await end(postgres)
    insert = (
        "INSERT INTO workspace_events (workspace_id, owner_user_id, kind, actor, reason)"
        " VALUES ($1, $2, 'wish', 'ann', 'x') RETURNING seq"
    )
    async with postgres.api_pool.acquire() as connection, postgres.api_pool.acquire() as second_connection:
        first, second = connection.transaction(), second_connection.transaction()
        await first.start()
        await connection.execute("SELECT pg_current_xact_id()")  # the older transaction …
        await second.start()
        low = await second_connection.fetchval(insert, early_row.id, postgres.user_id)
        high = await connection.fetchval(insert, late_row.id, postgres.user_id)  # … takes the higher number
        await first.commit()
        feed = await postgres.api.feed(begin, limit=10)
        assert [event.position.seq for event in feed.events] == [high]
        await second.commit()
        assert (await follow(postgres, feed.position))[0] == [low]
        resumed = await postgres.api.feed_position(high)
        assert resumed is not None
        assert (await follow(postgres, resumed))[0] == [low]


async def test_transactions_are_in_the_order_of_numbers_not_of_words(postgres: PostgresWorld) -> None:
    row = await make(postgres)
    await postgres.admin.execute("DELETE FROM workspace_events")
    for xact in (9, 10, 11):
        await postgres.admin.execute(
            "INSERT INTO workspace_events (xact, workspace_id, owner_user_id, kind, actor, reason)"
            " VALUES ($1::text::xid8, $2, $3, 'wish', 'ann', 'x')",
            str(xact),
            row.id,
            postgres.user_id,
        )
    for owner in (None, postgres.user_id):
        feed = await postgres.api.feed(START, limit=10, owner_user_id=owner)
        assert [event.position.xact for event in feed.events] == [9, 10, 11]
    assert (await postgres.api.feed_end()).xact == 11


# What may be lost


async def test_what_moves_and_what_will_sleep_soon(world: World) -> None:
    row, op_id = await world.create(), uuid4()
    now = await world.now()
    begun = replace(row.status, operation=Operation.RESTORING, op_id=op_id, op_started_at=now)
    await world.controller.persist([Change(row.id, begun)])
    half = Progress("restore", 5, 10, 2.5, 2.0)
    await world.controller.write_progress({row.id: (op_id, half)}, [])
    (moving,) = await world.api.all_progress()
    assert (moving.workspace_id, moving.owner_user_id, moving.progress) == (row.id, world.user_id, half)
    running = Status(phase=Phase.RUNNING, phase_changed_at=now)
    soon = await world.place(world.spec(standby_ttl_seconds=30), running)
    await world.place(world.spec(standby_ttl_seconds=300), running)
    await world.place(world.spec(standby_ttl_seconds=None), running)
    assert [row.id for row in await world.api.sleeping_soon(timedelta(seconds=60))] == [soon.id]
