"""The time to live, both ways, with a real JupyterLab on the default backend and a real
browser. The same with code-server: tests/integration/docker/test_up.py.
"""

from pathlib import Path

import pytest
from playwright.async_api import Page
from tests.support.ides import CHROMIUM
from tests.support.patience import PATIENCE_S
from tests.support.program import running
from tests.support.tabs import PASSWORD, sit_before_a_tab

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)")


async def test_a_person_who_types_keeps_it_awake_and_a_forgotten_tab_neither_keeps_nor_wakes_it(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with running(data, initial_admin_password=PASSWORD, ide="jupyterlab") as server:
        await sit_before_a_tab(
            server,
            lambda workspace_id: next(data.glob(f"users/*/workspaces/{workspace_id}/home")),
            open_terminal,
            tmp_path / "jupyterlab.png",
        )


async def open_terminal(page: Page) -> None:
    await page.wait_for_selector("#jp-main-dock-panel", timeout=PATIENCE_S * 1000)
    await page.click('.jp-LauncherCard[data-category="Other"][title*="terminal"]')
    await page.wait_for_selector(".jp-Terminal .xterm-screen", timeout=PATIENCE_S * 1000)
    await page.click(".jp-Terminal .xterm-screen")
