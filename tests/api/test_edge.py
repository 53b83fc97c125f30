"""`codehub up` through its edge: the API knows who asks, and a workspace opens to its owner alone."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from tests.support.entering import HandBrowser
from tests.support.patience import PATIENCE_S
from tests.support.program import running

from codehub.app.server import make_listener

API = "/api/v1"
PASSWORD = "correct horse battery"


def login(client: httpx.Client, username: str, password: str = PASSWORD, **headers: str) -> int:
    body = {"username": username, "password": password}
    return client.post(f"{API}/login", json=body, headers=headers).status_code


@pytest.mark.parametrize(("proxies", "is_believed"), [("", False), ("127.0.0.0/8", True)])
def test_the_api_behind_the_edge_knows_who_really_asks(
    tmp_path: Path, proxies: str, is_believed: bool
) -> None:
    with (
        running(
            tmp_path / "data", trusted_proxies=proxies, metrics_token="who-watches-this-codehub"
        ) as server,
        httpx.Client(base_url=server.address, timeout=PATIENCE_S) as client,
    ):
        assert client.get("/metrics").status_code == 401
        watches = {"Authorization": "Bearer who-watches-this-codehub"}
        assert client.get("/metrics", headers=watches).status_code == 200
        # Each wait is twice as long as the one before: whatever a try takes, one of these comes too soon.
        codes = [login(client, "admin", "wrong", **{"X-Forwarded-For": f"203.0.113.{n}"}) for n in range(15)]
        assert set(codes) == ({401} if is_believed else {401, 429})
        assert codes[:5] == [401] * 5
        answer = client.get("/healthz", headers={"X-Request-Id": "one-id"})
        assert answer.headers.get_list("x-request-id") == ["one-id"]


def test_events_arrive_at_once_through_the_edge_and_end_with_the_session(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", initial_admin_password=PASSWORD) as server,
        httpx.Client(base_url=server.address, timeout=PATIENCE_S) as admin,
    ):
        assert login(admin, "admin") == 200
        with admin.stream("GET", f"{API}/events", timeout=PATIENCE_S) as stream:
            lines = stream.iter_lines()
            assert "event: heartbeat" in [next(lines), next(lines)]
            workspace = admin.post(f"{API}/workspaces", json={"name": "demo", "desired_state": "PENDING"})
            assert workspace.status_code == 201
            assert any(line.startswith("event: workspace_") for line in lines)
            assert admin.post(f"{API}/logout").status_code == 204
            with suppress(httpx.RemoteProtocolError):
                assert "event: heartbeat" not in lines, "the stream outlived its session"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_workspace_opens_to_its_owner_alone_until_they_sign_out(tmp_path: Path, workers: str) -> None:
    with (
        running(tmp_path / "data", proxy_workers=workers, initial_admin_password=PASSWORD) as server,
        httpx.Client(base_url=server.address, timeout=PATIENCE_S) as admin,
        httpx.Client(base_url=server.address, timeout=PATIENCE_S) as ann,
    ):
        assert login(admin, "admin") == 200
        body = {"username": "ann", "password": PASSWORD, "role": "member"}
        assert admin.post(f"{API}/users", json=body).status_code == 201
        assert login(ann, "ann") == 200
        workspace = ann.post(f"{API}/workspaces", json={"name": "demo"}).json()
        inside = f"/w/{workspace['id']}/api/status"
        own = f"{workspace['url'].rstrip('/')}{inside}"
        token = ann.post(f"{API}/tokens", json={"name": "ci", "scope": "write"}).json()
        bearer = {"Authorization": f"Bearer {token['token']}"}
        assert "kernels" in server.get(inside, **bearer).json()
        browser = HandBrowser.of(server.address, ann.cookies)
        for address in (own, server.address + inside):
            where, shown = browser.go(address)
            assert (where, "kernels" in shown.json()) == (own, True)
        assert HandBrowser.of(server.address, admin.cookies).go(own)[1].status_code == 403
        assert HandBrowser().go(own)[0].startswith(f"{server.address}/login?")
        assert server.get(inside).status_code == HandBrowser().ask("GET", own).status_code == 401
        assert ann.get(inside).status_code == 403, "a session opens nothing below the dashboard's own origin"
        assert ann.delete(f"{API}/tokens/{token['id']}").status_code == 204
        refused(lambda: server.get(inside, **bearer))
        assert ann.post(f"{API}/logout").status_code == 204
        refused(lambda: browser.ask("GET", own))


def refused(visit: Callable[[], httpx.Response]) -> None:
    """Wait until every process of the edge has heard that this opens nothing any more."""
    limit = time.monotonic() + PATIENCE_S
    refusals = 0
    while refusals < 5:
        assert time.monotonic() < limit
        refusals = refusals + 1 if visit().status_code == 401 else 0


def test_a_stream_whose_client_vanished_ends_though_nothing_is_sent() -> None:
    """A silent tunnel's other end may be gone without a word: the kernel asks."""
    with make_listener("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 120
