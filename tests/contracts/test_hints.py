"""The contract of hints, for every adapter: what is sent comes out,
coalesced; what may have been missed says so; nothing raises.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import ON_15, Worlds
from tests.support.patience import PATIENCE_S, until
from tests.support.redis import REDIS, running_redis
from tests.support.stores import PostgresWorld

from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.redis.hints import RedisHints
from codehub.adapters.system.machine import SystemClock
from codehub.ports.hints import Hints

Listener = AsyncIterator[frozenset[UUID]]


@dataclass(frozen=True)
class HintsWorld:
    """Hints, a way to cut their listener off, and one to wait until what was sent has come to it."""

    hints: Hints
    lose_connections: Callable[[], Awaitable[None]]
    have_come: Callable[[Listener, set[UUID]], Awaitable[None]]


@pytest.fixture(params=["memory", "postgres-18", ON_15, pytest.param("redis", marks=REDIS)])
async def world(request: pytest.FixtureRequest, worlds: Worlds) -> AsyncIterator[HintsWorld]:
    if request.param == "memory":
        in_memory = MemoryHints()

        async def lose() -> None:
            in_memory.lose_connections()

        yield HintsWorld(in_memory, lose, are_pending)
    elif request.param == "redis":
        async with running_redis() as server:
            on_redis = RedisHints(server.url, clock=SystemClock())

            async def have_come(_listener: Listener, _ids: set[UUID]) -> None:
                # It answers after it has written what was published before,
                # and whatever can be read is read at once.
                await server.ping()

            yield HintsWorld(on_redis, server.lose_connections, have_come)
            await on_redis.close()
    else:
        on_postgres = await worlds(request.param)
        await on_postgres.clean()
        yield HintsWorld(on_postgres.hints, lambda: terminate_listeners(on_postgres), are_pending)


async def are_pending(listener: Listener, ids: set[UUID]) -> None:
    await until(lambda: listener.pending == ids)  # type: ignore[attr-defined]


@pytest.fixture
def hints(world: HintsWorld) -> Hints:
    return world.hints


async def terminate_listeners(world: PostgresWorld) -> None:
    listens = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"

    async def is_alone() -> bool:  # one that an earlier test had may not have gone yet
        return bool(await world.admin.fetchval(f"SELECT count(*) <= 1 {listens}"))

    await until(is_alone)
    assert len(await world.admin.fetch(f"SELECT pg_terminate_backend(pid, 5000) {listens}")) == 1


async def test_what_is_sent_comes_out_of_every_listener(hints: Hints) -> None:
    ids = frozenset({uuid4(), uuid4()})
    async with asyncio.timeout(PATIENCE_S), hints.listen() as first, hints.listen() as other:
        await hints.send(ids)
        assert await anext(first) == ids
        assert await anext(other) == ids


async def test_hints_that_nobody_took_are_one_hint(world: HintsWorld) -> None:
    ids = {uuid4() for _ in range(5)}
    async with asyncio.timeout(PATIENCE_S), world.hints.listen() as listener:
        for each in ids:
            await world.hints.send([each])
        await world.have_come(listener, ids)
        assert await anext(listener) == ids


async def test_a_hint_about_nothing_is_not_sent(hints: Hints) -> None:
    ids = frozenset({uuid4()})
    async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
        await hints.send(())
        await hints.send(ids)
        assert await anext(listener) == ids


@pytest.mark.parametrize(("number", "are_named"), [(1, True), (100, True), (101, False), (10_000, False)])
async def test_a_hint_about_very_many_says_look_at_all(hints: Hints, number: int, are_named: bool) -> None:
    ids = frozenset(uuid4() for _ in range(number))
    async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
        await hints.send(ids)
        assert await anext(listener) == (ids if are_named else frozenset())


async def test_a_hint_sent_before_listening_is_not_heard(hints: Hints) -> None:
    ids = frozenset({uuid4()})
    await hints.send({uuid4()})
    async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
        await hints.send(ids)
        assert await anext(listener) == ids


async def test_after_a_lost_connection_everything_is_to_be_looked_at_and_hints_go_on(
    world: HintsWorld,
) -> None:
    ids = frozenset({uuid4()})
    async with asyncio.timeout(PATIENCE_S), world.hints.listen() as listener:
        for _ in range(2):
            await world.lose_connections()
            assert await anext(listener) == frozenset()
            await world.hints.send(ids)
            assert await anext(listener) == ids


async def test_a_connection_lost_while_somebody_waits_wakes_them(world: HintsWorld) -> None:
    async with asyncio.timeout(PATIENCE_S), world.hints.listen() as listener:
        waiting = asyncio.ensure_future(anext(listener))
        await asyncio.sleep(0)
        await world.lose_connections()
        assert await waiting == frozenset()


async def test_a_hint_that_can_not_be_sent_is_forgotten() -> None:
    async def fail(point: str) -> None:
        raise OSError(point)

    in_memory = MemoryHints(faults=fail)
    async with in_memory.listen():
        await in_memory.send({uuid4()})


async def test_postgres_hints_that_can_not_be_sent_are_forgotten(postgres: PostgresWorld) -> None:
    pool = await open_pool(postgres.connect_args, Role.API)
    hints = PostgresHints(pool, postgres.connect_args, Role.API, clock=SystemClock())
    await pool.close()
    await hints.send({uuid4()})


async def test_a_listener_waits_for_a_server_that_is_not_there_yet(postgres: PostgresWorld) -> None:
    address = {**postgres.connect_args, "host": "/nowhere"}
    slept: list[float] = []

    class ServerComesUp(SystemClock):
        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 4:
                address["host"] = postgres.connect_args["host"]

    hints = PostgresHints(postgres.api_pool, address, Role.API, clock=ServerComesUp())
    async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
        assert await anext(listener) == frozenset()
        assert slept == [0.2, 0.4, 0.8, 1.6]


async def test_a_listener_that_is_ended_while_it_begins_leaves_no_connection(
    postgres: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: asyncio.Queue[Any] = asyncio.Queue()

    async def hang(self: object, *_: object) -> None:
        connections.put_nowait(self)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncpg.Connection, "add_listener", hang)
    hints = PostgresHints(postgres.api_pool, postgres.connect_args, Role.API, clock=SystemClock())
    opening = asyncio.create_task(hints.listen().__aenter__())
    connection = await connections.get()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert connection.is_closed()


async def test_one_who_sends_hints_can_hear_those_of_others_alone(postgres: PostgresWorld) -> None:
    """The controller writes rows and listens for those that others wrote: its own are no news to it."""
    pool = await open_pool(postgres.connect_args, Role.CONTROLLER)
    try:
        hints = PostgresHints(pool, postgres.connect_args, Role.CONTROLLER, clock=SystemClock())
        mine, theirs = hints.of_others(), postgres.hints
        async with asyncio.timeout(PATIENCE_S), mine.listen() as listener, hints.listen() as everything:
            own, other = [uuid4() for _ in range(3)], uuid4()
            for each in own:
                await hints.send([each])
            await theirs.send([other])
            assert await anext(listener) == {other}
            heard: set[UUID] = set()
            while heard != {*own, other}:
                heard |= await anext(everything)
            await mine.send(own)
            await theirs.send([other])
            assert await anext(listener) == {other}
    finally:
        pool.terminate()


async def test_a_payload_that_is_not_ours_says_look_at_all(postgres: PostgresWorld) -> None:
    async with asyncio.timeout(PATIENCE_S), postgres.hints.listen() as listener:
        await postgres.admin.execute("NOTIFY wc_wake, 'hello'")
        assert await anext(listener) == frozenset()


@REDIS
async def test_a_payload_on_redis_that_is_not_ours_says_look_at_all() -> None:
    async with running_redis() as server:
        hints = RedisHints(server.url, clock=SystemClock())
        async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
            await server.publish("hello")
            assert await anext(listener) == frozenset()
        await hints.close()


@REDIS
async def test_redis_down_only_costs_time() -> None:
    async with running_redis() as server:
        hints = RedisHints(server.url, clock=SystemClock())
        async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
            await server.stop()
            await hints.send({uuid4()})
            waiting = asyncio.ensure_future(anext(listener))
            await server.start()
            assert await waiting == frozenset()
            ids = frozenset({uuid4()})
            await hints.send(ids)
            assert await anext(listener) == ids
        await hints.close()


@REDIS
async def test_a_listener_waits_for_a_redis_that_is_not_there_yet() -> None:
    async with running_redis() as server:
        await server.stop()
        hints = RedisHints(server.url, clock=SystemClock())
        async with asyncio.timeout(PATIENCE_S), hints.listen() as listener:
            waiting = asyncio.ensure_future(anext(listener))
            await server.start()
            assert await waiting == frozenset()
        await hints.close()
