"""The edge: the proxy on the public port, with what it asks wired to the stores and the platform."""

import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.local.peers import LoopbackPeers
from codehub.adapters.system.machine import SystemTasks
from codehub.app.control import make_service
from codehub.app.database import ApiStores
from codehub.core.access import written_origin
from codehub.core.ides import ide_profile
from codehub.core.progress import Progress
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.instances import InstanceController, TcpUpstream, UnixUpstream, Upstream
from codehub.ports.store import ApiStore, LoadedWorkspaces
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import AddressOf
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.engine.targets import Target
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.answers import EngineAnswers
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.header_rules import header_rules
from codehub.proxy.policy.route_cache import RouteCache
from codehub.settings import Settings

_UNIX = "unix://"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class StoredWorkspaces:
    """Rows from the store, as the API may read them; addresses from what the instances' backend sees now."""

    def __init__(self, store: ApiStore, instances: Mapping[InstanceBackend, InstanceController]) -> None:
        self._store = store
        self._instances = instances

    async def look(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        return await self._store.load(workspace_ids)

    async def upstream(self, workspace: Workspace) -> Upstream | None:
        instances = self._instances.get(workspace.spec.instance_backend)
        return None if instances is None else await instances.resolve_upstream(workspace.id)

    async def progress(self, workspace_id: UUID) -> Progress | None:
        return (await self._store.progress([workspace_id])).get(workspace_id)


@asynccontextmanager
async def edge(
    settings: Settings,
    listener: socket.socket,
    api: Upstream,
    all_stores: ApiStores,
    backends: Platforms,
    system: System,
) -> AsyncIterator[Edge]:
    """Serve the public port until the end; then what was used is recorded, and every connection is closed."""
    system = replace(system, tasks=SystemTasks())
    clock, tasks = system.clock, system.tasks
    workspace_locator = StoredWorkspaces(all_stores.api, backends.instances)
    service = make_service(settings, all_stores)
    time, connections = DatabaseTime(), set[ClientConnection]()
    activity = Activity(
        service, all_stores.credentials, time, clock=clock, flush_s=settings.activity_flush_seconds
    )
    route_cache = RouteCache(
        all_stores.credentials,
        workspace_locator,
        all_stores.api_hints,
        all_stores.people_hints,
        clock=clock,
        tasks=tasks,
        keeps_prefix=lambda ide: ide_profile(ide).keeps_prefix,
        monitor_of=activity.monitor,
        forget_monitor=activity.forget,
        targets_in_use=partial(targets_in_use, connections),
        time=time,
    )
    proto = urlsplit(settings.base_url).scheme
    rules = GateRules(
        own_origins(settings, listener.getsockname()[1]),
        is_secure=proto == "https",
        wake_archived=settings.wake_archived,
        wake_wait_s=settings.wake_wait_seconds,
    )
    gate = WorkspaceGate(
        route_cache, workspace_locator, service, Target(api), rules, clock=clock, tasks=tasks
    )
    public_port = Edge(
        gate,
        rules=header_rules(secure=rules.is_secure),
        answers=EngineAnswers(),
        clock=clock,
        tasks=tasks,
        randomness=system.randomness,
        proto=proto.encode(),
        trusted_proxies=settings.proxies,
        address_of=_address_of(all_stores, backends),
        connections=connections,
    )
    try:
        async with public_port.serving(listener):
            tasks.spawn(route_cache.run(), name="route-cache")
            tasks.spawn(activity.run(), name="activity")
            yield public_port
    finally:
        await tasks.cancel_all()


def _address_of(all_stores: ApiStores, backends: Platforms) -> AddressOf:
    """Return a function that recognises workspaces which share this machine's network and its loopback."""
    local = backends.instances.get(InstanceBackend.LOCAL_PROCESS)
    if isinstance(local, LocalInstances) and local.shares_network:
        return LoopbackPeers(all_stores.installation).address_of
    return lambda _peer, _ours: None


def upstream_of(url: str) -> Upstream:
    """Return where an API listens: unix:///path or http://host:port."""
    if url.startswith(_UNIX):
        return UnixUpstream(Path(url.removeprefix(_UNIX)))
    parts = urlsplit(url)
    assert parts.hostname is not None
    return TcpUpstream(parts.hostname, parts.port or 80)


def own_origins(settings: Settings, port: int) -> frozenset[str]:
    """Return the origins that are ours: the public one, else this port under this machine's own names."""
    if settings.public_base_url is not None:
        return frozenset({settings.public_base_url})
    return frozenset(written_origin("http", host, port) for host in (settings.host, *_LOOPBACK))
