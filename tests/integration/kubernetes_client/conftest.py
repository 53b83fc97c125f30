"""An API server that does as it is told, and a client of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.kubernetes_client.test_contents import LABELS, version_of
from tests.integration.kubernetes_client.watch_server import SILENCE_S, Server
from tests.support.kubernetes_api import Authority, HostileApi

from codehub.adapters.kubernetes.access import Access
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.kubeconfig import ClusterSettings
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.system.machine import SystemClock


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    authority.make()
    return authority


@pytest.fixture
async def api(authority: Authority) -> AsyncIterator[HostileApi]:
    api = HostileApi()
    async with await asyncio.start_server(
        api.serve, "127.0.0.1", 0, ssl=authority.server_context()
    ) as server:
        api.port = server.sockets[0].getsockname()[1]
        yield api


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


class ShortClock(SystemClock):
    """A clock whose waits take no time, and are noted."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ShortClock:
    return ShortClock()


@pytest.fixture
async def client(
    api: HostileApi, authority: Authority, token_file: Path, clock: ShortClock
) -> AsyncIterator[KubernetesClient]:
    settings = ClusterSettings(
        f"https://127.0.0.1:{api.port}", authority=authority.certificate, token=token_file
    )
    client = KubernetesClient(Access(settings, clock=clock), namespace="spaces", clock=clock)
    yield client
    await client.close()


@pytest.fixture
def server(api: HostileApi) -> Server:
    return Server(api)


@pytest.fixture
async def cache(
    server: Server,  # noqa: ARG001  # it is what answers
    client: KubernetesClient,
    clock: ShortClock,
) -> AsyncIterator[WatchCache[int]]:
    cache = WatchCache(client, PODS, labels=LABELS, project=version_of, clock=clock, silence_s_max=SILENCE_S)
    cache.open()
    yield cache
    await cache.close()
