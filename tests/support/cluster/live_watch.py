"""A cache that watches config maps of a test's own on a real cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.support.cluster.cluster import TestCluster
from tests.support.kubernetes_world import NAMESPACE, prepare_namespace
from tests.support.patience import until

from codehub.adapters.kubernetes.access import from_kubeconfig
from codehub.adapters.kubernetes.client import EventStream, KubernetesClient, Labels
from codehub.adapters.kubernetes.kinds import CONFIG_MAPS, Kind
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.system.machine import SystemClock
from codehub.ports.backends import BackendUnreachable

_LABEL = "test.codehub.dev/watch"


class HeldClock(SystemClock):
    """A clock by which nothing is tried again before a test lets it."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.is_waited_for = False

    async def sleep(self, seconds: float) -> None:
        self.is_waited_for = not self.go_on.is_set()
        await self.go_on.wait()
        self.is_waited_for = False
        await super().sleep(seconds)


class CountingClient(KubernetesClient):
    """A client that notes how often it has begun to watch."""

    watches = 0

    @asynccontextmanager
    async def watch(self, kind: Kind, *, labels: Labels, since: int | None) -> AsyncIterator[EventStream]:
        self.watches += 1
        async with super().watch(kind, labels=labels, since=since) as stream:
            yield stream


@dataclass
class Watched:
    """Config maps of a test's own, made as the cluster's administrator, and a cache of them."""

    cluster: TestCluster
    label: str
    clock: HeldClock
    client: CountingClient
    cache: WatchCache[str]

    def make(self, name: str) -> None:
        metadata = {"name": f"{self.label}-{name}", "namespace": NAMESPACE, "labels": {_LABEL: self.label}}
        self.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})

    async def names(self) -> set[str]:
        return {name.removeprefix(f"{self.label}-") for name in await self.cache.objects()}

    async def become(self, *names: str) -> None:
        async def hold() -> bool:
            return await _or_blind(self.names) == {*names}

        await until(hold)

    async def is_blind(self) -> bool:
        return await _or_blind(self.names) is None


async def _or_blind(look: Callable[[], Awaitable[set[str]]]) -> set[str] | None:
    try:
        return await look()
    except BackendUnreachable:
        return None


@asynccontextmanager
async def watching(cluster: TestCluster, **options: Any) -> AsyncIterator[Watched]:
    clock, label = HeldClock(), f"watch-{uuid4().hex[:8]}"
    access = from_kubeconfig(prepare_namespace(cluster, NAMESPACE), clock=clock)
    client = CountingClient(access, namespace=NAMESPACE, clock=clock)
    cache = WatchCache(
        client,
        CONFIG_MAPS,
        labels={_LABEL: label},
        project=lambda item: str(item["metadata"]["uid"]),
        clock=clock,
        **options,
    )
    cache.open()
    try:
        watched = Watched(cluster, label, clock, client, cache)
        watched.make("first")
        await watched.become("first")
        yield watched
    finally:
        await cache.close()
        await client.close()
        cluster.ask("DELETE", CONFIG_MAPS.path(NAMESPACE), labelSelector=f"{_LABEL}={label}")
