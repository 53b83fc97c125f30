"""A browser enters a running workspace for the first time, on `codehub up` as it comes: how many redirects
that takes, and how long codehub has them under way. `python -m benchmarks.entering [TIMES]`.
"""

import http.client
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
from tests.support.entering import NAVIGATION, HandBrowser
from tests.support.light_ide import light_code_server
from tests.support.patience import PATIENCE_S, block_until
from tests.support.program import running

API = "/api/v1"
PASSWORD = "correct horse battery"
TIMES = 200
REDIRECTS_MAX = 3
OWN_MS_MAX = 60


@contextmanager
def workspace_running() -> Iterator[tuple[str, str, str]]:
    """Yield the hub, the session of whoever has signed in there, and the address that Open leads to."""
    with tempfile.TemporaryDirectory() as directory, light_code_server() as ide:
        os.environ["PATH"] = f"{ide}:{os.environ['PATH']}"
        settings = {"initial_admin_password": PASSWORD, "limit_requests_per_user": "1000000"}
        with (
            running(Path(directory) / "data", **settings) as server,
            httpx.Client(base_url=f"{server.address}{API}", timeout=PATIENCE_S) as client,
        ):
            client.post("/login", json={"username": "admin", "password": PASSWORD}).raise_for_status()
            made = client.post("/workspaces", json={"name": "demo"}).raise_for_status().json()
            block_until(lambda: client.get(f"/workspaces/{made['id']}").json()["phase"] == "RUNNING")
            yield server.address, client.cookies["codehub_session"], made["url"]


def enter(hub: str, session: str, address: str) -> tuple[list[float], float]:
    """Go there as a browser that has no door yet. Return how long each redirect took, and the page, in ms."""
    browser = HandBrowser({urlsplit(hub).netloc: {"codehub_session": session}})
    took_ms: list[float] = []
    with closing(http.client.HTTPConnection("127.0.0.1", urlsplit(hub).port)) as connection:
        connection.connect()
        while len(took_ms) <= REDIRECTS_MAX:
            parts = urlsplit(address)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            lines = {"Host": parts.netloc, "Cookie": browser.cookies_of(parts.netloc), **NAVIGATION}
            began = time.perf_counter()
            connection.request("GET", target, headers=lines)
            answer = connection.getresponse()
            answer.read()
            took_ms.append(1000 * (time.perf_counter() - began))
            browser.keep(parts.netloc, answer.headers.get_all("Set-Cookie", []))
            if answer.status == http.client.OK:
                return took_ms[:-1], took_ms[-1]
            assert answer.status == http.client.SEE_OTHER, answer.status
            address = urljoin(address, answer.headers["Location"])
    raise AssertionError(f"more than {REDIRECTS_MAX} redirects: {address}")


def measure(times: int) -> None:
    with workspace_running() as (hub, session, address):
        entries = [enter(hub, session, address) for _ in range(times)]
    own_ms = [sum(redirects) for redirects, _ in entries]
    p99 = sorted(own_ms)[int(times * 0.99)]
    print(f"redirects: {max(len(redirects) for redirects, _ in entries)} (limit {REDIRECTS_MAX})")
    own = f"p50 {statistics.median(own_ms):.1f} ms, best {min(own_ms):.1f} ms, p99 {p99:.1f} ms"
    first = f"the very first {own_ms[0]:.1f} ms"
    print(f"codehub's own time for them: {own}, {first} (limit {OWN_MS_MAX} ms at p50, n = {times})")
    print(f"the page behind them: p50 {statistics.median(page for _, page in entries):.1f} ms")


def main() -> None:
    measure(int(sys.argv[1]) if sys.argv[1:] and __name__ == "__main__" else TIMES)


if __name__ == "__main__":
    main()
