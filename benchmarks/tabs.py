"""What tabs of real IDEs send, and what that says: the table of docs/adr/0043. It takes half an hour:
python -m benchmarks.tabs code-server jupyterlab [--only=part of a phase's name]
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Page, WebSocket
from tests.proxy.test_tab_browser import MS_MAX, opened, world
from tests.support.edge import answer_ok
from tests.support.ides import browser, running_code_server, running_jupyterlab

from codehub.core.activity import Traffic, WorkRule, is_its_own_doing, is_its_own_socket
from codehub.core.ides import IdeProfile, ide_profile
from codehub.core.workspace import Workspace
from codehub.proxy.policy.activity import Activity

PHASE_S = 120.0
SETTLES_S = 65.0
_UP_HEADER, _WINDOW_S, _MINUTE_S = 6, 10, 60
_ONLY = "--only="
_LOOKS_HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  const state = { get: () => hidden ? "hidden" : "visible", configurable: true };
  Object.defineProperty(document, "visibilityState", state);
  document.dispatchEvent(new Event("visibilitychange"));
}"""
Act = Callable[[], Awaitable[object]]


@dataclass
class Seconds:
    """What was seen in one phase, by the second since it began."""

    began: float = field(default_factory=time.monotonic)
    bytes_up: dict[int, int] = field(default_factory=dict)
    frames_up: dict[int, int] = field(default_factory=dict)
    prints: dict[int, int] = field(default_factory=dict)
    notes: int = 0
    polls: int = 0
    used: set[int] = field(default_factory=set)
    """The windows in which it was used, as the edge decided."""

    def add(self, into: dict[int, int], size: int) -> None:
        second = int(time.monotonic() - self.began)
        into[second] = into.get(second, 0) + size


class Recording:
    """One IDE in real tabs, phase by phase."""

    def __init__(self, profile: IdeProfile, activity: Activity, row: Workspace, only: str) -> None:
        self._only = only
        self._profile = profile
        self._monitor = activity.monitor(row)
        self._activity = activity
        self.seen = Seconds()

    def watch(self, page: Page) -> None:
        page.on("websocket", self._watch_socket)
        page.on("request", lambda request: self._note_request(request.method, request.url))

    def _note_request(self, method: str, url: str) -> None:
        what = url.partition("/_codehub/")[2]
        self.seen.notes += method == "POST" and what.startswith("use")
        self.seen.polls += what.startswith("state")

    def _watch_socket(self, socket: WebSocket) -> None:
        path = "/" + socket.url.partition("/w/")[2].partition("/")[2]
        if is_its_own_socket(self._profile, path):
            return
        mark = self._profile.output_mark

        def sent(payload: bytes | str) -> None:
            data = payload.encode() if isinstance(payload, str) else payload
            if not is_its_own_doing(self._profile, data[:1024]):
                self.seen.add(self.seen.bytes_up, len(data) + _UP_HEADER)
            self.seen.add(self.seen.frames_up, 1)

        def received(payload: bytes | str) -> None:
            data = payload.encode() if isinstance(payload, str) else payload
            if mark is None or mark in data:
                self.seen.add(self.seen.prints, 1)

        socket.on("framesent", sent)
        socket.on("framereceived", received)

    async def phase(self, name: str, act: Act | None = None, every_s: float = PHASE_S) -> None:
        """Let what was before fade, then record while somebody does this every so many seconds."""
        if self._only not in name:
            return
        await asyncio.sleep(SETTLES_S)
        await self._activity.flush(everything=True)
        self.seen = seen = Seconds()
        acted, used_at = -every_s, self._monitor.used_at
        while (now := time.monotonic() - seen.began) < PHASE_S:
            if act is not None and now - acted >= every_s:
                acted = now
                await act()
            await asyncio.sleep(1)
            self._monitor.evaluate_traffic()
            if self._monitor.used_at > used_at:
                used_at = self._monitor.used_at
                seen.used.add(int((self._monitor.used_at - seen.began) // _WINDOW_S))
        print(self._row_of(name), flush=True)

    def _row_of(self, name: str) -> str:
        seen, minutes, windows = self.seen, PHASE_S / _MINUTE_S, int(PHASE_S // _WINDOW_S)
        totals = (sum(each.values()) / minutes for each in (seen.bytes_up, seen.frames_up, seen.prints))
        cells = [f"{total:,.0f}" for total in totals]
        cells += [f"{seen.notes / minutes:.1f}", f"{seen.polls / minutes:.1f}"]
        cells += [
            f"{len(self._by_bytes())} of {windows}",
            f"{len(seen.used & set(range(windows)))} of {windows}",
        ]
        return f"| {self._profile.name}: {name} | {' | '.join(cells)} |"

    def _by_bytes(self) -> set[int]:
        """Return the windows in which it would have been used, had no script run."""
        rule, used, seen = WorkRule(self._profile), set(), self.seen
        for second in range(int(PHASE_S)):
            traffic = Traffic(seen.bytes_up.get(second, 0), 1, seen.prints.get(second, 0))
            is_key = self._profile.counts_frames_up and seen.frames_up.get(second)
            if rule.is_typing(traffic, second) | rule.is_printing(traffic, second) or is_key:
                used.add(second // _WINDOW_S)
        return used


async def terminal_of_code_server(page: Page) -> None:
    await page.wait_for_selector(".explorer-viewlet", timeout=MS_MAX)
    await page.keyboard.press("Control+Backquote")
    await page.wait_for_selector(".terminal-wrapper.active .xterm-screen", timeout=MS_MAX)
    await page.click(".terminal-wrapper.active .xterm-screen")


async def terminal_of_jupyterlab(page: Page) -> None:
    await page.wait_for_selector("#jp-main-dock-panel", timeout=MS_MAX)
    await page.click('.jp-LauncherCard[data-category="Other"][title*="terminal"]')
    await page.wait_for_selector(".jp-Terminal .xterm-screen", timeout=MS_MAX)
    await page.click(".jp-Terminal .xterm-screen")


async def record(ide: str, only: str) -> None:
    async with AsyncExitStack() as stack:
        made, activity, outcomes = await stack.enter_async_context(world(answer_ok))
        row = await made.workspace(ide=ide)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        is_code = ide == "code-server"
        running = (
            running_code_server(directory) if is_code else running_jupyterlab(directory, f"/w/{row.id}/")
        )
        made.instances.served_by, _home = await stack.enter_async_context(running)
        context = await stack.enter_async_context(browser())
        recording = Recording(ide_profile(ide), activity, row, only)
        context.on("page", recording.watch)
        tab = await opened(made, activity, outcomes, row, context)
        await (terminal_of_code_server if is_code else terminal_of_jupyterlab)(tab.page)
        await tab.page.keyboard.type("seq 3000\n")
        await go_through(recording, tab.page)


async def go_through(recording: Recording, page: Page) -> None:
    await recording.phase("untouched, a terminal open")
    await page.evaluate(_LOOKS_HIDDEN, True)
    await recording.phase("hidden")
    await page.evaluate(_LOOKS_HIDDEN, False)
    await page.mouse.move(600, 500)
    await recording.phase("reading and scrolling", lambda: page.mouse.wheel(0, -200), 15)
    await page.keyboard.type("sleep 100000\n")
    await recording.phase("a silent build, untouched")
    await recording.phase("a silent build, one key a minute", lambda: page.keyboard.press("x"), 60)
    await page.keyboard.press("Control+C")
    await page.keyboard.type("while :; do date; sleep 2; done\n")
    await recording.phase("a build that prints every 2 s, untouched")
    await page.keyboard.press("Control+C")
    other = await page.context.new_page()
    await other.goto(page.url)
    await recording.phase("two tabs, both forgotten")
    await page.bring_to_front()
    await recording.phase("two tabs, a key every 5 s in one", lambda: page.keyboard.press("x"), 5)


async def main() -> None:
    print(
        "| | bytes up/min | frames up/min | output/min | notes/min | asks/min | by bytes | with the script |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ides = [word for word in sys.argv[1:] if not word.startswith(_ONLY)]
    only = next((word.removeprefix(_ONLY) for word in sys.argv[1:] if word.startswith(_ONLY)), "")
    await asyncio.gather(*(record(ide, only) for ide in ides))


if __name__ == "__main__":
    asyncio.run(main())
