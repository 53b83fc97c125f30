"""A seal that somebody removed, as a person meets it: told that the
files are there, adopted through the API, and gone on with.
"""

from typing import Any
from uuid import UUID

import httpx
from tests.support.docker import DOCKER, TestEngine
from tests.support.hands import arrives, signed_in
from tests.support.patience import block_until
from tests.support.program import Running

from codehub.adapters.docker.containers import VOLUME
from codehub.adapters.docker.volumes import home_name, seal_name

pytestmark = DOCKER


def test_a_home_whose_seal_was_removed_is_told_to_be_there_and_adopted(
    server: Running, engine: TestEngine
) -> None:
    with signed_in(server) as client:
        made = client.post("/workspaces", json={"name": "sealed"}).json()
        path, home = f"/workspaces/{made['id']}", home_name(UUID(made["id"]))
        arrives(client, path, "RUNNING")
        (engine.path_of(home) / "notes").write_text("kept")
        assert client.post(f"{path}:stop").status_code == 200
        arrives(client, path, "STANDBY")
        volume_id = engine.ask("GET", f"volumes/{home}")["Labels"][VOLUME]
        engine.ask("DELETE", f"volumes/{seal_name(UUID(made['id']), volume_id)}")

        lost = block_until(lambda: in_error(client, path))
        assert lost["error"]["reason"] == "DataLost"
        assert "is there with its files" in lost["error"]["message"]
        assert lost["conditions"]["storage.volume_ready"]["reason"] == "Unidentified"
        actions = client.get(f"{path}/explain").json()["actions"]
        assert f"/api/v1{path}:recover?adopt=true" in [action["path"] for action in actions]

        assert client.post(f"{path}:recover", json={"adopt": True}).status_code == 200
        block_until(lambda: client.get(path).json()["phase"] == "STANDBY")
        assert client.post(f"{path}:archive").status_code == 200
        arrives(client, path, "ARCHIVED")
        assert client.post(f"{path}:start").status_code == 200
        arrives(client, path, "RUNNING")
        assert (engine.path_of(home) / "notes").read_text() == "kept"


def in_error(client: httpx.Client, path: str) -> Any:
    shown = client.get(path).json()
    return shown if shown["phase"] == "ERROR" else None
