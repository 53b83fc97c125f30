"""Waking takes intent: who wakes a workspace by visiting it, who
does not, and the pages on the way (security.md 6).
"""

import asyncio
import base64
import json
import re
from html import escape, unescape
from typing import Any
from uuid import UUID
from xml.etree.ElementTree import fromstring  # our own picture

import pytest
from tests.support.boots import starts_held
from tests.support.edge import answer_ok, server
from tests.support.engine import ManualClock
from tests.support.hub import COOKIE, NAVIGATION, ORIGIN, Hub, hub
from tests.support.patience import PATIENCE_S, until

from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Instance
from codehub.core.operations import DesiredState, Phase
from codehub.ports.instances import Upstream
from codehub.ports.store import Ruled
from codehub.proxy.policy.entrances import FOLLOW_S_MAX
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.text import LANGUAGES, text

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")
BROWSER = "User-Agent: Mozilla/5.0"


async def test_a_navigation_wakes_and_the_page_leads_in() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        status, head, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        assert status == 202
        assert "X-Codehub-Page: waking\r\n" in head
        assert '<meta http-equiv="refresh"' in page
        assert "demo is waking up" in page
        await made.arrives(row.id, Phase.RUNNING)
        async with asyncio.timeout(PATIENCE_S):
            while (await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION))[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_the_history_says_which_visit_and_which_button_it_was() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        await made.ask(f"/w/{row.id}/", COOKIE, "X-Request-Id: visit-1", *NAVIGATION)
        await made.arrives(row.id, Phase.RUNNING)
        wakeup = await made.store.history(row.id)
        assert {record.event.request_id for record in wakeup if record.event.after == "RUNNING"} == {
            "visit-1"
        }
        button = (COOKIE, f"Origin: {ORIGIN}", "X-Request-Id: button-1", "Content-Length: 0")
        assert (await made.ask(f"/w/{row.id}/_codehub/stop", *button, method="POST"))[0] == 303
        assert (await made.store.history(row.id, limit=1))[0].event.request_id == "button-1"


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("; codehub_language=ko", "en", "ko"),
        ("; codehub_language=en", "ko", "en"),
        ("; codehub_language=xx", "ko", "ko"),
        ("; codehub_language=en; codehub_language=ko", "ko", "ko"),
        ("; __Host-codehub_language=en", "ko", "ko"),
        ("", "ko", "ko"),
    ],
)
async def test_a_page_speaks_the_language_that_was_chosen_else_the_browsers(
    chosen: str, accepted: str, language: str
) -> None:
    async with hub() as made:
        row = await made.workspace(Phase.ARCHIVED)
        ask = (COOKIE + chosen, *NAVIGATION, f"Accept-Language: {accepted}")
        _, head, page = await made.ask(f"/w/{row.id}/", *ask)
        assert f'<html lang="{language}">' in page
        assert f"Content-Language: {language}\r\n" in head


async def test_under_https_the_chosen_language_is_read_from_the_cookie_that_counts_there() -> None:
    async with hub(proto=b"https", rules=GateRules(frozenset(), is_secure=True)) as made:
        ask = (*NAVIGATION, "Accept-Language: en")
        cookies = ("Cookie: __Host-codehub_language=ko", "Cookie: codehub_language=ko")
        pages = [(await made.ask("/w/nothing/", cookie, *ask))[2] for cookie in cookies]
        assert ['<html lang="ko">' in page for page in pages] == [True, False]


async def test_the_waking_page_is_told_when_it_may_enter() -> None:
    async with hub(boot_s=0.3) as made:
        row = await made.workspace(Phase.STANDBY)
        await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        version, moves, body = "", True, ""
        async with asyncio.timeout(PATIENCE_S):
            while moves:
                status, _, body = await made.ask(f"/w/{row.id}/_codehub/progress?seen={version}", COOKIE)
                assert status == 200
                moves = '"moves": true' in body
                version = body.split('"version": ')[1].split(",")[0]
        assert '"phase": "RUNNING"' in body
        assert (await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION))[0] == 200


async def test_the_waking_page_says_what_holds_it_up_and_leads_in_when_nothing_does() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        made.disk.free_mb = 100
        why, page, progress = "Only 100 MB are free where homes lie", "", ""
        async with asyncio.timeout(PATIENCE_S):
            while why not in page:
                status, _, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
                assert status == 202
            while why not in progress:
                progress = (await made.ask(f"/w/{row.id}/_codehub/progress", COOKIE))[2]
        assert "It is held up" in page
        assert "It is held up" in progress
        assert '"moves": true' in progress
        in_korean = (await made.ask(f"/w/{row.id}/", COOKIE, "Accept-Language: ko", *NAVIGATION))[2]
        assert "100 MB만 남았습니다" in in_korean
        made.disk.free_mb = 5000
        await made.service.set_wish(row.id, DesiredState.RUNNING, By("ann", verbatim("Try now.")))
        await made.arrives(row.id, Phase.RUNNING)


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


async def test_a_program_waits_no_longer_however_many_steps_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hub(boot_s=3600) as made:
        row = await made.workspace(Phase.STANDBY)
        gate, clock = made.edge.gate, ManualClock()
        assert isinstance(gate, WorkspaceGate)
        monkeypatch.setattr(gate, "_clock", clock)
        wake = gate._waker.wake

        async def wake_slowly(*arguments: Any) -> Ruled:
            clock.seconds += 60
            return await wake(*arguments)

        monkeypatch.setattr(gate._waker, "wake", wake_slowly)
        async with asyncio.timeout(FOLLOW_S_MAX / 2):
            assert (await made.ask(f"/w/{row.id}/x", COOKIE))[0] == 503


async def test_what_may_not_wake_is_told_what_is_under_way() -> None:
    page_s_own = (COOKIE, BROWSER, "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty")
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        assert "The workspace sleeps." in (await made.ask(f"/w/{row.id}/x", *page_s_own))[2]
        with starts_held(made.instances):
            await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
            async with asyncio.timeout(PATIENCE_S):
                body = ""
                while "STARTING is under way. Try again soon." not in body:
                    status, head, body = await made.ask(f"/w/{row.id}/x", *page_s_own)
                    assert (status, "Retry-After: 5\r\n" in head) == (503, True)


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
        assert (
            sum(record.event.kind == "operation" and record.event.after == "STARTING" for record in events)
            == 1
        )


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


async def test_whose_host_is_silent_says_so_where_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub() as made:
        row = await made.workspace()
        path = f"/w/{row.id}/"
        lost = Message(Code.NODE_LOST, {"node": "node-7"})
        silent = Instance(running=False, healthy=False, is_out_of_sight=True, why=lost)
        monkeypatch.setattr(made.instances, "observe", lambda _known: silent)
        addresses: list[Upstream | None] = []

        async def resolve(_workspace_id: UUID) -> Upstream | None:
            return addresses[-1]

        async def ask_at(address: Upstream | None, *lines: str) -> tuple[int, str, str]:
            addresses.append(address)
            cached = await made.route_cache.workspace(row.id)
            assert cached is not None
            await made.route_cache.find_again(cached)
            return await made.ask(path, COOKIE, *lines)

        addresses.append(made.ide.upstream)
        monkeypatch.setattr(made.instances, "resolve_upstream", resolve)
        await until(lambda: _is_lost(made, row.id))
        assert (await ask_at(made.ide.upstream, *NAVIGATION))[0] == 200, "it may run on"
        async with server(answer_ok) as dead:
            pass
        for address in (None, dead.upstream):
            status, head, page = await ask_at(address, *NAVIGATION)
            assert (status, "X-Codehub-Page: error\r\n" in head) == (502, True)
            assert "kubectl taint node node-7 " in page
            status, _, body = await ask_at(address)
            assert (status, "kubectl taint node node-7 " in body) == (502, True)


async def _is_lost(made: Hub, workspace_id: UUID) -> bool:
    cached = await made.route_cache.workspace(workspace_id)
    return cached is not None and cached.workspace.status.conditions.container_ready.is_unknown


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


@pytest.mark.parametrize("then", ["-" * 36, "//evil.test", "0" * 36, "%0d%0a"])
async def test_a_button_leads_back_to_a_workspace_and_nowhere_else(then: str) -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY)
        path = f"/w/{row.id}/_codehub/start?then={then}"
        status, head, _ = await made.ask(path, COOKIE, f"Origin: {ORIGIN}", method="POST")
        assert status == 303
        assert f"Location: /w/{row.id}/\r\n" in head


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
        assert (
            "You can run 1 at a time. Running now: other &lt;b&gt;. Put one to sleep, and this one starts"
            in page
        )
        assert "Put other &lt;b&gt; to sleep" in page
        stop = f"/w/{other.id}/_codehub/stop?then={row.id}"
        assert f'action="{stop}"' in page
        status, _, body = await made.ask(f"/w/{row.id}/", COOKIE)
        assert (status, '"LIMIT_EXCEEDED"' in body, str(other.id) in body) == (429, True, True)
        status, head, _ = await made.ask(stop, COOKIE, f"Origin: {ORIGIN}", method="POST")
        assert status == 303
        assert f"Location: /w/{row.id}/\r\n" in head
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200


async def test_at_the_limit_what_has_a_problem_is_shown_as_such_and_not_put_to_sleep() -> None:
    async with hub(limits=Limits(per_user=2)) as made:
        crashy, fine = [await made.workspace(Phase.RUNNING, name) for name in ("crashy", "fine")]
        row = await made.workspace(Phase.STANDBY)
        made.storage.lose_volume(crashy.id)  # its IDE is still there, so it still counts
        await made.arrives(crashy.id, Phase.ERROR)
        _, _, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION, "Accept-Language: en")
        assert "Running now: fine. Put one to sleep" in page
        assert "crashy takes a place and has a problem: recover or delete it." in page
        assert re.findall(r'action="/w/([^/]+)/_codehub/stop', page) == [str(fine.id)]
        assert f'href="/workspaces/{crashy.id}">What happened to crashy?</a>' in page
        stale = f"/w/{crashy.id}/_codehub/stop?then={row.id}"
        status, head, _ = await made.ask(stale, COOKIE, f"Origin: {ORIGIN}", method="POST")
        assert (status, f"Location: /workspaces/{crashy.id}\r\n" in head) == (303, True)
        await made.service.delete(fine.id, By("ann", verbatim("test")))
        await made.arrives(fine.id, Phase.DELETED)
        await made.service.set_wish(row.id, DesiredState.RUNNING, By("ann", verbatim("test")))
        other = await made.workspace(Phase.STANDBY, "other")
        made.storage.lose_volume(row.id)
        await made.arrives(row.id, Phase.ERROR)
        _, _, page = await made.ask(f"/w/{other.id}/", COOKIE, *NAVIGATION, "Accept-Language: en")
        assert "You can run 2 at a time. crashy takes a place" in page
        assert "to sleep" not in page


async def test_buttons_lead_to_the_place_that_was_asked_for() -> None:
    async with hub(limits=Limits(per_user=1)) as made:
        row = await made.workspace(Phase.ARCHIVED)
        wanted = f"/w/{row.id}/lab/tree/a%20b?x=1&y=%22"
        _, _, page = await made.ask(wanted, COOKIE, *NAVIGATION)
        (button,) = map(unescape, re.findall(r'action="([^"]+)"', page))
        other = await made.workspace(Phase.RUNNING, "other")
        _, _, page = await made.ask(button, COOKIE, f"Origin: {ORIGIN}", "Accept-Language: en", method="POST")
        assert f'href="{escape(wanted)}">Try again' in page
        (stop,) = map(unescape, re.findall(r'action="([^"]+)"', page))
        assert stop.startswith(f"/w/{other.id}/_codehub/stop?then={row.id}&to=")
        for path in (stop, button):
            status, head, _ = await made.ask(path, COOKIE, f"Origin: {ORIGIN}", method="POST")
            assert (status, f"Location: {wanted}\r\n" in head) == (303, True)


@pytest.mark.parametrize(
    "rest",
    [
        "%0d%0aSet-Cookie:%20x=1",
        "%5c%5cevil.test",
        "../../logout",
        "x/%252E./../..//evil.test",
        "%252e%252e/",
        "..",
        "_codehub/progress",
        "%ED%95%9C",
    ],
)
async def test_a_place_that_is_none_in_the_workspace_is_its_front_door(rest: str) -> None:
    async with hub() as made:
        row, other = await made.workspace(Phase.STANDBY), await made.workspace(Phase.STANDBY, "other")
        for to in (
            f"/w/{row.id}/{rest}",
            f"/w/{other.id}/x",
            "//evil.test/",
            "https://evil.test/",
            "\\\\evil",
        ):
            path = f"/w/{row.id}/_codehub/start?to={to}".replace("\\", "%5c")
            status, head, _ = await made.ask(path, COOKIE, f"Origin: {ORIGIN}", method="POST")
            assert (status, f"Location: /w/{row.id}/\r\n" in head) == (303, True), to


async def test_where_everybodys_places_are_taken_the_page_says_what_makes_room() -> None:
    async with hub(limits=Limits(per_user=5, total=1)) as made:
        await made.workspace(Phase.RUNNING, "other")
        row = await made.workspace(Phase.STANDBY)
        _, _, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION, "Accept-Language: en")
        assert "1 can run here at a time, counting everybody" in page
        assert "Once one of them is asleep, try again." in page


async def test_a_program_is_answered_in_the_language_that_it_asks_for() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.ARCHIVED)
        for language in LANGUAGES:
            _, _, body = await made.ask(f"/w/{row.id}/api", COOKIE, f"Accept-Language: {language}")
            assert json.loads(body)["error"]["message"] == text(language, "program.archived")


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


async def test_pages_show_a_mark_in_the_tab_that_is_theirs() -> None:
    async with hub() as made:
        row = await made.workspace(Phase.PENDING)
        _, head, page = await made.ask(f"/w/{row.id}/", COOKIE, *NAVIGATION)
        assert "img-src data:;" in head
        icon = re.findall(r'<link rel="icon" href="data:image/svg\+xml;base64,([^"]+)"', page)[0]
        assert fromstring(base64.b64decode(icon)).tag == "{http://www.w3.org/2000/svg}svg"
