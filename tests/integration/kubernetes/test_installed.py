"""codehub in a cluster, installed by Helm from its chart, two of each role: a workspace's whole
circle through the Ingress and its own origin, an upgrade while people work, and Pods that are killed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.kubernetes.test_isolation import WORLD, connecting, listening
from tests.support.cluster.codehub_image import REPOSITORY, TAGS
from tests.support.cluster.installed import HOST, RELEASE, Installation, Visitor, installed, visiting
from tests.support.cluster.layout import DOMAIN
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.patience import PATIENCE_S, block_until, until
from tests.support.s3 import S3
from tests.support.streams import reading

pytestmark = [KUBERNETES, S3]

ROLES = ("api", "proxy", "controller")
SOCKETS = 4
CONNECT_S_MAX = 2.0
TAKE_OVER_S_MAX = 15.0
GOING_AWAY = b"\x88\x02\x03\xe9"


@pytest.fixture(scope="module")
async def site(kubernetes: Kubernetes) -> AsyncIterator[Installation]:
    async with installed(kubernetes()) as made:
        yield made


@pytest.fixture
def visitor(site: Installation) -> Iterator[Visitor]:
    with visiting(site) as visitor:
        yield visitor


def test_two_of_each_role_serve_where_pod_security_is_restricted(site: Installation) -> None:
    assert {role: len(site.pods(role)) for role in ROLES} == dict.fromkeys(ROLES, 2)
    versions = {pod["spec"]["containers"][0]["image"] for role in ROLES for pod in site.pods(role)}
    assert versions == {f"{REPOSITORY}:{TAGS[0]}"}


async def test_a_workspace_goes_round_the_whole_circle_by_its_own_origin(
    site: Installation, visitor: Visitor
) -> None:
    workspace_id = await asyncio.to_thread(_through_the_archive, visitor)
    key = f"{workspace_id}/"
    assert key in (await site.store.ask("GET", f"/{site.bucket}")).text
    await asyncio.to_thread(_back_and_away, site, visitor, workspace_id)
    await until(lambda: _is_gone(site, key))


def _through_the_archive(visitor: Visitor) -> str:
    workspace_id = visitor.make("circle")
    visitor.arrives(workspace_id, "RUNNING")
    visitor.shell(workspace_id, "echo kept > /home/coder/file")
    visitor.wish(workspace_id, "stop")
    visitor.arrives(workspace_id, "STANDBY")
    visitor.wish(workspace_id, "archive")
    visitor.arrives(workspace_id, "ARCHIVED")
    return workspace_id


def _back_and_away(site: Installation, visitor: Visitor, workspace_id: str) -> None:
    claim = site.claim_path(workspace_id)
    block_until(lambda: site.cluster.find(claim) is None)
    visitor.wish(workspace_id, "start")
    visitor.arrives(workspace_id, "RUNNING")
    assert visitor.shell(workspace_id, "cat /home/coder/file").strip() == "kept"
    assert visitor.ask("DELETE", f"/api/v1/workspaces/{workspace_id}?purge=true").is_success
    block_until(lambda: visitor.ask("GET", f"/api/v1/workspaces/{workspace_id}").status_code == 404)
    block_until(lambda: site.cluster.find(claim) is None)


async def _is_gone(site: Installation, key: str) -> bool:
    return key not in (await site.store.ask("GET", f"/{site.bucket}")).text


@dataclass
class Work:
    """What people ask all the time, at the Service of the proxies, and what became of it."""

    site: Installation
    workspace_id: str
    session: str
    """The cookie of codehub's own host."""
    place: str
    """The host of the workspace."""
    door: str
    """The cookie of that host."""
    reconnects: bool = False
    """Whether what was never sent is sent elsewhere: where a Pod is killed, its address
    is given out for a moment on.
    """
    answered: int = 0
    heard: set[int] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    endings: list[bytes] = field(default_factory=list)

    def client(self) -> httpx.AsyncClient:
        headers = {**self.site.headers, "Cookie": self.session}
        timeout = httpx.Timeout(PATIENCE_S, connect=self.connect_s_max)
        return httpx.AsyncClient(base_url=self.site.address, headers=headers, timeout=timeout)

    @property
    def connect_s_max(self) -> float:
        return CONNECT_S_MAX if self.reconnects else PATIENCE_S

    async def ask(self, method: str) -> None:
        """Ask again and again. What is safe is asked once more on a connection that broke, as browsers do."""
        path = f"/api/v1/workspaces/{self.workspace_id}"
        async with self.client() as client:
            while True:
                body = {"memo": f"{self.answered}"} if method == "PATCH" else None
                attempts = 2 if method == "GET" else 1
                while attempts:
                    attempts -= 1
                    try:
                        answer = await client.request(method, path, json=body)
                    except httpx.TransportError as error:
                        if self.reconnects and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                            attempts += 1
                        elif not attempts:
                            self.failures.append(f"{method} {type(error).__name__}")
                        continue
                    self.answered += 1
                    if answer.status_code != 200:
                        self.failures.append(f"{method} {answer.status_code} {answer.text[:200]}")
                    break
                await asyncio.sleep(0.05)

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

    async def hold_socket(self) -> None:
        """Keep a WebSocket open, and note how each one ends."""
        lines = (
            *("GET /ws HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket"),
            *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="),
            *(f"Host: {self.place}", f"Origin: https://{self.place}", f"Cookie: {self.door}", "", ""),
        )
        while True:
            try:
                async with asyncio.timeout(self.connect_s_max):
                    reader, writer = await asyncio.open_connection(urlsplit(self.site.address).hostname, 80)
            except OSError:
                if not self.reconnects:
                    raise
                continue
            try:
                writer.write("\r\n".join(lines).encode())
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 101"):
                    self.failures.append(f"WebSocket {head[:60]!r}")
                self.endings.append(await reader.read())
            except (ConnectionError, asyncio.IncompleteReadError):
                self.endings.append(b"cut")
            finally:
                writer.close()

    async def go_on(self) -> None:
        """Return when everybody has asked for a while."""
        goal = self.answered + 50
        await until(lambda: self.answered > goal)

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        works = [self.ask(method) for method in ("GET", "GET", "PATCH", "PATCH")]
        works += [self.hold_socket() for _ in range(SOCKETS)] + [self.listen()]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
            assert [task for task in tasks if task.done()] == [], "they ask for as long as there is somebody"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(scope="module")
async def demo(site: Installation) -> str:
    """A workspace that runs."""
    with visiting(site) as visitor:
        workspace_id = await asyncio.to_thread(visitor.make, "demo")
        await asyncio.to_thread(visitor.arrives, workspace_id, "RUNNING")
    return workspace_id


async def test_a_workspace_reaches_names_and_the_world_and_nothing_of_codehub(
    site: Installation, visitor: Visitor, demo: str
) -> None:
    layout = site.cluster.layout
    refused = {"PostgreSQL": (layout.host_address, 5432), "kubelet": (layout.node_address, 10250)}
    for role in ("api", "proxy"):
        for pod in site.pods(role):
            for port in pod["spec"]["containers"][0]["ports"]:
                name = f"{pod['metadata']['name']} {port['name']}"
                refused[name] = pod["status"]["podIP"], port["containerPort"]
    assert len(refused) >= 6
    with listening(site.cluster, WORLD, 443) as world_wide:
        asking = [
            f"{{ {{ {connecting(where)}; }} >/dev/null 2>&1 && echo '{name}'; }} &"
            for name, where in {**refused, "the world": world_wide}.items()
        ]
        script = "\n".join([*asking, "wait"])
        assert (await asyncio.to_thread(visitor.shell, demo, script)).splitlines() == ["the world"]
    service = f"{RELEASE}.{site.namespace}.svc.{DOMAIN}"
    named = await asyncio.to_thread(visitor.shell, demo, f"getent ahostsv4 {service}")
    assert named.split()[0] == urlsplit(site.address).hostname


@pytest.fixture
def work(site: Installation, visitor: Visitor, demo: str) -> Work:
    place = visitor.enter(demo)
    return Work(site, demo, visitor.cookies_of(HOST), place, visitor.cookies_of(place))


async def test_an_upgrade_rolls_every_pod_and_refuses_nobody_anything(
    site: Installation, visitor: Visitor, work: Work
) -> None:
    before = {pod["metadata"]["uid"] for role in ROLES for pod in site.pods(role)}
    async with work.under_way():
        await work.go_on()
        image = {**site.values["image"], "tag": TAGS[1]}
        await asyncio.to_thread(lambda: site.upgrade(image=image))
        await until(lambda: all(len(site.pods(role)) == 2 for role in ROLES))
        await until(lambda: len(work.endings) >= SOCKETS)
        await work.go_on()
    assert work.failures == [], site.story()
    assert set(work.endings) == {GOING_AWAY}, "each was drained"
    assert not before & {pod["metadata"]["uid"] for role in ROLES for pod in site.pods(role)}
    assert await asyncio.to_thread(visitor.shell, work.workspace_id, "echo on") == "on\n"


async def test_a_pod_that_is_killed_takes_nothing_with_it_but_what_it_held(
    site: Installation, work: Work
) -> None:
    work.reconnects = True
    async with work.under_way():
        await until(lambda: work.heard)
        first = max(work.heard)
        for role in ("proxy", "api"):
            await work.go_on()
            site.kill(site.pods(role)[0])
            await work.go_on()
        await until(lambda: _is_all_heard(work, first))
    assert all(failure.startswith("PATCH ") for failure in work.failures), work.failures
    assert len(work.failures) <= 4, "two were in flight at each of two deaths"


async def _is_all_heard(work: Work, first: int) -> bool:
    async with work.client() as client:
        answer = await client.get(f"/api/v1/workspaces/{work.workspace_id}/events", params={"limit": 200})
    return {event["seq"] for event in answer.json()["items"] if event["seq"] > first} <= work.heard


async def test_an_operation_whose_controller_is_killed_goes_on_in_another(
    site: Installation, demo: str
) -> None:
    with visiting(site) as visitor:
        visitor.shell(demo, "head -c 60M /dev/urandom > /home/coder/large")
        visitor.wish(demo, "stop")
        await asyncio.to_thread(visitor.arrives, demo, "STANDBY")
        visitor.wish(demo, "archive")
        controller = await asyncio.to_thread(_archiving, site, demo)
        site.kill(controller)
        await until(lambda: not site.cluster.processes_in(controller))
        killed_at = time.monotonic()
        assert visitor.show(demo)["phase"] != "ARCHIVED"
        await asyncio.to_thread(_archiving, site, demo)
        assert time.monotonic() - killed_at < TAKE_OVER_S_MAX
        await asyncio.to_thread(visitor.arrives, demo, "ARCHIVED")
        visitor.wish(demo, "start")
        await asyncio.to_thread(visitor.arrives, demo, "RUNNING")


def _archiving(site: Installation, workspace_id: str) -> dict[str, Any]:
    """Wait until a controller archives it, and return that one's Pod."""

    def controller() -> dict[str, Any] | None:
        for pod in site.pods("controller"):
            for line in site.log_of(pod).splitlines():
                if "operation_began" in line and "ARCHIVING" in line and workspace_id in line:
                    return pod
        return None

    return block_until(controller)


async def test_to_uninstall_leaves_everybody_s_homes(site: Installation, demo: str) -> None:
    await asyncio.to_thread(site.uninstall)
    assert site.cluster.ask("GET", site.claim_path(demo))["status"]["phase"] == "Bound"
