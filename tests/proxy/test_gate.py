"""Access, route, waking and pages, through a real edge: spec §8, wire.md "Proxy", security.md 2, 3, 4, 6, 7 and 9."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from tests.support.edge import Talk, server, until
from tests.support.hub import ANN, BOBS, COOKIE, NAVIGATION, ORIGIN, READS, SESSION, WRITES, Hub, hub
from tests.support.workspaces import OWNER_ID

from codehub.core.limits import Limits
from codehub.core.operations import DesiredState, Phase
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.doors import Credential
from codehub.ports.store import Loaded, StoreUnavailable
from codehub.proxy import directory
from codehub.proxy.gate import GateRules
from codehub.service.workspaces import By

BY = By("ann", "test")
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")
BROWSER = "User-Agent: Mozilla/5.0"
UNKNOWN = "019a8b00-0000-7000-8000-0000000000ff"


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


async def test_the_owner_enters_and_everything_else_goes_to_the_api() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, body = await made.ask(f"/w/{row.id}/path?q=1", COOKIE)
        assert (status, body) == (200, "GET /path?q=1 HTTP/1.1")
        assert "X-Request-Id: " in head
        assert (await made.ask("/api/v1/session", COOKIE))[2] == "GET /api/v1/session HTTP/1.1"
        assert b"codehub_session=anns-session" in b"".join(made.api.received)
        assert b"anns-session" not in b"".join(made.ide.received)


async def test_the_missing_slash_is_added() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, _ = await made.ask(f"/w/{row.id}?folder=/home", COOKIE)
        assert status == 308
        assert f"Location: /w/{row.id}/?folder=/home\r\n" in head


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((), 401),
        (("Cookie: codehub_session=wrong",), 401),
        (("Cookie: codehub_session=",), 401),
        (("Authorization: Bearer wrong",), 401),
        (("Cookie: codehub_session=bobs-session",), 403),
        ((f"Authorization: Bearer {READS.secret.decode()}",), 403),
        ((f"Authorization: Bearer {WRITES.secret.decode()}",), 200),
        ((COOKIE,), 200),
        ((COOKIE, "X-Owner: bob", "X-Forwarded-User: bob"), 200),
        (("Cookie: codehub_session=bobs-session", "X-Owner: ann", "X-Forwarded-User: ann"), 403),
    ],
)
@pytest.mark.parametrize("upgrade", [(), UPGRADE])
async def test_requests_and_upgrades_are_let_in_by_the_same_rule(
    lines: tuple[str, ...], status: int, upgrade: tuple[str, ...]
) -> None:
    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", *lines, *upgrade))[0] == status
        assert bool(made.ide.received) == (status == 200)


async def test_unknown_and_deleted_workspaces_are_not_there() -> None:
    async with hub() as made:
        row = await made.workspace()
        for path in (f"/w/{UNKNOWN}/", "/w/", "/w/x/", f"/w/{str(row.id).upper()}/", f"/w/{row.id}x/"):
            status, _, body = await made.ask(path, COOKIE)
            assert (status, "WORKSPACE_NOT_FOUND" in body) == (404, True), path
        await made.service.delete(row.id, BY)
        async with asyncio.timeout(2):
            while (await made.ask(f"/w/{row.id}/", COOKIE))[0] != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_nobody_is_sent_to_the_login_and_back() -> None:
    async with hub() as made:
        row = await made.workspace()
        status, head, _ = await made.ask(f"/w/{row.id}/a?b=c&d=//e", *NAVIGATION)
        assert status == 303
        assert f"Location: /login?next=/w/{row.id}/a%3Fb%3Dc%26d%3D//e\r\n" in head


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((*UPGRADE, f"Origin: {ORIGIN}"), 200),
        (UPGRADE, 200),
        ((*UPGRADE, "Origin: http://evil.test"), 403),
        ((*UPGRADE, "Origin: null"), 403),
        ((*UPGRADE, f"Origin: {ORIGIN}.evil.test"), 403),
        ((*UPGRADE, f"Origin: {ORIGIN}:8001"), 403),
        ((*UPGRADE, "Sec-Fetch-Site: cross-site"), 403),
    ],
)
async def test_a_websocket_of_another_site_is_refused(lines: tuple[str, ...], status: int) -> None:
    async with hub() as made:
        row = await made.workspace()
        await made.ask(f"/w/{row.id}/", COOKIE)
        made.ide.received.clear()
        assert (await made.ask(f"/w/{row.id}/ws", COOKIE, *lines))[0] == status
        assert bool(made.ide.received) == (status == 200)


@pytest.mark.parametrize(("origin", "status"), [(ORIGIN, 200), ("http://evil.test", 403), ("null", 403)])
async def test_a_change_that_another_site_asks_for_is_refused(origin: str, status: int) -> None:
    async with hub() as made:
        row = await made.workspace()
        lines = (COOKIE, f"Origin: {origin}", "Content-Length: 0")
        assert (await made.ask(f"/w/{row.id}/", *lines, method="POST"))[0] == status


# Waking takes intent.


async def test_a_navigation_wakes_and_the_page_leads_in() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        status, head, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        assert status == 202
        assert "X-Codehub-Page: waking\r\n" in head
        assert '<meta http-equiv="refresh"' in page
        assert "demo is waking up" in page
        await made.arrives(row.id, Phase.RUNNING)
        async with asyncio.timeout(5):
            while (await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION))[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_the_waking_page_is_told_when_it_may_enter() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        version, moves, body = "", True, ""
        async with asyncio.timeout(5):
            while moves:
                status, _, body = await made.ask(f"/w/{row.id}/_codehub/progress?seen={version}", COOKIE)
                assert status == 200
                moves = '"moves": true' in body
                version = body.split('"version": ')[1].split(",")[0]
        assert '"phase": "RUNNING"' in body
        assert (await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION))[0] == 200


async def test_a_program_waits_and_is_served() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        status, _, body = await made.ask(f"/w/{row.id}/x", COOKIE, "User-Agent: curl/8")
        assert (status, body) == (200, "GET /x HTTP/1.1")


async def test_a_program_is_told_to_come_back_when_it_takes_too_long() -> None:
    async with hub(boot_s=60, rules=GateRules(frozenset({ORIGIN}), wake_wait_s=0.3)) as made:
        row = await made.workspace(Phase.STANDBY)
        status, head, _ = await made.ask(f"/w/{row.id}/x", COOKIE)
        assert status == 503
        assert "Retry-After: 5\r\n" in head


@pytest.mark.parametrize(
    "lines",
    [
        (*UPGRADE, BROWSER),
        UPGRADE,
        (BROWSER, "Accept: */*"),
        (BROWSER, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Sec-Fetch-Site: same-origin"),
        (*NAVIGATION, "Sec-Purpose: prefetch"),
        ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
    ],
)
async def test_a_forgotten_tab_never_wakes(lines: tuple[str, ...]) -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        status, head, _ = await made.ask(f"/w/{row.id}/", COOKIE, *lines)
        assert status == 503
        assert "Retry-After: 5\r\n" in head
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY


async def test_a_stranger_never_wakes() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        assert (await made.ask(f"/w/{row.id}/", *NAVIGATION))[0] == 303
        assert (await made.ask(f"/w/{row.id}/", "Cookie: codehub_session=bobs-session"))[0] == 403
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.STANDBY


async def test_a_hundred_visits_at_once_cause_one_start_and_all_are_served() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        answers = await asyncio.gather(
            *(made.ask(f"/w/{row.id}/{number}", COOKIE, "User-Agent: curl/8") for number in range(100))
        )
        assert [body for _, _, body in answers] == [f"GET /{number} HTTP/1.1" for number in range(100)]
        events = await made.store.history(row.id, limit=100)
        assert sum(one.event.kind == "operation" and one.event.after == "STARTING" for one in events) == 1


@pytest.mark.parametrize("phase", [Phase.ARCHIVED, Phase.PENDING])
async def test_what_needs_a_persons_word_has_a_page_with_a_button(phase: Phase) -> None:
    async with hub() as made:
        row = await made.workspace(phase)
        path = f"/w/{row.id}/"
        status, head, page = await made.ask(path, COOKIE, *NAVIGATION)
        assert status == 502
        assert f"X-Codehub-Page: {phase.lower()}\r\n" in head
        assert f'action="{path}_codehub/start"' in page
        status, _, body = await made.ask(path, COOKIE)
        assert (status, '"code": "UPSTREAM_UNAVAILABLE"' in body) == (502, True)
        status, head, _ = await made.ask(
            f"{path}_codehub/start", COOKIE, f"Origin: {ORIGIN}", "Content-Length: 0", method="POST"
        )
        assert status == 303
        assert f"Location: {path}\r\n" in head
        await made.arrives(row.id, Phase.RUNNING)


async def test_buttons_are_not_for_other_sites_strangers_or_mere_looks() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.PENDING)
        path = f"/w/{row.id}/_codehub/start"
        assert (await made.ask(path, COOKIE, "Origin: http://evil.test", method="POST"))[0] == 403
        assert (await made.ask(path, COOKIE, "Sec-Fetch-Site: cross-site", method="POST"))[0] == 403
        assert (await made.ask(path, "Cookie: codehub_session=bobs-session", method="POST"))[0] == 403
        assert (await made.ask(path, method="POST"))[0] == 401
        assert (await made.ask(path, COOKIE))[0] == 404
        assert (await made.store.get(row.id)).spec.desired_state is DesiredState.PENDING


async def test_a_visit_restores_where_the_settings_say_so() -> None:
    async with hub(rules=GateRules(frozenset({ORIGIN}), wake_archived=True)) as made:
        row = await made.workspace(Phase.ARCHIVED)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200


async def test_at_the_limit_the_page_lists_what_runs_and_stopping_one_leads_in() -> None:
    async with hub(limits=Limits(per_user=1, total=5)) as made:
        other = await made.workspace(Phase.RUNNING, "other <b>")
        row = await made.workspace(Phase.STANDBY)
        status, head, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION, "Accept-Language: en")
        assert status == 429
        assert "X-Codehub-Page: limit\r\n" in head
        assert "Stop other &lt;b&gt;" in page
        stop = f"/w/{other.id}/_codehub/stop?then={row.id}"
        assert f'action="{stop}"' in page
        status, _, body = await made.ask(f"/w/{row.id}/", COOKIE)
        assert (status, '"LIMIT_EXCEEDED"' in body, str(other.id) in body) == (429, True, True)
        status, head, _ = await made.ask(stop, COOKIE, f"Origin: {ORIGIN}", method="POST")
        assert status == 303
        assert f"Location: /w/{row.id}/\r\n" in head
        await made.arrives(other.id, Phase.STANDBY)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200


async def test_pages_speak_korean_to_those_who_do() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.PENDING)
        _, head, page = await made.ask(
            f"/w/{row.id}/", COOKIE, *NAVIGATION, "Accept-Language: ko-KR,ko;q=0.9"
        )
        assert "Content-Language: ko\r\n" in head
        assert 'lang="ko"' in page
        assert "시작하고 열기" in page


async def test_pages_run_nothing_that_is_not_ours_and_are_framed_by_nobody() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.PENDING)
        _, head, _ = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
            assert part in head
        assert "nosniff" in head
        assert "unsafe" not in head


# What is open ends when it may no longer be.


async def test_a_logout_closes_open_connections_within_two_seconds() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        made.doorkeeper.turn_out(SESSION)
        async with asyncio.timeout(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 401


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "anybody"])
async def test_a_hint_about_people_ends_what_they_have_open_before_the_next_round(
    is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        monkeypatch.setattr(directory, "_ROUND_S", 3600.0)
        await until(lambda: made.directory._round_at > made.directory._clock.monotonic() + 60)
        made.doorkeeper.turn_out(SESSION)
        if is_named:
            await made.people_hints.send({OWNER_ID})
        else:
            made.people_hints.lose_connections()
        async with asyncio.timeout(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 401


async def test_hints_however_many_put_no_round_off() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        talk = await tunnel(made, row)
        made.doorkeeper.turn_out(SESSION)
        async with asyncio.timeout(3):
            while not talk.reader.at_eof():
                await made.store._hints.send({row.id})
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
        async with asyncio.timeout(2):
            assert await talk.is_closed()
        await talk.close()


async def test_what_others_do_leaves_an_open_connection_alone() -> None:
    async with hub(switch) as made:
        row, other = await made.workspace(), await made.workspace(name="other")
        talk = await tunnel(made, row)
        made.doorkeeper.turn_out(BOBS)
        await made.service.set_wish(other.id, DesiredState.STANDBY, BY)
        await made.arrives(other.id, Phase.STANDBY)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await talk.reader.read(1)
        await talk.close()


async def test_the_database_is_not_asked_per_request() -> None:
    asked = 0

    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        people, look = made.doorkeeper.people, made.store.load

        async def counted_people(credentials: object) -> object:
            nonlocal asked
            asked += 1
            return await people(credentials)  # type: ignore[arg-type]

        async def counted_look(ids: object) -> object:
            nonlocal asked
            asked += 1
            return await look(ids)  # type: ignore[arg-type]

        made.doorkeeper.people = counted_people  # type: ignore[assignment]
        made.store.load = counted_look  # type: ignore[assignment]
        talk = await made.connect()
        for _ in range(500):
            await talk.send(f"GET /w/{row.id}/ HTTP/1.1\r\nHost: hub.test\r\n{COOKIE}\r\n\r\n".encode())
            await talk.head()
            await talk.exactly(14)
        await talk.close()
        assert asked < 50


async def test_an_instance_that_moved_is_found_at_its_new_address() -> None:
    async with hub() as made, server(switch) as elsewhere:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        async with server(switch) as dead:
            made.instances.served_by = dead.upstream
            place = await made.directory.place(row.id)
            assert place is not None
            await made.directory.find_again(place)
        made.instances.served_by = elsewhere.upstream
        talk = await tunnel(made, row)
        await talk.close()
        assert elsewhere.received


async def test_an_outage_of_the_database_lets_in_who_is_known() -> None:
    async with hub() as made:
        row = await made.workspace()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200

        async def down(*_: object) -> object:
            raise StoreUnavailable("down")

        made.doorkeeper.people = down  # type: ignore[assignment]
        made.store.load = down  # type: ignore[assignment]
        await asyncio.sleep(1.2)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
        status, head, _ = await made.ask(f"/w/{row.id}/", "Cookie: codehub_session=unknown")
        assert (status, "Retry-After" in head) == (503, True)


async def test_a_person_whose_rights_shrink_is_turned_out() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        token = Credential("session", b"anns-session")
        talk = await tunnel(made, row)
        made.doorkeeper.let_in(token, replace(ANN, may_write=False))
        async with asyncio.timeout(2):
            assert await talk.is_closed()
        await talk.close()
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 403


async def test_who_comes_while_the_round_asks_for_others_stays() -> None:
    async with hub(switch) as made:
        row = await made.workspace()
        first = await tunnel(made, row)
        people, asked, go_on = made.doorkeeper.people, asyncio.Event(), asyncio.Event()

        async def slow(credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
            if WRITES in credentials:
                return await people(credentials)
            found = await people(credentials)
            asked.set()
            await go_on.wait()
            return found

        made.doorkeeper.people = slow  # type: ignore[method-assign]
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

        async def slow(ids: Sequence[UUID]) -> Loaded:
            asked.set()
            await go_on.wait()
            return await load(ids)

        made.store.load = slow  # type: ignore[method-assign,assignment]
        leaves = await made.connect()
        await leaves.send(f"GET /w/{row.id}/ HTTP/1.1\r\nHost: hub.test\r\n{COOKIE}\r\n\r\n".encode())
        await asked.wait()
        stays = asyncio.create_task(made.ask(f"/w/{row.id}/x", COOKIE))
        leaves.reset()
        await until(lambda: len(made.edge.connections) == 1)
        go_on.set()
        assert (await stays)[0] == 200
