"""Everything is rolled, one process after another, under requests and
WebSockets: how many requests of the API failed, and how long a WebSocket was
away, come out. `python -m benchmarks.rolling [REQUESTS_PER_S WEBSOCKETS]`.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from tests.support.entering import HandBrowser
from tests.support.fleet import PASSWORD, Balancer, Fleet, Member, fleet
from tests.support.patience import PATIENCE_S, ask_until
from tests.support.postgres import running_server

API = "/api/v1"
ROLES = ("api", "proxy", "controller")
CLIENTS = 10


class Load:
    """Requests at a steady pace, and WebSockets that come back when they end."""

    def __init__(self, address: str, browser: HandBrowser, workspace: Mapping[str, Any]) -> None:
        self._address = address
        self._browser = browser
        self._workspace = workspace
        self.answered = self.failed = self.open = 0
        self.gaps_s: list[float] = []

    async def ask(self, pause_s: float) -> None:
        cookie = self._browser.cookies_of(urlsplit(self._address).netloc)
        headers = {"Cookie": cookie, "Origin": self._address}
        path = f"{API}/workspaces/{self._workspace['id']}"
        number = 0
        async with httpx.AsyncClient(base_url=self._address, headers=headers, timeout=PATIENCE_S) as client:
            while True:
                number += 1
                due = time.monotonic() + pause_s
                try:
                    is_change = number % 5 == 0
                    answer = await (
                        client.patch(path, json={"memo": str(number)}) if is_change else client.get(path)
                    )
                    is_answered = answer.status_code == 200
                except httpx.TransportError:
                    is_answered = False
                self.answered += is_answered
                self.failed += not is_answered
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def hold(self) -> None:
        host, port = self._address.removeprefix("http://").split(":")
        own = urlsplit(self._workspace["url"]).netloc
        ask = (
            f"GET / HTTP/1.1\r\nHost: {own}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Origin: http://{own}\r\nCookie: {self._browser.cookies_of(own)}\r\n\r\n"
        )
        ended_at: float | None = None
        while True:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    writer.write(ask.encode())
                    if (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101"):
                        if ended_at is not None:
                            self.gaps_s.append(time.monotonic() - ended_at)
                        self.open += 1
                        await reader.read(4)  # its end, or a Close frame
                        self.open -= 1
                        ended_at = time.monotonic()
                finally:
                    writer.close()
            await asyncio.sleep(0.05)


async def roll(made: Fleet, members: dict[str, list[Member]]) -> None:
    for role in ROLES:
        for _ in range(2):
            taken = {member.slot for member in members[role]}
            new = await made.start(role, min({0, 1, 2} - taken))
            old, *rest = members[role]
            members[role] = [*rest, new]
            old.leave()
            await old.ended()


async def signed_in(made: Fleet) -> tuple[HandBrowser, Mapping[str, Any]]:
    """Return the browser of somebody, and a workspace that runs and that they have entered."""
    headers = {"Origin": made.address}
    async with httpx.AsyncClient(base_url=made.address, headers=headers, timeout=PATIENCE_S) as client:
        await client.post(f"{API}/login", json={"username": "admin", "password": PASSWORD})
        workspace = (await client.post(f"{API}/workspaces", json={"name": "demo"})).json()
        await ask_until(
            lambda: client.get(f"{API}/workspaces/{workspace['id']}"),
            lambda answer: answer.json()["phase"] == "RUNNING",
        )
        browser = HandBrowser.of(made.address, client.cookies)
    await asyncio.to_thread(browser.go, workspace["url"])
    return browser, workspace


async def measure(requests_per_s: int, sockets: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with running_server("postgres-18") as server, server.empty() as database:
            url = f"postgresql://admin@/{database}?host={server.directory}"
            with fleet(Path(directory), url, drain_notice_seconds="5", drain_seconds="5") as made:
                members = {role: [await made.start(role, slot) for slot in (0, 1)] for role in ROLES}
                async with Balancer(made).serving():
                    load = Load(made.address, *await signed_in(made))
                    works = [load.ask(CLIENTS / requests_per_s) for _ in range(CLIENTS)]
                    works += [load.hold() for _ in range(sockets)]
                    tasks = [asyncio.create_task(work) for work in works]
                    while load.open < sockets:
                        await asyncio.sleep(0.1)
                    began = time.monotonic()
                    await roll(made, members)
                    took_s = time.monotonic() - began
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
    gaps = sorted(load.gaps_s)
    p99 = gaps[int(len(gaps) * 0.99)] if gaps else 0.0
    print(f"six processes rolled in {took_s:.0f} s under {sockets} WebSockets")
    print(f"requests of the API: {load.answered} answered, {load.failed} failed (limit 0)")
    print(
        f"gap of a WebSocket: p50 {statistics.median(gaps or [0]):.2f} s, p99 {p99:.2f} s (limit 2 s), "
        f"{len(gaps)} in all"
    )


def main() -> None:
    requests_per_s, sockets = (int(word) for word in (sys.argv[1:3] or ("100", "200")))
    asyncio.run(measure(requests_per_s, sockets))


if __name__ == "__main__":
    main()
