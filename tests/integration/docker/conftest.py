"""Worlds on a real Docker engine, and the program on one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.docker import Docker, TestEngine
from tests.support.docker_world import DockerWorld, docker_world
from tests.support.hands import running_on
from tests.support.program import Running
from tests.support.storages import OnDocker, docker_storage


@pytest.fixture
async def engine(docker: Docker) -> TestEngine:
    return await docker()


@pytest.fixture
def server(engine: TestEngine, tmp_path: Path) -> Iterator[Running]:
    with running_on(engine, tmp_path / "data", idle_period_seconds="1") as started:
        yield started


@pytest.fixture
async def world(docker: Docker) -> AsyncIterator[DockerWorld]:
    async with docker_world(await docker()) as made:
        yield made


@pytest.fixture
async def storage(docker: Docker, tmp_path: Path) -> AsyncIterator[OnDocker]:
    async with docker_storage(await docker(), tmp_path) as made:
        yield made
