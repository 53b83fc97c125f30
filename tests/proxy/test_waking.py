"""Waking takes intent: who wakes a workspace by visiting it, who
does not, and the pages on the way (security.md 6).
"""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.support.boots import starts_held
from tests.support.edge import answer_ok, server
from tests.support.engine import ManualClock
from tests.support.hub import COOKIE, NAVIGATION, ORIGIN, Hub, hub
from tests.support.patience import PATIENCE_S, until

from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.core.operations import DesiredState, Phase
from codehub.ports.instances import Upstream
from codehub.ports.store import Ruled
from codehub.proxy.policy.entrances import FOLLOW_S_MAX
from codehub.proxy.policy.gate import GateRules, WorkspaceGate

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


async def test_a_visit_restores_where_the_settings_say_so() -> None:
    async with hub(rules=GateRules(frozenset({ORIGIN}), wake_archived=True)) as made:
        row = await made.workspace(Phase.ARCHIVED)
        assert (await made.ask(f"/w/{row.id}/", COOKIE))[0] == 200
