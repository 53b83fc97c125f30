"""What people read of a workspace, in every place where they do, and wishes that wait for their turn."""

import html
import time
from collections.abc import Mapping
from typing import Any

import httpx
from tests.support.entering import HandBrowser
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, codehub

LIST = "the list"
"""It has the headline of an error alone."""


def faces_of(server: Running, client: httpx.Client, workspace_id: str) -> dict[str, str]:
    """Return what people read of a workspace, by where they do."""
    token = client.post("/tokens", json={"name": "test", "scope": "write"}).json()["token"]
    path = f"/workspaces/{workspace_id}"

    browser = HandBrowser.of(server.address, client.cookies)

    def read(address: str) -> str:
        return html.unescape(browser.go(f"{server.address}{address}")[1].text)

    faces = {
        "the row": client.get(path).text,
        "explain": client.get(f"{path}/explain").text,
        "codehub explain": codehub("explain", workspace_id, url=server.address, token=token).stdout,
        LIST: read("/"),
        "its page": read(path),
        "the page of whoever waits to enter": read(f"/w/{workspace_id}/"),
    }
    return {name: " ".join(face.replace(r"\"", '"').split()) for name, face in faces.items()}


def unsaid(faces: Mapping[str, str], *texts: str) -> dict[str, list[str]]:
    """Return what of these is missing, by where."""
    missing = {name: [text for text in texts if text not in face] for name, face in faces.items()}
    return {name: absent for name, absent in missing.items() if absent}


def until_shown(client: httpx.Client, path: str, field: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while (shown := client.get(path).json())[field] is None:
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
    return shown


def held(client: httpx.Client, path: str) -> Any:
    return until_shown(client, path, "held_up")["held_up"]


def wished(client: httpx.Client, path: str, wish: str) -> httpx.Response:
    """Wish until no try is in flight: meanwhile it is refused."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := client.post(f"{path}:{wish}")).status_code == 409:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)
    return answer
