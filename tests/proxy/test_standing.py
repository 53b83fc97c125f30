"""What is known of people and places is kept current: what is open
ends when it may no longer be, and stays when it may.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.edge import Talk, server, until
from tests.support.hub import ANN, BOBS, COOKIE, ORIGIN, SESSION, WRITES, Hub, hub
from tests.support.patience import PATIENCE_S, within
from tests.support.workspaces import OWNER_ID

from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import LoadedWorkspaces, StoreUnavailable
from codehub.proxy.policy import route_cache
from codehub.proxy.policy.route_cache import RouteCache

BY = By("ann", verbatim("test"))
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


async def switch(talk: Talk) -> None:
    """An IDE whose every request becomes a tunnel."""
    await talk.head()
    await talk.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    await talk.rest()


async def tunnel(made: Hub, row: Workspace) -> Talk:
    talk = await made.connect()
    lines = ("Host: hub.test", COOKIE, f"Origin: {ORIGIN}", "Connection: Upgrade", "Upgrade: websocket")
    await talk.send("\r\n".join((f"GET /w/{row.id}/ws HTTP/1.1", *lines, "", "")).encode())
    assert (await talk.head()).startswith(b"HTTP/1.1 101 ")
    return talk


async def no_more_rounds(made: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one more round come to its end, and none follow."""
    monkeypatch.setattr(route_cache, "_ROUND_S", 3600.0)
    await round_ends(made.route_cache)


async def round_ends(cache: RouteCache) -> None:
    before = cache._seen_at
    await until(lambda: cache._seen_at > before)


async def test_a_logout_closes_open_connections_within_two_seconds() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        made.credentials.revoke(SESSION)
        async with within(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 401


async def test_looks_at_keys_are_never_more_than_two_seconds_apart() -> None:
    """What a lost hint costs at most: looks come without any hint."""
    async with hub(switch) as made:
        talk = await tunnel(made, await made.workspace())
        for _ in range(3):
            async with within(2):
                await round_ends(made.route_cache)
        await talk.close()


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "anybody"])
async def test_a_hint_about_people_ends_what_they_have_open_before_the_next_round(
    is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        await no_more_rounds(made, monkeypatch)
        made.credentials.revoke(SESSION)
        if is_named:
            await made.people_hints.send({OWNER_ID})
        else:
            made.people_hints.lose_connections()
        async with within(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 401


async def test_a_logout_counts_though_the_address_of_another_workspace_can_t_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub(switch) as made:
        row, other = await made.workspace(), await made.workspace(name="other")
        talk = await tunnel(made, row)
        another = await tunnel(made, other)
        asked = asyncio.Event()
        upstream = made.workspace_locator.upstream

        async def hang(asked_for: Workspace) -> Upstream | None:
            if asked_for.id == other.id:
                asked.set()
                await asyncio.Event().wait()
            return await upstream(asked_for)

        monkeypatch.setattr(made.workspace_locator, "upstream", hang)
        await made.service.change(other.id, lambda _spec: {"memo": "changed"}, None, BY)
        async with within(PATIENCE_S):
            await asked.wait()
        made.credentials.revoke(SESSION)
        await made.people_hints.send({OWNER_ID})
        async with within(2):
            assert await talk.is_closed()
        await talk.close()
        await another.close()


async def test_hints_however_many_put_no_round_off() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        made.credentials.revoke(SESSION)
        async with within(3):
            while not talk.reader.at_eof():
                await made.hints.send({row.id})
                await asyncio.sleep(0.01)
        await talk.close()


@pytest.mark.parametrize("how", ["stop", "delete"])
async def test_a_stop_or_a_deletion_closes_open_connections_within_two_seconds(how: str) -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        if how == "stop":
            await made.service.set_wish(row.id, DesiredState.STANDBY, BY)
        else:
            await made.service.delete(row.id, BY)
        async with within(2):
            assert await talk.is_closed()
        await talk.close()


async def test_what_others_do_leaves_an_open_connection_alone() -> None:
    async with hub(switch) as made:
        row, other = await made.workspace(), await made.workspace(name="other")
        talk = await tunnel(made, row)
        made.credentials.revoke(BOBS)
        await made.service.set_wish(other.id, DesiredState.STANDBY, BY)
        await made.arrives(other.id, Phase.STANDBY)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await talk.reader.read(1)
        await talk.close()


async def test_the_database_is_not_asked_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        people, look = made.credentials.people, made.store.load

        async def counted_people(credentials: object) -> object:
            nonlocal asked
            asked += 1
            return await people(credentials)  # type: ignore[arg-type]

        async def counted_look(ids: object) -> object:
            nonlocal asked
            asked += 1
            return await look(ids)  # type: ignore[arg-type]

        await no_more_rounds(made, monkeypatch)
        made.credentials.people = counted_people  # type: ignore[assignment]
        made.store.load = counted_look  # type: ignore[assignment]
        talk = await made.connect()
        for _ in range(500):
            await talk.send(f"GET /w/{row.id}/ HTTP/1.1\r\nHost: hub.test\r\n{COOKIE}\r\n\r\n".encode())
            await talk.head()
            await talk.exactly(14)
        await talk.close()
        assert asked == 0


async def test_an_instance_that_moved_is_found_at_its_new_address() -> None:
    async with hub() as made, server(switch) as elsewhere:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        async with server(switch) as dead:
            made.instances.served_by = dead.upstream
            place = await made.route_cache.workspace(row.id)
            assert place is not None
            await made.route_cache.find_again(place)
        made.instances.served_by = elsewhere.upstream
        talk = await tunnel(made, row)
        await talk.close()
        assert elsewhere.received


@pytest.mark.parametrize("how", ["stop", "delete"])
async def test_an_address_that_comes_after_a_stop_or_a_deletion_opens_nothing(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked where it listens, while it still ran, gets the answer when it does not."""
    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        cached = await made.route_cache.workspace(row.id)
        assert cached is not None
        upstream, asked, go_on = made.workspace_locator.upstream, asyncio.Event(), asyncio.Event()

        async def slow(asked_for: Workspace) -> Upstream | None:
            address = await upstream(asked_for)
            asked.set()
            await go_on.wait()
            return address

        monkeypatch.setattr(made.workspace_locator, "upstream", slow)
        asking = asyncio.create_task(made.route_cache.find_again(cached))
        async with within(PATIENCE_S):
            await asked.wait()
        if how == "stop":
            await made.service.set_wish(row.id, DesiredState.STANDBY, BY)
        else:
            await made.service.delete(row.id, BY)
        await until(lambda: not cached.grants)
        go_on.set()
        await asking
        assert made.route_cache.grant(SESSION, ANN, cached) is None


async def test_what_nobody_used_for_long_is_asked_for_and_not_taken_for_stale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub() as made:
        row = await made.workspace()
        monkeypatch.setattr(route_cache, "_STALE_S_MAX", 0.0)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 503


async def test_an_outage_of_the_database_lets_in_who_is_known() -> None:
    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200

        asked = 0

        async def down(*_: object) -> object:
            nonlocal asked
            asked += 1
            raise StoreUnavailable("down")

        made.credentials.people = down  # type: ignore[assignment]
        made.store.load = down  # type: ignore[assignment]
        await until(lambda: asked > 1)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        status, head, _ = await made.ask(f"/w/{row.id}/", "Cookie: codehub_session=unknown")
        assert (status, "Retry-After" in head) == (503, True)


async def test_a_person_whose_rights_shrink_is_turned_out() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        token = Credential("session", b"anns-session")
        talk = await tunnel(made, row)
        made.credentials.admit(token, replace(ANN, may_write=False))
        async with within(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 403


async def test_who_comes_while_the_round_asks_for_others_stays() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        first = await tunnel(made, row)
        people, asked, go_on = made.credentials.people, asyncio.Event(), asyncio.Event()

        async def slow(credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
            if WRITES in credentials:
                return await people(credentials)
            visitors = await people(credentials)
            asked.set()
            await go_on.wait()
            return visitors

        made.credentials.people = slow  # type: ignore[method-assign]
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        second = await made.connect()
        lines = ("Host: hub.test", f"Authorization: Bearer {WRITES.secret.decode()}", *UPGRADE)
        await second.send("\r\n".join((f"GET /w/{row.id}/ws HTTP/1.1", *lines, "", "")).encode())
        assert (await second.head()).startswith(b"HTTP/1.1 101 ")
        go_on.set()
        for talk in (first, second):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.3):
                    await talk.reader.read(1)
            await talk.close()


async def test_a_visitor_who_leaves_while_it_is_looked_for_takes_nobody_along() -> None:
    async with hub() as made:
        row = await made.workspace()
        load, asked, go_on = made.store.load, asyncio.Event(), asyncio.Event()

        async def slow(ids: Sequence[UUID]) -> LoadedWorkspaces:
            asked.set()
            await go_on.wait()
            return await load(ids)

        made.store.load = slow  # type: ignore[method-assign,assignment]
        leaves = await made.connect()
        await leaves.send(f"GET /w/{row.id}/ HTTP/1.1\r\nHost: hub.test\r\n{COOKIE}\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        stays = asyncio.create_task(made.ask(f"/w/{row.id}/x", COOKIE))
        await until(lambda: len(made.edge.connections) == 2)
        leaves.reset()
        await until(lambda: len(made.edge.connections) == 1)
        go_on.set()
        assert (await stays)[0] == 200
