"""Every pair of backends that can be set, as a person gets it: made by POST,
written in, archived, started again, and the files are there.
"""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.docker import DOCKER_SUITE, Docker, TestEngine
from tests.support.hands import PASSWORD, arrives, running_on, signed_in
from tests.support.kubernetes import KUBERNETES_SUITE, Kubernetes
from tests.support.kubernetes_world import NAMESPACE, home_on_node, running_in_cluster
from tests.support.program import Running, running

from codehub.adapters.docker.volumes import home_name
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.settings import storages_for

MARKS = {
    InstanceBackend.LOCAL_PROCESS: (),
    InstanceBackend.LOCAL_DOCKER: DOCKER_SUITE,
    InstanceBackend.K8S: KUBERNETES_SUITE,
}
PAIRS = [
    pytest.param(instance, storage, marks=marks)
    for instance, marks in MARKS.items()
    for storage in storages_for(instance)
]


def test_no_backend_is_left_out() -> None:
    assert set(InstanceBackend) == set(MARKS)


@pytest.fixture
async def engine(docker: Docker, instance: InstanceBackend) -> TestEngine | None:
    return await docker() if instance is InstanceBackend.LOCAL_DOCKER else None


@pytest.fixture
def cluster(kubernetes: Kubernetes, instance: InstanceBackend) -> TestCluster | None:
    return kubernetes() if instance is InstanceBackend.K8S else None


@pytest.fixture
def server(
    engine: TestEngine | None, cluster: TestCluster | None, storage: StorageBackend, tmp_path: Path
) -> Iterator[Running]:
    data = tmp_path / "data"
    if cluster is not None:
        with running_in_cluster(cluster, data, storage_backend=storage) as started:
            yield started
        return
    if engine is not None:
        with running_on(engine, data, storage_backend=storage) as started:
            yield started
        return
    with running(data, initial_admin_password=PASSWORD, storage_backend=storage, ide="jupyterlab") as started:
        yield started


@pytest.mark.parametrize(("instance", "storage"), PAIRS)
def test_a_workspace_made_through_the_api_comes_back_from_its_archive(
    server: Running,
    engine: TestEngine | None,
    cluster: TestCluster | None,
    storage: StorageBackend,
    tmp_path: Path,
) -> None:
    def home_of(workspace_id: str) -> Path:
        if cluster is not None:
            return home_on_node(cluster, NAMESPACE, UUID(workspace_id))
        return home_in(tmp_path / "data", engine, storage, workspace_id)

    with signed_in(server) as client:
        made = client.post("/workspaces", json={"name": "pair"})
        assert (made.status_code, made.json()["storage_backend"]) == (201, storage)
        workspace_id = made.json()["id"]
        path = f"/workspaces/{workspace_id}"
        arrives(client, path, "RUNNING")
        (home_of(workspace_id) / "notes").write_text("kept")
        assert client.post(f"{path}:archive").status_code == 200
        arrives(client, path, "ARCHIVED")
        assert client.post(f"{path}:start").status_code == 200
        arrives(client, path, "RUNNING")
        assert (home_of(workspace_id) / "notes").read_text() == "kept"


def home_in(data: Path, engine: TestEngine | None, storage: StorageBackend, workspace_id: str) -> Path:
    """Return where its files are, found as an operator would."""
    if engine is not None and storage is not StorageBackend.LOCAL_DIR:
        return engine.path_of(home_name(UUID(workspace_id)))
    (home,) = data.glob(f"users/*/workspaces/{workspace_id}/home")
    return home
