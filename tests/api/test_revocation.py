"""What is open ends with the key that opened it (security 25): on real sockets, through `codehub up`."""

import base64
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.entering import HandBrowser
from tests.support.light_ide import light_code_server
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, running
from tests.support.site import API

ADMIN = {"username": "admin", "password": "first password"}
PASSWORD = "correct horse"
_UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with light_code_server() as ide, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{ide}:{os.environ['PATH']}")
        data = tmp_path_factory.mktemp("revocation") / "data"
        with running(data, initial_admin_password=ADMIN["password"], ide="code-server") as process:
            yield process


class Way(NamedTuple):
    """Where something opens, and the line of a request that opens it."""

    host: str
    root: str
    line: str


class Key(NamedTuple):
    api: Way
    workspace: Way


class Ann:
    """Somebody with a running workspace, a browser and a program; and an admin."""

    def __init__(self, server: Running, name: str) -> None:
        self.host, self.port = urlsplit(server.address).hostname, urlsplit(server.address).port
        self.admin, self.browser = self._client(server), self._client(server)
        self.admin.post(f"{API}/login", json=ADMIN).raise_for_status()
        body = {"username": name, "password": PASSWORD}
        self.user_id = self.admin.post(f"{API}/users", json=body).json()["id"]
        self.browser.post(f"{API}/login", json=body).raise_for_status()
        token = self.browser.post(f"{API}/tokens", json={"name": "ci", "scope": "write"}).json()["token"]
        workspace = self.browser.post(f"{API}/workspaces", json={"name": "demo"}).json()
        self.workspace_id, mount = workspace["id"], f"/w/{workspace['id']}"
        assert server.get(f"{mount}/", Authorization=f"Bearer {token}").text == "hello"
        hand = HandBrowser.of(server.address, self.browser.cookies)
        assert hand.go(workspace["url"])[1].text == "hello"
        hub, own = urlsplit(server.address).netloc, urlsplit(workspace["url"]).netloc
        session, door = (f"Cookie: {hand.cookies_of(host)}" for host in (hub, own))
        bearer = f"Authorization: Bearer {token}"
        self.keys = {
            "session": Key(Way(hub, API, session), Way(own, "", door)),
            "token": Key(Way(hub, API, bearer), Way(hub, mount, bearer)),
        }

    def _client(self, server: Running) -> httpx.Client:
        return httpx.Client(base_url=server.address, timeout=PATIENCE_S)

    def open(self, way: Way, path: str, status: int, *, upgrades: bool = False) -> socket.socket:
        """Ask for something that goes on, and return it once it has begun."""
        upgrade = _UPGRADE.format(base64.b64encode(os.urandom(16)).decode()) if upgrades else ""
        connection = socket.create_connection((self.host, self.port), PATIENCE_S)
        lines = (f"GET {way.root}{path} HTTP/1.1", f"Host: {way.host}", way.line)
        connection.sendall(("\r\n".join(lines) + f"\r\n{upgrade}\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        assert head.startswith(b"HTTP/1.1 %d " % status), head
        return connection

    def open_everything(self, key: Key) -> dict[str, socket.socket]:
        return {
            "events": self.open(key.api, "/events", 200),
            "logs": self.open(key.api, f"/workspaces/{self.workspace_id}/logs?follow=true", 200),
            "socket": self.open(key.workspace, "/socket", 101, upgrades=True),
        }

    def statuses(self) -> list[int]:
        """What its keys open afterwards: at the API, and at the proxy, which remembers whom it let in."""
        codes = []
        for key in self.keys.values():
            for way, path in ((key.api, "/session"), (key.workspace, "/")):
                name, _, value = way.line.partition(": ")
                answer = httpx.get(
                    f"http://{self.host}:{self.port}{way.root}{path}",
                    headers={"Host": way.host, name: value},
                    timeout=PATIENCE_S,
                )
                codes.append(answer.status_code)
        return codes


def ends(connection: socket.socket, deadline: float) -> bool:
    """Read until it ends. What goes on, saying something or nothing, does not."""
    try:
        while (left_s := deadline - time.monotonic()) > 0:
            connection.settimeout(left_s)
            if not connection.recv(65_536):
                return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return False


def reset(ann: Ann) -> httpx.Response:
    return ann.admin.patch(f"{API}/users/{ann.user_id}", json={"password": "another password"})


def disable(ann: Ann) -> httpx.Response:
    return ann.admin.patch(f"{API}/users/{ann.user_id}", json={"disabled": True})


def end_keys(ann: Ann) -> httpx.Response:
    return ann.admin.delete(f"{API}/users/{ann.user_id}/keys")


@pytest.mark.parametrize("deed", [reset, disable, end_keys], ids=lambda deed: str(deed.__name__))
def test_streams_logs_and_sockets_end_with_the_key_that_opened_them(
    server: Running, deed: Callable[[Ann], httpx.Response]
) -> None:
    ann = Ann(server, f"ann-{deed.__name__}")
    connections_by_key = {name: ann.open_everything(key) for name, key in ann.keys.items()}
    deed(ann).raise_for_status()
    deadline = time.monotonic() + PATIENCE_S
    left = [
        (key, what)
        for key, connections in connections_by_key.items()
        for what, connection in connections.items()
        if not ends(connection, deadline)
    ]
    for connections in connections_by_key.values():
        for connection in connections.values():
            connection.close()
    assert left == []
    assert ann.statuses() == [401] * 4
    ann.browser.close()
    ann.admin.close()
