"""The stream of events: complete, resumable, right with two processes,
hard on slow readers, and closed to whoever lost their key.
"""

import asyncio
import itertools
import random
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.conftest import Servers
from tests.support.patience import PATIENCE_S, until
from tests.support.site import API, PASSWORD, RESTS, WATCHES, Site, create, nobody_listens, open_site
from tests.support.stores import PostgresWorld
from tests.support.streams import Message, reading
from tests.support.workspaces import READY, conditions, home, workspace

from codehub.api import events as events_module
from codehub.api import feed as feed_module
from codehub.core.access import Role
from codehub.core.amendments import RulingRecord
from codehub.core.history import Event, EventKind
from codehub.core.messages import verbatim
from codehub.core.operations import Operation, Phase
from codehub.core.progress import Progress
from codehub.core.requests import Accepted


async def history(client: httpx.AsyncClient, workspace_id: str) -> list[int]:
    seqs: list[int] = []
    params: dict[str, Any] = {"limit": 200}
    while True:
        page = (await client.get(f"{API}/workspaces/{workspace_id}/events", params=params)).json()
        seqs += [event["seq"] for event in page["items"]]
        if page["next_cursor"] is None:
            return sorted(seqs)
        params["cursor"] = page["next_cursor"]


async def test_everything_that_happens_to_one_s_workspaces_is_told_as_it_happens(living_site: Site) -> None:
    ann, bob = await living_site.browser("ann"), await living_site.browser("bob")
    async with reading(ann) as mine, reading(bob) as his:
        made = await create(ann)
        got = await mine.until(
            lambda message: message.kind == "workspace_updated" and message.data["phase"] == "RUNNING"
        )
        assert {message.data["id"] for message in got if message.kind == "workspace_updated"} == {made["id"]}
        await living_site.arrives(ann, made["id"], "RUNNING")
        assert list(got[-1].data) == list((await ann.get(f"{API}/workspaces/{made['id']}")).json())
        await ann.delete(f"{API}/workspaces/{made['id']}", params={"purge": True})
        end = (await mine.until(lambda message: message.kind == "workspace_deleted"))[-1]
        assert end.data == {"id": made["id"]}
        other = await create(bob, **RESTS)
        assert (await his.next()).data["id"] == other["id"]


async def test_a_change_of_a_name_is_told_too(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    async with reading(ann) as reader:
        await ann.patch(f"{API}/workspaces/{made['id']}", json={"name": "new"})
        await reader.until(lambda message: message.data["name"] == "new")
        await ann.post(f"{API}/workspaces/{made['id']}:keep_awake")
        await reader.until(lambda message: message.data["awake_until"] is not None)


async def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(site: Site) -> None:
    ann = await site.browser("ann")
    async with reading(ann) as reader:
        made = await create(ann, **RESTS)
        first = await reader.next()
    for number in range(5):
        await ann.patch(f"{API}/workspaces/{made['id']}", json={"memo": str(number)})
    async with reading(ann, first.id) as reader:
        missed = [await reader.next() for _ in range(5)]
        await ann.patch(f"{API}/workspaces/{made['id']}", json={"memo": "live"})
        live = await reader.next()
    ids = [message.id for message in (first, *missed, live)]
    assert ids == await history(ann, made["id"])
    assert live.data["memo"] == "live"


async def test_a_reader_older_than_the_history_gets_everything_anew(site: Site) -> None:
    ann = await site.browser("ann")
    ids = {(await create(ann, f"w{number}", **RESTS))["id"] for number in range(3)}
    async with reading(ann, 999_999_999) as reader:
        got = [await reader.next() for _ in range(3)]
        assert {message.data["id"] for message in got} == ids
        assert {message.kind for message in got} == {"workspace_updated"}
        end = await reader.next(heartbeats=True)
        assert (end.kind, end.data) == ("heartbeat", {})
        resumable = end.id
    assert resumable is not None
    await ann.patch(f"{API}/workspaces/{ids.pop()}", json={"memo": "x"})
    async with reading(ann, resumable) as reader:
        await reader.until(lambda message: message.data["memo"] == "x")


async def test_a_reader_cut_off_while_it_gets_everything_anew_gets_all_of_it_again(
    site: Site,
) -> None:
    ann = await site.browser("ann")
    ids = {(await create(ann, f"w{number}", **RESTS))["id"] for number in range(3)}
    async with reading(ann, 999_999_999) as reader:
        got = [await reader.next() for _ in range(2)]
    async with reading(ann, got[-1].id) as reader:
        assert {(await reader.next()).data["id"] for _ in range(3)} == ids


@pytest.mark.parametrize("last_id", ["x", "-1", "1.5", "9" * 30])
async def test_an_id_that_can_not_be_gets_everything_anew(site: Site, last_id: str) -> None:
    ann = await site.browser("ann")
    made = await create(ann)
    async with reading(ann, last_id) as reader:
        got = await reader.next()
    assert (got.kind, got.data["id"]) == ("workspace_updated", made["id"])


async def test_nothing_is_lost_when_the_connection_is_cut_a_hundred_times_under_load(site: Site) -> None:
    ann = await site.browser("ann")
    rows = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(4)]
    got: list[int] = []
    is_over = asyncio.Event()

    async def write(workspace_id: str) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            await ann.patch(f"{API}/workspaces/{workspace_id}", json={"memo": str(number)})

    async with reading(ann) as reader:
        await ann.patch(f"{API}/workspaces/{rows[0]}", json={"memo": "begin"})
        begin = await reader.next()
    assert begin.id is not None
    got.append(begin.id)
    writing = asyncio.gather(*(write(workspace_id) for workspace_id in rows))
    dice = random.Random(7)
    for _ in range(100):
        async with reading(ann, got[-1]) as reader:
            for _message in range(dice.randint(1, 4)):
                message = await reader.next()
                if message.id is not None:
                    got.append(message.id)
    is_over.set()
    await writing
    histories = [await history(ann, workspace_id) for workspace_id in rows]
    recorded = sorted(seq for seqs in histories for seq in seqs if seq >= begin.id)
    async with reading(ann, got[-1]) as reader:
        while len(got) < len(recorded):
            message = await reader.next()
            if message.id is not None:
                got.append(message.id)
    assert len(got) == len(set(got))
    assert sorted(got) == recorded


# Two processes


@pytest.fixture
async def two_sites(servers: Servers) -> AsyncIterator[tuple[Site, Site]]:
    """Two API processes on one database: what they share is PostgreSQL alone."""
    async with (
        PostgresWorld.opened(await servers("postgres-18")) as world,
        open_site(world) as first,
        open_site(world) as second,
    ):
        yield first, second


async def test_a_reader_at_one_process_hears_what_was_asked_at_another(two_sites: tuple[Site, Site]) -> None:
    here, there = two_sites
    ann = await here.browser("ann")
    cookies = {"codehub_session": ann.cookies["codehub_session"]}
    async with there.anybody(cookies=cookies) as elsewhere, reading(elsewhere) as reader:
        made = await create(ann, **RESTS)
        seen = await reader.next()
        assert seen.data["id"] == made["id"]
        for number in range(10):
            await ann.patch(f"{API}/workspaces/{made['id']}", json={"memo": str(number)})
        last = (await reader.until(lambda message: message.data["memo"] == "9"))[-1]
    assert last.id == (await history(ann, made["id"]))[-1]
    async with reading(ann, seen.id) as reader:
        assert [(await reader.next()).id for _ in range(10)] == (await history(ann, made["id"]))[1:]


async def test_signing_out_at_one_process_ends_the_stream_at_another(two_sites: tuple[Site, Site]) -> None:
    here, there = two_sites
    ann = await here.browser("ann")
    cookies = {"codehub_session": ann.cookies["codehub_session"]}
    async with there.anybody(cookies=cookies) as elsewhere:
        async with reading(elsewhere) as reader:
            await ann.post(f"{API}/logout")
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration)):
                await reader.next()
        assert (await elsewhere.get(f"{API}/events")).status_code == 401


# Who may listen


async def test_only_an_admin_follows_everybody(site: Site) -> None:
    ann, admin = await site.browser("ann"), await site.browser("root", Role.ADMIN)
    assert (await ann.get(f"{API}/events", params={"owner": "all"})).status_code == 403
    async with site.anybody() as nobody:
        assert (await nobody.get(f"{API}/events")).status_code == 401
    async with reading(admin, owner="all") as everybody, reading(admin) as own:
        made = await create(ann, **RESTS)
        assert (await everybody.next()).data["id"] == made["id"]
        mine = await create(admin, **RESTS)
        assert (await own.next()).data["id"] == mine["id"]


async def test_a_new_password_ends_streams(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    ann = await site.browser("ann")
    async with reading(ann) as reader:
        await ann.put(f"{API}/session/password", json={"old": PASSWORD, "new": "a new password"})
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration)):
            await reader.next()
    async with reading(ann):
        pass
    assert "without completing" not in caplog.text


@pytest.mark.parametrize(
    "deed",
    [
        "DELETE FROM sessions WHERE user_id = $1",
        "UPDATE users SET disabled = true WHERE id = $1",
        "UPDATE users SET role = 'member' WHERE id = $1",
    ],
)
async def test_a_stream_ends_with_its_key_should_the_hint_of_it_be_lost(site: Site, deed: str) -> None:
    """As when whoever ended it dies between the write and the hint."""
    admin = await site.browser("root", Role.ADMIN)
    assert isinstance(site.world, PostgresWorld)
    async with reading(admin, owner="all") as reader:
        await site.world.admin.execute(deed, (await site.user("root")).id)
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration)):
            await reader.next()


# Logs that are followed


async def test_progress_and_sleep_are_told_without_an_id(site: Site) -> None:
    ann, op_id = await site.browser("ann"), uuid4()
    owner = (await site.user("ann")).id
    busy = workspace(Phase.ARCHIVED, operation=Operation.RESTORING, op_id=op_id)
    moving = await site.world.place(site.world.spec(owner_user_id=owner), busy.status)
    now = await site.world.now()
    running = workspace(Phase.RUNNING, conditions=conditions(volume=READY, container=READY), home_ctx=home())
    awake = replace(running.status, phase_changed_at=now)
    async with reading(ann) as reader:
        await site.world.controller.write_progress(
            {moving.id: (op_id, Progress("restore", 5, 10, 1.0, 5.0))}, []
        )
        progress = (await reader.until(lambda message: message.kind == "workspace_progress"))[-1]
        assert progress == Message(
            "workspace_progress",
            {
                "id": str(moving.id),
                "stage": "restore",
                "done_bytes": 5,
                "total_bytes": 10,
                "bytes_per_second": 1.0,
                "eta_seconds": 5.0,
            },
            None,
        )
        sleepy = await site.world.place(site.world.spec(owner_user_id=owner, standby_ttl_seconds=30), awake)
        notice = (await reader.until(lambda message: message.kind == "workspace_sleeping_soon"))[-1]
        assert notice.data["id"] == str(sleepy.id)
        assert (
            notice.data["sleeps_at"] == (await ann.get(f"{API}/workspaces/{sleepy.id}")).json()["sleeps_at"]
        )
        assert notice.id is None


async def test_a_stream_does_not_outlive_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "ANSWER_S_MAX", 0.1)
    ann = await site.browser("ann")
    async with reading(ann) as reader:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration)):
            await reader.next()


async def test_a_heartbeat_comes_when_nothing_happens(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    ann = await site.browser("ann")
    async with reading(ann) as reader:
        assert await reader.next(heartbeats=True) == Message("heartbeat", {}, None)


# Slow readers


async def test_a_reader_that_takes_nothing_is_cut_off_and_nothing_is_kept_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "BACKLOG_MAX", 8)
    await nobody_listens(site)
    ann = await site.browser("ann")
    before = await cut_off(ann)
    made = await create(ann, **RESTS)
    host, port = site.address.removeprefix("http://").split(":")
    lazy = socket.create_connection((host, int(port)))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    cookie = f"codehub_session={ann.cookies['codehub_session']}"
    lazy.sendall(f"GET {API}/events HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n".encode())
    loop = asyncio.get_running_loop()
    lazy.setblocking(False)
    assert b"200 OK" in await loop.sock_recv(lazy, 1000)
    (stream,) = site.web.feed.held
    assert isinstance(stream, feed_module.Stream)
    row = await site.world.api.get(UUID(made["id"]))
    event = Event(EventKind.WISH, "PENDING", "PENDING", "ann", verbatim("asked for"))
    large = [RulingRecord(Accepted(replace(row.spec, memo=word * 200_000)), (event,)) for word in "xy"]
    turns = itertools.cycle(large)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while site.web.feed.held:
                await site.world.api.amend(row.id, lambda _row, _now: next(turns))
                assert stream.waiting.qsize() <= 8
        async with reading(ann) as reader:
            await ann.patch(f"{API}/workspaces/{row.id}", json={"memo": "still"})
            await reader.until(lambda message: message.data["memo"] == "still")
    finally:
        lazy.close()
    assert await cut_off(ann) == before + 1


async def test_ended_streams_leave_nothing_behind(site: Site) -> None:
    ann = await site.browser("ann")
    for _ in range(10):
        async with reading(ann):
            pass
    await nobody_listens(site)


async def cut_off(client: httpx.AsyncClient) -> float:
    """Return how many streams were cut off so far, in whichever test."""
    (line,) = re.findall(
        r"^codehub_event_streams_cut_off_total (.*)$",
        (await client.get("/metrics", headers=WATCHES)).text,
        re.MULTILINE,
    )
    return float(line)


async def test_a_deletion_that_ended_while_away_is_told_on_return(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    async with reading(ann) as reader:
        made = await create(ann, **RESTS)
        first = await reader.next()
    await ann.delete(f"{API}/workspaces/{made['id']}")
    await living_site.arrives(ann, made["id"], "DELETED")
    async with reading(ann, first.id) as reader:
        got = await reader.until(lambda message: message.kind == "workspace_deleted")
    assert got[-1].data == {"id": made["id"]}


async def test_a_tick_that_fails_unexpectedly_is_not_the_last(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = 0

    async def fail() -> None:
        nonlocal ticks
        ticks += 1
        raise RuntimeError("a mistake")

    monkeypatch.setattr(site.parts.store, "all_progress", fail)
    async with reading(await site.browser("ann")):
        await until(lambda: ticks > 1)
