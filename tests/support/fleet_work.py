"""People who work with two of each role all the time, and what becomes of what they do. Each process can be
rolled, and killed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
from tests.support.entering import HandBrowser
from tests.support.fleet import PASSWORD, Balancer, Fleet, Member, fleet
from tests.support.patience import PATIENCE_S, ask_until, until
from tests.support.postgres import TestServer
from tests.support.streams import reading

API = "/api/v1"
GOING_AWAY = b"\x88\x02\x03\xe9"
ROLES = ("api", "proxy", "controller")
TAKE_OVER_S_MAX = 15.0


@dataclass
class Work:
    """What people do all the time, and what became of it."""

    address: str
    cookie: str
    workspace_id: str
    database: dict[str, Any]
    answered: int = 0
    failures: list[str] = field(default_factory=list)
    goodbyes: list[bytes] = field(default_factory=list)
    heard: set[int] = field(default_factory=set)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.address, timeout=PATIENCE_S, headers={"Cookie": self.cookie, "Origin": self.address}
        )

    async def ask(self, method: str) -> None:
        """Ask again and again. What is safe is asked once more on a connection that broke, as browsers do."""
        path = f"{API}/workspaces/{self.workspace_id}"
        async with self.client() as client:
            number = 0
            while True:
                number += 1
                body = {"memo": f"{number}"} if method == "PATCH" else None
                for attempt in (1, 2):
                    try:
                        answer = await client.request(method, path, json=body)
                    except httpx.TransportError as error:
                        if method == "GET" and attempt == 1:
                            continue
                        self.failures.append(f"{method} {type(error).__name__}")
                    else:
                        self.answered += 1
                        if answer.status_code != 200:
                            self.failures.append(f"{method} {answer.status_code} {answer.text[:200]}")
                    break
                await asyncio.sleep(0.02)

    async def enter(self) -> tuple[str, str]:
        """Enter the workspace, and return the host that it has for itself, and the cookie of its door."""
        async with self.client() as client:
            url = (await client.get(f"{API}/workspaces/{self.workspace_id}")).json()["url"]
        name, _, word = self.cookie.partition("=")
        browser, own = HandBrowser({urlsplit(self.address).netloc: {name: word}}), urlsplit(url).netloc
        await asyncio.to_thread(browser.go, url)
        return own, browser.cookies_of(own)

    async def hold_socket(self, own: str, door: str) -> None:
        """Keep a WebSocket open, and note how each one ends."""
        host, port = self.address.removeprefix("http://").split(":")
        while True:
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(
                    f"GET / HTTP/1.1\r\nHost: {own}\r\nConnection: Upgrade\r\n"
                    f"Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                    f"Origin: http://{own}\r\nCookie: {door}\r\n\r\n".encode()
                )
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 101"):
                    self.failures.append(f"WebSocket {head[:60]!r}")
                    await asyncio.sleep(0.1)
                    continue
                self.goodbyes.append(await reader.read())
            except (ConnectionError, asyncio.IncompleteReadError):
                self.goodbyes.append(b"cut")
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

    async def listen(self) -> None:
        """Follow the events, from the last one that was heard."""
        last: int | None = None
        async with self.client() as client:
            while True:
                with suppress(httpx.TransportError, StopAsyncIteration, RuntimeError, AssertionError):
                    async with reading(client, last) as reader:
                        while True:
                            message = await reader.next(heartbeats=True)
                            if message.id is not None:
                                self.heard.add(message.id)
                                last = message.id
                await asyncio.sleep(0.05)

    async def history(self) -> set[int]:
        connection = await asyncpg.connect(**self.database)
        try:
            return {row["seq"] for row in await connection.fetch("SELECT seq FROM workspace_events")}
        finally:
            await connection.close()

    @asynccontextmanager
    async def under_way(self, *, sockets: int = 4) -> AsyncIterator[None]:
        works = [self.ask("GET") for _ in range(3)] + [self.ask("PATCH") for _ in range(2)]
        own, door = await self.enter()
        works += [self.hold_socket(own, door) for _ in range(sockets)] + [self.listen()]
        self.tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
            for task in self.tasks:
                assert not task.done(), task.exception()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass
class Site:
    fleet: Fleet
    database: dict[str, Any]
    members: dict[str, list[Member]]

    async def signed_in(self) -> tuple[httpx.AsyncClient, str]:
        client = httpx.AsyncClient(base_url=self.fleet.address, timeout=PATIENCE_S)
        body = {"username": "admin", "password": PASSWORD}
        answer = await client.post(f"{API}/login", json=body)
        assert answer.status_code == 200, answer.text
        return client, f"codehub_session={client.cookies['codehub_session']}"

    async def run(self, client: httpx.AsyncClient, workspace_id: str, script: str) -> str:
        """Run it in a workspace, as a program of whoever has signed in."""
        made = await client.post(f"{API}/tokens", json={"name": "test", "scope": "write"})
        answer = await asyncio.to_thread(
            partial(
                httpx.post,
                f"{self.fleet.address}/w/{workspace_id}/run",
                content=script,
                headers={"Authorization": f"Bearer {made.json()['token']}"},
                timeout=PATIENCE_S,
            )
        )
        return answer.text.strip()

    async def roll(self, role: str) -> Member:
        """Let a new one come and the oldest go, and return that."""
        slots = {member.slot for member in self.members[role]}
        new = await self.fleet.start(role, min({0, 1, 2} - slots))
        old, *rest = self.members[role]
        self.members[role] = [*rest, new]
        old.leave()
        return old


@asynccontextmanager
async def two_of_each(server: TestServer, directory: Path, **settings: str) -> AsyncIterator[Site]:
    async with server.empty() as database:
        url = f"postgresql://admin@/{database}?host={server.directory}"
        with fleet(directory, url, **settings) as made:
            first = await made.start("api", 0)  # it makes the schema and the first admin
            others = [
                made.launch(role, slot) for role in ROLES for slot in (0, 1) if (role, slot) != ("api", 0)
            ]
            members: dict[str, list[Member]] = {role: [] for role in ROLES}
            members["api"].append(first)
            for member in others:
                members[member.role].append(await made.ready(member))
            async with Balancer(made).serving():
                yield Site(made, dict(server.connect_args(database)), members)


async def arrives(client: httpx.AsyncClient, workspace_id: str, phase: str) -> dict[str, Any]:
    async def show() -> dict[str, Any]:
        with suppress(httpx.TransportError, ValueError):
            body: dict[str, Any] = (await client.get(f"{API}/workspaces/{workspace_id}")).json()
            return body
        return {}

    return await ask_until(show, lambda row: (row.get("phase"), row.get("operation")) == (phase, "NONE"))


async def running(client: httpx.AsyncClient, name: str) -> str:
    answer = await client.post(f"{API}/workspaces", json={"name": name})
    assert answer.status_code == 201, answer.text
    workspace_id: str = answer.json()["id"]
    await arrives(client, workspace_id, "RUNNING")
    return workspace_id


async def fill(site: Site, client: httpx.AsyncClient, workspace_id: str, size: str) -> None:
    """Write a file of random bytes into its home."""
    output = await site.run(client, workspace_id, f"head -c {size} /dev/urandom > ~/big; echo done")
    assert output.endswith("done"), output


async def first_event(work: Work) -> int:
    """Wait until everybody is at work, and return the last event that was heard."""
    await until(lambda: work.answered > 20 and work.heard)
    return max(work.heard)


async def roll_each(site: Site, *, times: int) -> None:
    for role in ROLES:
        for _ in range(times):
            old = await site.roll(role)
            assert await old.ended() == 0, old.log.read_text()


async def kill_each(site: Site, work: Work, big: str) -> None:
    """Kill an API and a proxy, then the controller that archives a big home: another takes it over, and
    nothing fails but what was in flight.
    """
    for role in ("api", "proxy"):
        site.members[role][0].kill()
        await work_on(work)
    client, _ = await site.signed_in()
    async with aclosing(client):
        assert (await client.post(f"{API}/workspaces/{big}:archive")).is_success
        controller, op_id = await archiving(site, big), await op_of(site, big)
        controller.kill()
        killed_at = time.monotonic()
        await until(lambda: is_taken_over(site, big, op_id))
        took_s = time.monotonic() - killed_at
        await arrives(client, big, "ARCHIVED")
    assert took_s < TAKE_OVER_S_MAX
    assert all(failure.startswith("PATCH ") for failure in work.failures), work.failures
    assert len(work.failures) <= 4, "two were in flight at each of two deaths"


async def work_on(work: Work) -> None:
    goal = work.answered + 50
    await until(lambda: work.answered > goal)


async def is_all_heard(work: Work, first: int) -> bool:
    return {seq for seq in await work.history() if seq > first} <= work.heard


async def archiving(site: Site, workspace_id: str) -> Member:
    """Wait until it is being archived, and return by whom."""

    def at_work() -> list[Member]:
        return [
            member
            for member in site.members["controller"]
            if any(
                "operation_began" in line and "ARCHIVING" in line and workspace_id in line
                for line in member.log.read_text().splitlines()
            )
        ]

    await until(at_work)
    return at_work()[-1]


async def op_of(site: Site, workspace_id: str) -> object:
    connection = await asyncpg.connect(**site.database)
    try:
        return await connection.fetchval("SELECT op_id FROM workspaces WHERE id = $1::uuid", workspace_id)
    finally:
        await connection.close()


async def is_taken_over(site: Site, workspace_id: str, op_id: object) -> bool:
    return await op_of(site, workspace_id) != op_id
