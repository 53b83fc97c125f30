"""Real Chromium, the real edge and real IDEs: a visit to a sleeping
workspace ends in a terminal that does what it is told.
"""

from pathlib import Path

import pytest
from tests.support.boots import starts_held
from tests.support.docker import NO_CODE_SERVER
from tests.support.edge import until
from tests.support.hub import Hub, hub
from tests.support.ides import CHROMIUM, browser, running_code_server, running_jupyterlab
from tests.support.patience import PATIENCE_S

from codehub.core.operations import Phase
from codehub.proxy.policy.gate import GateRules

ENTERS_MS_MAX = PATIENCE_S * 1000
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)")


def says(path: Path, text: str) -> bool:
    return path.exists() and path.read_text().strip() == text


def address_of(made: Hub) -> str:
    base = f"http://127.0.0.1:{made.address[1]}"
    made.edge.gate._rules = GateRules(frozenset({base}))  # type: ignore[attr-defined]
    return base


@NO_CODE_SERVER
async def test_code_server_opens_from_a_sleeping_workspace_and_its_terminal_works(tmp_path: Path) -> None:
    async with (
        running_code_server(tmp_path) as (upstream, home),
        hub() as made,
        browser() as context,
    ):
        made.instances.served_by = upstream
        base = address_of(made)
        row = await made.workspace(Phase.STANDBY)
        await context.add_cookies([{"name": "codehub_session", "value": "anns-session", "url": base}])
        page = await context.new_page()
        with starts_held(made.instances):
            await page.goto(f"{base}/w/{row.id}/")
            assert "demo is waking up" in await page.title()
        await page.wait_for_selector(".monaco-workbench", timeout=ENTERS_MS_MAX)
        await page.wait_for_selector(".explorer-viewlet", timeout=ENTERS_MS_MAX)
        await page.keyboard.press("Control+Backquote")
        await page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=ENTERS_MS_MAX)
        await page.click(".terminal-wrapper.active .xterm-screen")
        await page.keyboard.type("echo $((6 * 7)) > answer\n")
        await until(lambda: says(home / "answer", "42"))
        await page.screenshot(path=tmp_path / "code-server.png")
        cookies = {cookie["name"]: cookie["value"] for cookie in await context.cookies(base)}
        assert cookies["codehub_session"] == "anns-session"


async def test_jupyterlab_opens_and_its_terminal_works(tmp_path: Path) -> None:
    async with hub() as made:
        row = await made.workspace(Phase.STANDBY, ide="jupyterlab")
        prefix = f"/w/{row.id}/"
        async with running_jupyterlab(tmp_path, prefix) as (upstream, home), browser() as context:
            made.instances.served_by = upstream
            base = address_of(made)
            await context.add_cookies([{"name": "codehub_session", "value": "anns-session", "url": base}])
            page = await context.new_page()
            await page.goto(base + prefix)
            await page.wait_for_selector("#jp-main-dock-panel", timeout=ENTERS_MS_MAX)
            await page.click('.jp-LauncherCard[data-category="Other"][title*="terminal"]')
            await page.wait_for_selector(".jp-Terminal .xterm-screen", timeout=ENTERS_MS_MAX)
            await page.click(".jp-Terminal .xterm-screen")
            await page.keyboard.type("echo $((6 * 7)) > answer\n")
            await until(lambda: says(home / "answer", "42"))
            await page.screenshot(path=tmp_path / "jupyterlab.png")
