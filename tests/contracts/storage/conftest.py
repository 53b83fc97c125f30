"""The storages that the contract is proved on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.docker import DOCKER_SUITE, Docker
from tests.support.kubernetes import KUBERNETES_SUITE, Kubernetes
from tests.support.kubernetes_world import kubernetes_world
from tests.support.storages import Storage, new_home, opened_storage

from codehub.ports.storage import Home, StorageProvider


@pytest.fixture(
    params=[
        "memory",
        "local-dir and file://",
        pytest.param("docker-volume and file://", marks=DOCKER_SUITE),
        pytest.param("k8s-pvc and file://", marks=KUBERNETES_SUITE),
    ]
)
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, docker: Docker, kubernetes: Kubernetes
) -> AsyncIterator[Storage]:
    if request.param == "k8s-pvc and file://":
        async with kubernetes_world(kubernetes(), tmp_path) as in_cluster:
            yield in_cluster
        return
    async with opened_storage(request.param, tmp_path, docker) as opened:
        yield opened


@pytest.fixture
def provider(storage: Storage) -> StorageProvider:
    return storage.provider


@pytest.fixture
def home() -> Home:
    return new_home()
