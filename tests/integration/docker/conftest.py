"""Worlds on a real Docker engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.docker import Docker
from tests.support.docker_world import DockerWorld, docker_world
from tests.support.storages import OnDocker, docker_storage


@pytest.fixture
async def world(docker: Docker) -> AsyncIterator[DockerWorld]:
    async with docker_world(await docker()) as made:
        yield made


@pytest.fixture
async def storage(docker: Docker, tmp_path: Path) -> AsyncIterator[OnDocker]:
    async with docker_storage(await docker(), tmp_path) as made:
        yield made
