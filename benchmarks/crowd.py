"""What a crowd takes: two of each role over many workspaces on a real API server and PostgreSQL, of which a
fifth runs, each with an open WebSocket, and requests at a steady pace through both proxies.

Processor and memory of each role at rest and under load, how long answers take, and how often the API server
is asked at rest. Pods and claims are made by hand, and one server answers for all IDEs.
`python -m benchmarks.crowd [--many 10000] [--rest 60] [--load 60]`
"""

import argparse
import asyncio
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import asyncpg
import uvloop
from benchmarks.api import Caller
from benchmarks.echo_ide import answering
from benchmarks.fill import fill
from benchmarks.hand_made import IN_CLUSTER, HandMade, only_an_api
from benchmarks.proxy_peers import Peer
from tests.support.fleet import Fleet, fleet
from tests.support.kubernetes import NO_KUBERNETES, lent_cluster
from tests.support.kubernetes_world import NAMESPACE, prepare_namespace
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.postgres import running_server

from codehub.adapters.postgres.connect import ConnectArgs

API = "/api/v1"
RUNNING_SHARE, REQUESTS_SHARE = 5, 10
"""One in so many workspaces runs, and so many of these send one request a second between them."""
ROLES = ("api", "proxy", "controller")
QUIET_S = 25.0
# As an open tab does that nobody touches, and one in which somebody types, counted in real ones.
FRAME_S, TYPING_FRAME_S, TYPING_SHARE = 2.0, 0.25, 10
FRAME = b"\x82\x9e" + bytes(4) + b"f" * 30
FRAMES_A_TICK = 10
_PEOPLE = (
    (
        "INSERT INTO users (id, username, password_hash, role) SELECT gen_random_uuid(), 'at-work-' || n, "
        "'$argon2id$', 'member' FROM generate_series(1, $1::int) n"
    ),
    (
        "INSERT INTO sessions (id_sha256, user_id, expires_at) SELECT sha256(('session-' || "
        "username)::bytea), id, now() + interval '1 day' FROM users WHERE $1::int > 0"
    ),
    (
        "INSERT INTO api_tokens (id, user_id, name, token_sha256, scope) SELECT gen_random_uuid(), id, "
        "'bench', sha256(('cht_' || username)::bytea), 'write' FROM users WHERE $1::int > 0"
    ),
    # Each has one that runs, and an even share of the others.
    """
    WITH people AS (SELECT array_agg(id) AS ids FROM users WHERE username LIKE 'at-work-%'),
    ranked AS (
        SELECT id, row_number() OVER (PARTITION BY phase ORDER BY id) AS n FROM workspaces WHERE $1::int > 0
    )
    UPDATE workspaces SET owner_user_id = people.ids[1 + ranked.n % cardinality(people.ids)]
    FROM ranked, people
    WHERE workspaces.id = ranked.id
    """,
)
_DESKS = (
    "SELECT w.id, u.username FROM workspaces w JOIN users u ON u.id = owner_user_id WHERE phase = "
    "'RUNNING' ORDER BY w.id"
)
_MOVING = "SELECT coalesce(sum(version), 0) FROM workspaces"


def main() -> None:
    if NO_KUBERNETES is not None:
        print(f"nothing is measured: {NO_KUBERNETES}")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--rest", type=float, default=60.0)
    parser.add_argument("--load", type=float, default=60.0)
    options, _ = parser.parse_known_args()
    uvloop.run(measure(options.many, options.rest, options.load))


@dataclass(frozen=True, slots=True)
class Desk:
    """A person, and their workspace that runs."""

    workspace_id: str
    username: str


async def measure(many: int, rest_s: float, load_s: float) -> None:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, lent_cluster() as cluster, answering(port):
        settings = {
            "instance_backend": "k8s",
            "k8s_kubeconfig": str(prepare_namespace(cluster)),
            "k8s_archive_claim": "archives",
            "archive_url": f"file://{directory}/archives",
            "helper_image": "codehub",
            "idle_period_seconds": "10",
            "log_level": "warning",
            "workspace_host": "none",  # sessions of many people are made in the database, and doors are not
        }
        async with running_server("postgres-18") as server, server.empty() as name:
            url = f"postgresql://admin@/{name}?host={server.directory}"
            connect_args = server.connect_args(name)
            with fleet(Path(directory), url, **settings) as made, only_an_api(cluster):
                await prepare(made, connect_args, many)
                hand_made = HandMade(cluster, NAMESPACE, port=port)
                await hand_made.make(connect_args)
                members = [await made.start(role, slot) for role in ROLES for slot in (0, 1)]
                crew = {
                    role: Peer(role, 0, tuple(each.process.pid for each in members if each.role == role))
                    for role in ROLES
                }
                crew["PostgreSQL"] = Peer("PostgreSQL", 0, (server.process.pid,))
                crew |= hand_made.control_plane()
                await until_quiet(connect_args)
                asked = hand_made.requests()
                at_rest = await spent(crew, asyncio.sleep(rest_s))
                asked = {key: count - asked.get(key, 0) for key, count in hand_made.requests().items()}
                print_requests({key: count for key, count in asked.items() if count}, rest_s)
                load = Load(made, await desks(connect_args))
                async with load.open_sockets():
                    await load.run(min(10.0, load_s))  # warm
                    load.forget()
                    under_load = await spent(crew, load.run(load_s))
                    print_crew(many, load, at_rest, under_load)
                hand_made.remove()


async def prepare(made: Fleet, connect_args: ConnectArgs, many: int) -> None:
    """Let codehub make its schema and its marks, and then the database be full."""
    first = await made.start("api", 0)
    first.kill()
    connection = await asyncpg.connect(**connect_args)
    try:
        await fill(connection, many)
        await connection.execute(IN_CLUSTER)
        for statement in _PEOPLE:
            await connection.execute(statement, many // RUNNING_SHARE)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def until_quiet(connect_args: ConnectArgs) -> None:
    """Wait until nothing was written for some passes."""
    connection = await asyncpg.connect(**connect_args)
    quiet_since, before = time.monotonic(), None

    async def is_quiet() -> bool:
        nonlocal quiet_since, before
        await asyncio.sleep(1)
        now = await connection.fetchval(_MOVING)
        if now != before:
            quiet_since, before = time.monotonic(), now
        return time.monotonic() - quiet_since > QUIET_S

    try:
        await until(is_quiet, seconds=600)
    finally:
        await connection.close()


async def desks(connect_args: ConnectArgs) -> Sequence[Desk]:
    connection = await asyncpg.connect(**connect_args)
    try:
        return [Desk(str(row["id"]), row["username"]) for row in await connection.fetch(_DESKS)]
    finally:
        await connection.close()


# The load


@dataclass
class Load:
    """Everybody at work, and how long each thing took that they did."""

    fleet: Fleet
    desks: Sequence[Desk]
    spans: dict[str, list[float]] = field(default_factory=dict)
    failures: int = 0
    sockets: "list[Socket]" = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.desks) / REQUESTS_SHARE

    def address(self, number: int) -> str:
        """Return one proxy or the other."""
        return f"127.0.0.1:{self.fleet.ports['proxy'][number % 2]}"

    def forget(self) -> None:
        self.spans.clear()
        self.failures = 0

    def note(self, what: str, span_s: float) -> None:
        self.spans.setdefault(what, []).append(span_s)

    async def run(self, seconds: float) -> None:
        await asyncio.gather(self._ask(seconds), *(self._send(seconds, *each) for each in self._paces()))

    @asynccontextmanager
    async def open_sockets(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        try:
            for number, desk in enumerate(self.desks):
                host, port = self.address(number).split(":")
                transport, socket = await loop.create_connection(lambda: Socket(self), host, int(port))
                self.sockets.append(socket)
                transport.write(self._handshake(desk))
                await socket.opened
            yield
        finally:
            for socket in self.sockets:
                socket.transport.abort()

    def _handshake(self, desk: Desk) -> bytes:
        origin = self.fleet.address
        lines = (
            f"GET /w/{desk.workspace_id}/ws HTTP/1.1",
            f"Host: {origin.removeprefix('http://')}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            f"Origin: {origin}",
            f"Cookie: codehub_session=session-{desk.username}",
        )
        return "\r\n".join([*lines, "", ""]).encode()

    def _paces(self) -> "list[tuple[list[Socket], float]]":
        typing = self.sockets[::TYPING_SHARE]
        idle = [socket for number, socket in enumerate(self.sockets) if number % TYPING_SHARE]
        return [(typing, TYPING_FRAME_S), (idle, FRAME_S)]

    async def _send(self, seconds: float, sockets: "list[Socket]", frame_s: float) -> None:
        """Send a frame on each of them every so often, evenly."""
        began = time.perf_counter()
        pause_s = frame_s / max(1, len(sockets))
        for number, socket in enumerate(itertools.cycle(sockets)):
            if number % FRAMES_A_TICK == 0:
                due = began + number * pause_s
                if due > began + seconds:
                    return
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            socket.send()

    async def _ask(self, seconds: float) -> None:
        """Ask at a rate, whatever comes back when; a span begins when its request was due."""
        began = time.perf_counter()
        async with AsyncExitStack() as stack:
            callers = Callers(self, stack)
            async with asyncio.TaskGroup() as group:
                for number in range(int(seconds * self.rate)):
                    due = began + number / self.rate
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                    group.create_task(self._ask_once(callers, number, due))

    async def _ask_once(self, callers: "Callers", number: int, due: float) -> None:
        desk = self.desks[number * 7 % len(self.desks)]
        what, method, path, body = "IDE", "GET", f"/w/{desk.workspace_id}/static/main.js", None
        if number % 2:
            what, path = "read", f"{API}/workspaces/{desk.workspace_id}"
            if number % 20 == 1:
                path = f"{API}/workspaces?limit=100"
            elif number % 20 == 3:
                what, method, body = "change", "PATCH", {"memo": str(number)}
        key = (
            f"Cookie: codehub_session=session-{desk.username}"
            if what == "IDE"
            else f"Authorization: Bearer cht_{desk.username}"
        )
        caller = await callers.lent(number)
        status, _ = await caller.call(method, path, body, key=key)
        callers.give_back(number, caller)
        self.failures += status != 200
        self.note(what, time.perf_counter() - due)


class Callers:
    """Connections to both proxies that are kept open."""

    def __init__(self, load: Load, stack: AsyncExitStack) -> None:
        self._load = load
        self._stack = stack
        self._free: dict[str, list[Caller]] = {}

    async def lent(self, number: int) -> Caller:
        address = self._load.address(number)
        free = self._free.setdefault(address, [])
        return free.pop() if free else await self._stack.enter_async_context(Caller(address, ""))

    def give_back(self, number: int, caller: Caller) -> None:
        self._free[self._load.address(number)].append(caller)


class Socket(asyncio.Protocol):
    """A tab's WebSocket: what it sends comes back."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._sent: list[float] = []
        self._missing = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            assert data.startswith(b"HTTP/1.1 101"), data[:200]
            self.opened.set_result(None)
            return
        self._missing -= len(data)
        while self._sent and self._missing <= (len(self._sent) - 1) * len(FRAME):
            self._load.note("frame", time.perf_counter() - self._sent.pop(0))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._load.failures += 1
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the proxy hung up"))

    def send(self) -> None:
        self._sent.append(time.perf_counter())
        self._missing += len(FRAME)
        self.transport.write(FRAME)


# What it took


@dataclass(frozen=True, slots=True)
class Spent:
    """Processors in use, and memory."""

    cores: float
    memory_mb: float


async def spent(crew: Mapping[str, Peer], work: Awaitable[None]) -> Mapping[str, Spent]:
    """Return what each took while the work was done."""
    before, began = {name: peer.cpu_s() for name, peer in crew.items()}, time.monotonic()
    await work
    took = time.monotonic() - began
    return {
        name: Spent((peer.cpu_s() - before[name]) / took, peer.own_memory_kb() / 1024)
        for name, peer in crew.items()
    }


def print_requests(asked: Mapping[tuple[str, str], int], rest_s: float) -> None:
    named = (
        ", ".join(f"{count} {verb} {resource}" for (verb, resource), count in sorted(asked.items())) or "none"
    )
    print(f"requests to the API server in {rest_s:.0f} s at rest, two of each role: {named}")


def print_crew(many: int, load: Load, at_rest: Mapping[str, Spent], under_load: Mapping[str, Spent]) -> None:
    print(
        f"{many:,} workspaces, {len(load.desks):,} run, {len(load.sockets):,} WebSockets, {load.rate:.0f} "
        f"requests/s, {load.failures} failed; load of the machine {os.getloadavg()[0]:.1f}"
    )
    print(f"  {'':12} {'at rest':>18} {'under load':>18} {'memory':>10}")
    for name, each in under_load.items():
        print(
            f"  {name:12} {at_rest[name].cores:12.3f} cores {each.cores:12.3f} cores {each.memory_mb:7.0f} MB"
        )
    for what, spans in sorted(load.spans.items()):
        cuts = statistics.quantiles(spans, n=100)
        print(f"  {what:12} p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms of {len(spans):,}")


if __name__ == "__main__":
    main()
