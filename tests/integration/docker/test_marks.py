"""The engine's mark removed behind codehub's back, as `docker volume
prune` may do: everybody is told, and one command makes it good.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from tests.support.docker import DOCKER, TestEngine
from tests.support.hands import arrives, signed_in
from tests.support.patience import block_until
from tests.support.program import Running, codehub

from codehub.adapters.objectstore.store import MARK

pytestmark = DOCKER


def test_a_mark_that_was_pruned_is_told_by_all_lights_and_made_again_by_a_command(
    server: Running, engine: TestEngine, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    mark = f"codehub-{(data / 'archives' / MARK).read_text().strip()}"
    with signed_in(server) as client:
        asleep, archived = (
            made(client, name, wish) for name, wish in (("asleep", "STANDBY"), ("put-away", "ARCHIVED"))
        )
        engine.ask("DELETE", f"volumes/{mark}")

        assert mark in block_until(lambda: readiness(server, 503))["checks"]["docker-volume"]
        waiting_for = block_until(lambda: waits_for(client, asleep, "codehub adopt-engine"))
        assert mark in waiting_for
        (finding,) = [
            part for part in json.loads(beside(data, "doctor", "--json").stdout) if part["part"] == "docker"
        ]
        assert (finding["verdict"], mark in finding["found"]) == ("broken", True)

        asked = beside(data, "adopt-engine")
        assert (asked.returncode, engine.find(f"volumes/{mark}") is None) == (2, True)
        assert "The database knows of 1 homes there. Here now: 1." in asked.stderr
        assert "Nothing is deleted." in asked.stderr
        assert "made again" in beside(data, "adopt-engine", "--yes").stdout
        assert "nothing to do" in beside(data, "adopt-engine").stdout

        block_until(lambda: readiness(server, 200))
        for path in (asleep, archived):
            block_until(partial(is_started, client, path))
            arrives(client, path, "RUNNING")


def is_started(client: httpx.Client, path: str) -> bool:
    return client.post(f"{path}:start").status_code == 200


def made(client: httpx.Client, name: str, wish: str) -> str:
    answer = client.post("/workspaces", json={"name": name, "desired_state": wish})
    assert answer.status_code == 201, answer.text
    path = f"/workspaces/{answer.json()['id']}"
    arrives(client, path, wish)
    return path


def readiness(server: Running, status: int) -> Any:
    answer = server.get("/readyz")
    return answer.json() if answer.status_code == status else None


def waits_for(client: httpx.Client, path: str, text: str) -> Any:
    waiting_for = client.get(f"{path}/explain").json()["waiting_for"]
    return waiting_for if waiting_for is not None and text in waiting_for else None


def beside(data: Path, *arguments: str) -> Any:
    return codehub(*arguments, data_dir=str(data), instance_backend="local-docker")
