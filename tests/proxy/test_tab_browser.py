"""The script in a real tab: real Chromium, the real edge; real IDEs, and a page of ours where the IDE is not
what matters.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.proxy.sockets import Uses
from tests.support.docker import NO_CODE_SERVER
from tests.support.edge import Handler, Talk, answer_ok, until
from tests.support.hub import ANN, SESSION, Hub, hub
from tests.support.ides import CHROMIUM, browser, running_code_server, running_jupyterlab
from tests.support.patience import PATIENCE_S

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.system.machine import SystemClock
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import Workspace
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.tab import TabInserter

MS_MAX = PATIENCE_S * 1000
PAGE = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>An editor</title></head>
<body><textarea autofocus rows="9"></textarea><iframe srcdoc="<input>"></iframe></body></html>"""
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)")


async def editor(talk: Talk) -> None:
    """An IDE that is one page."""
    while True:
        await talk.head()
        await talk.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
        )


@dataclass
class Tab:
    """A tab that is open in a workspace, and what it asks for."""

    made: Hub
    row: Workspace
    page: Page
    activity: Activity
    outcomes: list[str]
    asked: list[str] = field(default_factory=list)

    @property
    def notes(self) -> int:
        return sum(what.startswith("POST use") for what in self.asked)

    @property
    def polls(self) -> int:
        return sum(what.startswith("GET state") for what in self.asked)

    def used_at(self) -> float:
        return self.activity.monitor(self.row).used_at

    async def asks(self) -> None:
        """Let it ask at once, as when it is looked at again."""
        before = self.polls
        await self.page.evaluate("dispatchEvent(new Event('online'))")
        await until(lambda: self.polls > before)

    async def shows(self, title: str) -> None:
        """Wait until it shows this."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.page.locator("codehub-tab h2", has_text=title).count():
                await self.asks()
                await asyncio.sleep(0.1)

    async def shows_nothing(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await self.page.locator("codehub-tab").count():
                await self.asks()
                await asyncio.sleep(0.1)

    async def wish(self, wanted: DesiredState) -> None:
        await self.made.service.set_wish(self.row.id, wanted, By(ANN, verbatim("test")))
        self.row = await self.made.arrives(self.row.id, Phase(wanted.value))


@asynccontextmanager
async def world(
    handler: Handler = editor, *, limits: Limits | None = None
) -> AsyncIterator[tuple[Hub, Activity, list[str]]]:
    outcomes: list[str] = []
    time = DatabaseTime()
    activity = Activity(Uses(), MemoryCredentials(), time, clock=SystemClock(), flush_s=30.0)
    async with hub(
        handler,
        limits=limits,
        monitor_of=activity.monitor,
        inserter_of=lambda row: TabInserter(row, outcomes.append),
        time=time,
    ) as made:
        gate = made.edge.gate
        base = f"http://127.0.0.1:{made.address[1]}"
        gate._rules = replace(gate._rules, own_origins=frozenset({base}))  # type: ignore[attr-defined]
        yield made, activity, outcomes


async def opened(
    made: Hub,
    activity: Activity,
    outcomes: list[str],
    row: Workspace,
    context: BrowserContext,
    path: str = "",
) -> Tab:
    base = f"http://127.0.0.1:{made.address[1]}"
    await context.add_cookies([{"name": "codehub_session", "value": "anns-session", "url": base}])
    page = await context.new_page()
    tab = Tab(made, row, page, activity, outcomes)

    def note(method: str, url: str) -> None:
        if "/_codehub/" in url:
            tab.asked.append(f"{method} {url.partition('/_codehub/')[2]}")

    page.on("request", lambda request: note(request.method, request.url))
    await page.goto(f"{base}/w/{row.id}/{path}")
    await until(lambda: tab.polls > 0, seconds=PATIENCE_S)
    return tab


@asynccontextmanager
async def open_tab(
    *, limits: Limits | None = None, locale: str = "en-US", looks: Mapping[str, object] | None = None
) -> AsyncIterator[Tab]:
    async with world(limits=limits) as (made, activity, outcomes), browser() as first:
        assert first.browser is not None
        context = await first.browser.new_context(locale=locale, **(looks or {}))  # type: ignore[arg-type]
        context.set_default_timeout(MS_MAX)
        row = await made.workspace()
        yield await opened(made, activity, outcomes, row, context)


async def test_a_key_a_click_and_a_wheel_are_notes_and_an_untouched_tab_sends_none() -> None:
    async with open_tab() as tab:
        used_at = tab.used_at()
        for _ in range(3):
            await tab.asks()
        await tab.page.mouse.move(10, 10)
        await tab.page.mouse.move(20, 20)
        await tab.page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'x' }))")
        await tab.asks()
        assert tab.notes == 0
        assert tab.used_at() == used_at, "asking is no use"
        await tab.page.mouse.wheel(0, 10)
        await until(lambda: tab.used_at() > used_at)
        await tab.page.keyboard.type("more of it at once is one note")
        await tab.asks()
        assert tab.notes == 1
        assert tab.activity.monitor(tab.row).is_heard(SESSION)


async def test_a_key_in_a_frame_of_the_page_is_a_note() -> None:
    async with open_tab() as tab:
        await tab.page.frame_locator("iframe").locator("input").hover()
        await tab.page.evaluate(
            "document.querySelector('iframe').contentWindow.document.querySelector('input').focus()"
        )
        await tab.page.keyboard.press("x")
        await until(lambda: tab.notes == 1)


async def test_a_tab_whose_workspace_sleeps_says_so_and_wakes_it_and_never_by_itself() -> None:
    async with open_tab() as tab:
        await tab.wish(DesiredState.STANDBY)
        await tab.shows("Asleep")
        await tab.page.keyboard.press("x")
        await until(lambda: tab.notes == 1)
        await tab.asks()
        assert (await tab.made.store.get(tab.row.id)).spec.desired_state is DesiredState.STANDBY
        dialog = tab.page.get_by_role("dialog", name="Asleep")
        await expect(dialog).to_be_visible()
        await expect(dialog.get_by_role("button", name="Wake")).to_be_focused()
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.get_by_role("button", name="Wake")).to_be_visible()
        await tab.page.locator("textarea").fill("what is behind it can be used")
        await tab.page.get_by_role("button", name="Wake").click()
        await tab.made.arrives(tab.row.id, Phase.RUNNING)
        await expect(tab.page.locator("textarea")).to_be_visible(timeout=MS_MAX)
        assert await tab.page.locator("codehub-tab").count() == 0


async def test_at_the_limit_it_says_what_runs() -> None:
    async with open_tab(limits=Limits(per_user=1)) as tab:
        await tab.wish(DesiredState.STANDBY)
        await tab.made.workspace(Phase.RUNNING, "other")
        await tab.shows("Asleep")
        await tab.page.get_by_role("button", name="Wake").click()
        dialog = tab.page.get_by_role("dialog", name="It can't start yet")
        await expect(dialog).to_contain_text("other")
        await dialog.get_by_role("button", name="Choose what to stop").click()
        await expect(tab.page.get_by_role("button", name="Put other to sleep")).to_be_visible()


async def test_it_warns_before_sleep_and_keeps_awake() -> None:
    async with open_tab() as tab:
        by = By(ANN, verbatim("test"))
        await tab.made.service.change(tab.row.id, lambda _spec: {"standby_ttl_seconds": 10}, None, by)
        await tab.shows("About to sleep")
        await expect(tab.page.get_by_role("alert")).to_contain_text("In 10 seconds, unless somebody uses it.")
        await tab.page.get_by_role("button", name="Keep awake").click()
        await tab.shows_nothing()
        assert (await tab.made.store.get(tab.row.id)).spec.awake_until is not None


async def test_it_says_that_codehub_is_away_and_that_it_is_back() -> None:
    async with open_tab() as tab:
        await tab.page.context.set_offline(offline=True)
        await tab.shows("codehub is restarting")
        await tab.page.context.set_offline(offline=False)
        await tab.shows_nothing()


async def test_it_says_that_somebody_is_signed_out() -> None:
    async with open_tab() as tab:
        tab.made.credentials.revoke(SESSION)
        await tab.shows("You are signed out")
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.wait_for_url(lambda url: "/login?next=" in url)


async def test_a_tab_of_an_earlier_run_offers_to_load_it_again() -> None:
    async with open_tab() as tab:
        await tab.wish(DesiredState.STANDBY)
        await tab.wish(DesiredState.RUNNING)
        await tab.shows("It was started again")
        await tab.page.get_by_role("button", name="Load again").click()
        await tab.shows_nothing()


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("light", {"color_scheme": "light"}),
        ("dark", {"color_scheme": "dark"}),
        ("phone", {"color_scheme": "light", "viewport": {"width": 360, "height": 640}}),
    ],
)
async def test_in_korean_it_fits_every_screen(name: str, looks: dict[str, object], tmp_path: Path) -> None:
    async with open_tab(locale="ko-KR", looks=looks) as tab:
        await tab.wish(DesiredState.STANDBY)
        await tab.shows("잠들었습니다")
        dialog = tab.page.get_by_role("dialog", name="잠들었습니다")
        await expect(dialog.get_by_role("button", name="깨우기")).to_be_focused()
        await tab.page.screenshot(path=tmp_path / f"{name}.png")
        box, window = await dialog.bounding_box(), tab.page.viewport_size
        assert box is not None
        assert window is not None
        assert box["x"] >= 8
        assert box["x"] + box["width"] <= window["width"] - 8


@NO_CODE_SERVER
async def test_in_code_server_a_key_is_a_note_and_wake_brings_it_back(tmp_path: Path) -> None:
    async with (
        running_code_server(tmp_path) as (upstream, home),
        world(answer_ok) as (made, activity, outcomes),
        browser() as context,
    ):
        made.instances.served_by = upstream
        tab = await opened(made, activity, outcomes, await made.workspace(), context)
        assert outcomes == ["inserted"]
        await tab.page.wait_for_selector(".explorer-viewlet", timeout=MS_MAX)
        await tab.page.keyboard.press("Control+Backquote")
        await until(lambda: tab.notes == 1, seconds=PATIENCE_S)
        await tab.page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=MS_MAX)
        await tab.page.click(".terminal-wrapper.active .xterm-screen")
        monitor = activity.monitor(tab.row)
        await until(lambda: monitor.is_heard(SESSION))
        await tab.page.keyboard.type("for i in 1 2 3; do echo $i; sleep 0.2; done; echo 42 > answer\n")
        await until((home / "answer").exists, seconds=PATIENCE_S)
        await until(lambda: monitor.prints > 3)
        await tab.wish(DesiredState.STANDBY)
        await tab.shows("Asleep")
        await tab.page.screenshot(path=tmp_path / "code-server.png")
        await tab.page.get_by_role("button", name="Wake").click()
        await made.arrives(tab.row.id, Phase.RUNNING)
        await tab.page.wait_for_selector(".explorer-viewlet >> text=answer", timeout=MS_MAX)
        assert await tab.page.locator("codehub-tab").count() == 0


async def test_in_jupyterlab_a_key_is_a_note_and_wake_brings_it_back(tmp_path: Path) -> None:
    async with world(answer_ok) as (made, activity, outcomes):
        row = await made.workspace(ide="jupyterlab")
        async with running_jupyterlab(tmp_path, f"/w/{row.id}/") as (upstream, home), browser() as context:
            made.instances.served_by = upstream
            tab = await opened(made, activity, outcomes, row, context)
            assert outcomes == ["inserted"]
            await tab.page.wait_for_selector("#jp-main-dock-panel", timeout=MS_MAX)
            await tab.page.click('.jp-LauncherCard[data-category="Other"][title*="terminal"]')
            await until(lambda: tab.notes == 1, seconds=PATIENCE_S)
            await tab.page.wait_for_selector(".jp-Terminal .xterm-screen", timeout=MS_MAX)
            (home / "kept.txt").write_text("kept")
            await tab.wish(DesiredState.STANDBY)
            await tab.shows("Asleep")
            await tab.page.screenshot(path=tmp_path / "jupyterlab.png")
            await tab.page.get_by_role("button", name="Wake").click()
            await made.arrives(tab.row.id, Phase.RUNNING)
            await tab.page.wait_for_selector("#jp-main-dock-panel", timeout=MS_MAX)
            await tab.page.wait_for_selector("text=kept.txt", timeout=MS_MAX)
            assert await tab.page.locator("codehub-tab").count() == 0
