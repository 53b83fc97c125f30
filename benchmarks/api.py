"""The API's figures: lists against JupyterHub's in the same run, one workspace while fifty start, events at
five hundred listeners.

The server is a process of its own on real PostgreSQL with the memory platform; the client is raw asyncio.
JupyterHub is the peer where it is installed: CODEHUB_TEST_JUPYTERHUB names a virtual environment that has it,
with configurable-http-proxy on the PATH.
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop
from benchmarks.database import migrated_database
from tests.support.site import API, BOUNDLESS, open_site
from tests.support.stores import World

from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role as DatabaseRole
from codehub.adapters.postgres.connect import open_pool
from codehub.adapters.postgres.credentials import PostgresCredentials
from codehub.adapters.postgres.doors import PostgresDoors
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.adapters.system.machine import SystemClock
from codehub.app.database import SERVING_CONNECTIONS
from codehub.core.limits import Limits
from codehub.logs import configure_logs

ROWS = 100
CONNECTIONS = 4
CLOSED_S = 5.0
OPEN_S = 10.0
OPEN_RATE = 100
AT_ONCE = 50
LISTENERS = 500
COMMITS = 40
HUB_TOKEN = "benchmark-token-benchmark-token"
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        uvloop.run(serve())
        return
    asyncio.run(measure())


class Caller:
    """One keep-alive connection."""

    def __init__(self, address: str, authorization: str) -> None:
        self._host, self._port = address.removeprefix("http://").split(":")
        self._key = f"Authorization: {authorization}"

    async def __aenter__(self) -> "Caller":
        self._reader, self._writer = await asyncio.open_connection(
            self._host, int(self._port), limit=4_000_000
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> tuple[int, bytes]:
        """`key`: the header that says who asks, for this request alone."""
        content = b"" if body is None else json.dumps(body).encode()
        kind = "Content-Type: application/json\r\n" if body is not None else ""
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{key or self._key}\r\n{kind}"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        match = _LENGTH.search(head)
        answer = await self._reader.readexactly(int(match[1])) if match else b""
        return int(head[9:12]), answer

    async def listen(self, path: str) -> AsyncIterator[bytes]:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n{self._key}\r\n\r\n".encode())
        while True:
            yield await self._reader.readuntil(b"\n\n")


async def measure() -> None:
    async with server() as (address, token, ids):
        path = f"{API}/workspaces?limit={ROWS}"
        rate = await closed_loop(address, token, path)
        with hub() as peer_address:
            if peer_address is None:
                print("JupyterHub is not installed here: no peer (CODEHUB_TEST_JUPYTERHUB)")
                print(f"list of {ROWS} full workspaces: {rate:.0f}/s")
            else:
                peer = await closed_loop(peer_address, f"token {HUB_TOKEN}", f"/hub/api/users?limit={ROWS}")
                again = await closed_loop(address, token, path)
                ours = statistics.mean((rate, again))
                print(
                    f"list of {ROWS} full objects: {ours:.0f}/s, JupyterHub {peer:.0f}/s: "
                    f"{ours / peer:.1f}x (target 10x)"
                )
        spans = await open_loop(address, token, path)
        print(f"list at {OPEN_RATE}/s, open loop: {format_spans(spans)} (target p99 under 50 ms)")
        spans, took_s = await while_starting(address, token, ids)
        print(
            f"one workspace while {AT_ONCE} start at once ({took_s:.1f} s): {format_spans(spans)} (target "
            "p99 under 100 ms)"
        )
        spans = await commit_to_event(address, token, ids)
        print(f"commit to event at {LISTENERS} listeners: {format_spans(spans)} (target p99 under 200 ms)")


def format_spans(spans: list[float]) -> str:
    cuts = statistics.quantiles(spans, n=100)
    return (
        f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms, max {max(spans) * 1000:.1f} ms of "
        f"{len(spans)}"
    )


async def closed_loop(address: str, token: str, path: str) -> float:
    """Return answers per second on a few connections."""
    done = 0

    async def call_until(until: float) -> None:
        nonlocal done
        async with Caller(address, token) as caller:
            while time.perf_counter() < until:
                status, _body = await caller.call("GET", path)
                assert status == 200, status
                done += 1

    async with Caller(address, token) as caller:
        await caller.call("GET", path)
    began = time.perf_counter()
    await asyncio.gather(*(call_until(began + CLOSED_S) for _ in range(CONNECTIONS)))
    return done / (time.perf_counter() - began)


async def open_loop(
    address: str, token: str, path: str, *, seconds: float = OPEN_S, rate: float = OPEN_RATE
) -> list[float]:
    """Send at a rate, whatever comes back when; a span begins when its request was due."""
    free: asyncio.Queue[Caller] = asyncio.Queue()
    opened: list[Caller] = []
    spans: list[float] = []

    async def call_once(due: float) -> None:
        if free.empty():
            caller = await Caller(address, token).__aenter__()
            opened.append(caller)
        else:
            caller = free.get_nowait()
        status, _body = await caller.call("GET", path)
        assert status == 200, status
        spans.append(time.perf_counter() - due)
        free.put_nowait(caller)

    began = time.perf_counter()
    tasks = []
    for number in range(int(seconds * rate)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(call_once(due)))
    await asyncio.gather(*tasks)
    for caller in opened:
        await caller.__aexit__()
    return spans


async def while_starting(address: str, token: str, ids: list[str]) -> tuple[list[float], float]:
    starting = ids[:AT_ONCE]

    async def start(workspace_id: str) -> None:
        async with Caller(address, token) as caller:
            status, body = await caller.call("POST", f"{API}/workspaces/{workspace_id}:start")
            assert status == 200, body

    async def arrive() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(start(workspace_id) for workspace_id in starting))
        async with Caller(address, token) as caller:
            while True:
                _status, body = await caller.call("GET", f"{API}/workspaces?limit={ROWS}&phase=RUNNING")
                if body.count(b'"phase":"RUNNING"') >= AT_ONCE:
                    return time.perf_counter() - began
                await asyncio.sleep(0.1)

    arrival = asyncio.create_task(arrive())
    spans: list[float] = []
    while not arrival.done():
        spans += await open_loop(address, token, f"{API}/workspaces/{ids[-1]}", seconds=0.5, rate=100)
    return spans, await arrival


async def commit_to_event(address: str, token: str, ids: list[str]) -> list[float]:
    """Return how long after a change was asked for each listener had its event: an upper bound, as the commit
    comes later.
    """
    sent_at: dict[str, float] = {}
    spans: list[float] = []
    ready = asyncio.Semaphore(0)
    received = asyncio.Semaphore(0)
    mark = re.compile(rb'"memo":"mark-(\d+)"')

    async def listen() -> None:
        async with Caller(address, token) as caller:
            is_first = True
            async for message in caller.listen(f"{API}/events"):
                if is_first and b"heartbeat" in message:
                    is_first = False
                    ready.release()
                if (match := mark.search(message)) is not None:
                    spans.append(time.perf_counter() - sent_at[match[1].decode()])
                    received.release()

    listening = [asyncio.create_task(listen()) for _ in range(LISTENERS)]
    for _ in range(LISTENERS):
        await ready.acquire()
    async with Caller(address, token) as caller:
        for number in range(COMMITS):
            sent_at[str(number)] = time.perf_counter()
            await caller.call("PATCH", f"{API}/workspaces/{ids[-1]}", {"memo": f"mark-{number}"})
            for _ in range(LISTENERS):
                await received.acquire()
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    return spans


# The servers


@asynccontextmanager
async def server() -> AsyncIterator[tuple[str, str, list[str]]]:
    """A codehub of its own process: where it is, a token, and ids of the workspaces."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.api", "serve"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        limit=1_000_000,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        started = json.loads(await process.stdout.readline())
        yield started["address"], started["token"], started["ids"]
    finally:
        process.stdin.close()
        await process.wait()


async def serve() -> None:
    """Serve until stdin ends: a workspace takes 0.1 s to make, 0.1 s to start and 0.3 s to be ready."""
    configure_logs(as_json=True)
    async with migrated_database() as connect_args:
        clock = SystemClock()
        api_pool = await open_pool(
            connect_args, DatabaseRole.API, size_min=SERVING_CONNECTIONS, size_max=SERVING_CONNECTIONS
        )
        pool = await open_pool(connect_args, DatabaseRole.CONTROLLER)
        hints = PostgresHints(api_pool, connect_args, DatabaseRole.API, clock=clock)
        sent = PostgresHints(pool, connect_args, DatabaseRole.CONTROLLER, clock=clock)
        world = World(
            PostgresApiStore(api_pool, hints),
            PostgresControllerStore(pool, sent),
            hints,
            PostgresAccess(api_pool),
            PostgresDoors(api_pool),
            PostgresCredentials(api_pool),
        )
        limits = Limits(per_user=1000, total=1000)
        ceilings = replace(BOUNDLESS, streams=LISTENERS)
        async with open_site(world, controlled=True, limits=limits, ceilings=ceilings, boot_s=0.3) as site:
            client = await site.program("bench")
            ids = []
            for number in range(ROWS):
                body = {
                    "name": f"workspace-{number}",
                    "desired_state": "PENDING",
                    "standby_ttl_seconds": None,
                }
                answer = await client.post(f"{API}/workspaces", json=body)
                ids.append(answer.json()["id"])
            format_spans = {"address": site.address, "token": client.headers["Authorization"], "ids": ids}
            print(json.dumps(format_spans), flush=True)
            await asyncio.to_thread(sys.stdin.read)
        await api_pool.close()
        await pool.close()


_HUB = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.JupyterHub.db_url = "sqlite:///{directory}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{directory}/secret"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.log_level = "ERROR"
c.JupyterHub.services = [{{"name": "bench", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{"name": "bench", "scopes": ["admin:users", "list:users"], "services": ["bench"]}}
]
"""


@contextmanager
def hub() -> Iterator[str | None]:
    """A JupyterHub with as many users as there are workspaces, or nothing."""
    home = os.environ.get("CODEHUB_TEST_JUPYTERHUB")
    if home is None:
        yield None
        return
    import socket  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    ports = []
    for _ in range(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="codehub-hub-") as directory:
        config = Path(directory) / "config.py"
        config.write_text(
            _HUB.format(
                port=ports[0], hub_port=ports[1], api_port=ports[2], directory=directory, token=HUB_TOKEN
            )
        )
        process = subprocess.Popen(
            [f"{home}/bin/jupyterhub", "-f", str(config)],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Straight to the hub: its proxy would only add to its time.
        address = f"http://127.0.0.1:{ports[1]}"
        try:
            request = urllib.request.Request(
                f"{address}/hub/api/users",
                json.dumps({"usernames": [f"user-{number}" for number in range(ROWS)]}).encode(),
                {"Authorization": f"token {HUB_TOKEN}"},
            )
            for attempt in range(120):
                try:
                    urllib.request.urlopen(request).read()
                    break
                except OSError:
                    if attempt == 119:
                        raise
                    time.sleep(0.5)
            yield address
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
