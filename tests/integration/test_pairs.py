"""Every pair of backends that can be set, as a person gets it: made by POST, written in, archived, started again, and the files are there."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from tests.support.docker import BASE, DOCKER, LIGHT, Docker, TestEngine
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, running
from tests.support.s3 import told

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.objectstore.store import MARK
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.settings import fitting_homes

PASSWORD = "correct horse"
WORDS = {
    InstanceBackend.LOCAL_PROCESS: {"ide": "jupyterlab"},
    InstanceBackend.LOCAL_DOCKER: {"ide": "http", "workspace_image": LIGHT, "helper_image": BASE},
}
PAIRS = [
    pytest.param(instance, storage, marks=DOCKER if instance is InstanceBackend.LOCAL_DOCKER else [])
    for instance in WORDS
    for storage in fitting_homes(instance)
]


def test_only_backends_that_are_not_there_yet_are_left_out() -> None:
    assert set(InstanceBackend) - set(WORDS) == {InstanceBackend.K8S}


@pytest.fixture
async def engine(docker: Docker, instance: InstanceBackend) -> TestEngine | None:
    return await docker() if instance is InstanceBackend.LOCAL_DOCKER else None


@pytest.fixture
def server(
    engine: TestEngine | None, instance: InstanceBackend, storage: StorageBackend, tmp_path: Path
) -> Iterator[Running]:
    with ExitStack() as stack:
        if engine is not None:
            stack.enter_context(told({"DOCKER_HOST": engine.url}))
            stack.callback(remove_made_by, tmp_path, engine)
        yield stack.enter_context(
            running(
                tmp_path / "data",
                initial_admin_password=PASSWORD,
                instance_backend=instance,
                storage_backend=storage,
                **WORDS[instance],
            )
        )


def remove_made_by(place: Path, engine: TestEngine) -> None:
    """Remove from the engine what this test's installation has: the mark of its archives names it."""
    mark = place / "data" / "archives" / MARK
    if mark.exists():
        engine.remove_labelled(mark.read_text().strip())


@pytest.mark.parametrize(("instance", "storage"), PAIRS)
def test_a_workspace_made_through_the_api_comes_back_from_its_archive(
    server: Running, engine: TestEngine | None, storage: StorageBackend, tmp_path: Path
) -> None:
    with httpx.Client(base_url=f"{server.address}/api/v1", timeout=PATIENCE_S) as client:
        signed_in = client.post("/login", json={"username": "admin", "password": PASSWORD})
        assert signed_in.status_code == 200
        made = client.post("/workspaces", json={"name": "pair"})
        assert (made.status_code, made.json()["storage_backend"]) == (201, storage)
        workspace_id = made.json()["id"]
        path = f"/workspaces/{workspace_id}"
        arrives(client, path, "RUNNING")
        (home_in(tmp_path / "data", engine, storage, workspace_id) / "notes").write_text("kept")
        assert client.post(f"{path}:archive").status_code == 200
        arrives(client, path, "ARCHIVED")
        assert client.post(f"{path}:start").status_code == 200
        arrives(client, path, "RUNNING")
        home = home_in(tmp_path / "data", engine, storage, workspace_id)
        assert (home / "notes").read_text() == "kept"


def arrives(client: httpx.Client, path: str, phase: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = client.get(path).json()
        assert shown["error"] is None or not shown["error"]["is_terminal"], shown["error"]
        if (shown["phase"], shown["operation"]) == (phase, "NONE"):
            return
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)


def home_in(data: Path, engine: TestEngine | None, storage: StorageBackend, workspace_id: str) -> Path:
    """Return where its files are, found as an operator would."""
    if engine is not None and storage is not StorageBackend.LOCAL_DIR:
        return engine.path_of(home_name(UUID(workspace_id)))
    (found,) = data.glob(f"users/*/workspaces/{workspace_id}/home")
    return found
