"""With curl alone, as wire.md says: somebody who has nothing else, and the whole circle as they go it."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.program import Running

CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl (apt-get install curl)")


class Curl:
    def __init__(self, server: Running, jar: Path) -> None:
        self._server = server
        self._jar = jar

    def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        jar = str(self._jar)
        command = ["curl", "-sS", "-X", method, "-b", jar, "-c", jar, "-w", "\n%{http_code}"]
        if body is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        run = subprocess.run(
            [*command, f"{self._server.address}/api/v1{path}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        text, _, status = run.stdout.rpartition("\n")
        return int(status), json.loads(text) if text.startswith("{") else text

    def arrives(self, path: str, phase: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status, shown = self("GET", path)
            if phase == "DELETED" and status == 404:
                return shown
            assert status == 200, shown
            assert shown["error"] is None or not shown["error"]["is_terminal"], shown["error"]
            if shown["phase"] == phase and shown["operation"] == "NONE":
                return shown
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


def go_round(curl: Curl) -> None:
    """Sign in, make a workspace, and let it run, stop, be
    archived, run again, be deleted, taken back and purged.
    """
    assert curl("GET", "/session")[0] == 401
    assert curl("POST", "/login", {"username": "admin", "password": "correct horse"})[0] == 200
    status, made = curl("POST", "/workspaces", {"name": "circle"})
    assert (status, made["desired_state"]) == (201, "RUNNING")
    path = f"/workspaces/{made['id']}"
    running_now = curl.arrives(path, "RUNNING")
    assert running_now["sleeps_at"] is not None
    status, logs = curl("GET", f"{path}/logs?tail=5")
    assert (status, bool(logs)) == (200, True)
    assert curl("POST", f"{path}:keep_awake", {"seconds": 600})[0] == 200
    assert curl("POST", f"{path}:stop")[0] == 200
    curl.arrives(path, "STANDBY")
    assert curl("POST", f"{path}:archive")[0] == 200
    archived = curl.arrives(path, "ARCHIVED")
    assert archived["archive_key"].startswith(made["id"])
    assert curl("POST", f"{path}:start")[0] == 200
    curl.arrives(path, "RUNNING")
    assert curl("DELETE", path)[0] == 202
    curl.arrives(path, "DELETED")
    assert [workspace["id"] for workspace in curl("GET", "/workspaces?deleted=true")[1]["items"]] == [
        made["id"]
    ]
    assert curl("POST", f"{path}:undelete")[0] == 200
    curl.arrives(path, "ARCHIVED")
    assert curl("GET", f"{path}/explain")[1]["waiting_for"] is None
    kinds = {event["kind"] for event in curl("GET", f"{path}/events?limit=200")[1]["items"]}
    assert kinds == {"wish", "operation", "phase", "deletion"}
    assert curl("DELETE", f"{path}?purge=true")[0] == 202
    curl.arrives(path, "DELETED")
    assert curl("POST", f"{path}:undelete")[0] == 404
    assert curl("POST", "/logout")[0] == 204
    assert curl("GET", "/session")[0] == 401
