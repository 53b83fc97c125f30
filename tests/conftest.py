"""What every suite may ask for: PostgreSQL servers, each started once per test process and only if asked
for.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest
from hypothesis import settings
from tests.support.cluster.cluster import TestCluster
from tests.support.docker import Docker, TestEngine, lent_engine
from tests.support.kubernetes import Kubernetes, lent_cluster
from tests.support.postgres import NEEDS_DEBIAN_15, TestServer, running_server
from tests.support.stores import PostgresWorld

pytest_plugins = ["tests.support.markers", "tests.support.second_try"]

# What is generated is the same in every run: a change is judged
# by what it changed. `make fuzz` throws other dice.
settings.register_profile("suites", derandomize="CODEHUB_TEST_EXAMPLES" not in os.environ)
settings.load_profile("suites")

Servers = Callable[[str], Awaitable[TestServer]]
Worlds = Callable[[str], Awaitable[PostgresWorld]]

ON_15 = pytest.param("postgres-15", marks=NEEDS_DEBIAN_15)
POSTGRES = ("postgres-18", ON_15)


@pytest.fixture(scope="session")
async def servers() -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        running: dict[str, TestServer] = {}

        async def start(version: str) -> TestServer:
            if version not in running:
                running[version] = await stack.enter_async_context(running_server(version))
            return running[version]

        yield start


@pytest.fixture(scope="session")
async def worlds(servers: Servers) -> AsyncIterator[Worlds]:
    """A database with open stores per version. Whoever uses it cleans it first."""
    async with AsyncExitStack() as stack:
        opened: dict[str, PostgresWorld] = {}

        async def open_world(version: str) -> PostgresWorld:
            if version not in opened:
                server = await servers(version)
                opened[version] = await stack.enter_async_context(PostgresWorld.opened(server))
            return opened[version]

        yield open_world


@pytest.fixture(params=POSTGRES)
async def server(request: pytest.FixtureRequest, servers: Servers) -> TestServer:
    """Each PostgreSQL that is promised."""
    return await servers(request.param)


@pytest.fixture(params=POSTGRES)
async def postgres(request: pytest.FixtureRequest, worlds: Worlds) -> PostgresWorld:
    """The stores on each PostgreSQL that is promised, with nothing in them but one user."""
    world = await worlds(request.param)
    await world.clean()
    return world


@pytest.fixture(scope="session")
async def docker() -> AsyncIterator[Docker]:
    """A Docker engine with the test images, started when it is first asked for."""
    async with AsyncExitStack() as stack:
        running: list[TestEngine] = []

        async def lend() -> TestEngine:
            if not running:
                running.append(await stack.enter_async_context(lent_engine()))
            return running[0]

        yield lend


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Kubernetes]:
    """A cluster with the test images, started when it is first asked for."""
    with ExitStack() as stack:
        running: list[TestCluster] = []

        def lend() -> TestCluster:
            if not running:
                running.append(stack.enter_context(lent_cluster()))
            return running[0]

        yield lend
