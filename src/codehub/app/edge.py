"""The edge: the proxy on the public port, with what it asks wired to the stores and the platform."""

import socket
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.local.peers import LoopbackPeers
from codehub.adapters.port_address import PortAddress
from codehub.adapters.system.machine import SystemTasks
from codehub.app.control import make_service
from codehub.app.database import ApiStores
from codehub.app.drain import Drain
from codehub.core.access import written_origin
from codehub.core.ides import ide_profile
from codehub.core.progress import Progress
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.instances import InstanceController, TcpUpstream, UnixUpstream, Upstream
from codehub.ports.store import ApiStore, LoadedWorkspaces
from codehub.ports.system import Tasks
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import AddressOf
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.answers import EngineAnswers
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entering import Entering
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.header_rules import header_rules
from codehub.proxy.policy.port_ways import PortWays
from codehub.proxy.policy.route_cache import RouteCache
from codehub.proxy.policy.tab import Count, TabInserter
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


@dataclass(frozen=True, slots=True)
class PublicPort:
    """The public port while it is served."""

    listener: socket.socket
    edge: Edge
    gate: WorkspaceGate

    async def leave(self, drain: Drain) -> None:
        """Serve on until balancers know, then take nobody new and end what is under way."""
        self.gate.is_leaving = self.edge.is_leaving = True
        await self.edge.clock.sleep(drain.notice_s)
        self.listener.close()
        await self.edge.drain(drain.rest_s)


@asynccontextmanager
async def edge(
    settings: Settings,
    listener: socket.socket,
    apis: Sequence[Upstream],
    all_stores: ApiStores,
    backends: Backends,
    system: System,
    count_page: Count = lambda _outcome: None,
) -> AsyncIterator[PublicPort]:
    """Serve the public port until the end; then what was used is recorded, and every connection is closed.

    `count_page` is told what became of each page of an IDE (policy/tab.py).
    """
    system = replace(system, tasks=SystemTasks())
    clock, tasks = system.clock, system.tasks
    workspace_locator = StoredWorkspaces(all_stores.api, backends.instances)
    service = make_service(settings, all_stores)
    time, connections = DatabaseTime(), set[ClientConnection]()
    activity = Activity(
        service, all_stores.credentials, time, clock=clock, flush_s=settings.activity_flush_seconds
    )
    origins = settings.workspace_origins
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
        inserter_of=lambda row: TabInserter(row, count_page) if settings.tab_script else None,
        targets_in_use=partial(targets_in_use, connections),
        time=time,
        workspace_of=all_stores.doors.workspace_of,
        ports=None
        if origins is None
        else PortWays(
            all_stores.ports,
            settings.ports_ceiling,
            partial(_port_address, backends, tasks),
            activity.port_monitor,
        ),
    )
    proto = urlsplit(settings.base_url).scheme
    rules = GateRules(
        own_origins(settings, listener.getsockname()[1]),
        is_secure=proto == "https",
        wake_archived=settings.wake_archived,
        wake_wait_s=settings.wake_wait_seconds,
        sleep_warning_s=settings.sleep_warning_seconds,
    )
    api_targets = ApiTargets(apis, clock)
    entering = None
    if origins is not None:
        entering = Entering(all_stores.doors, origins, settings.base_url, randomness=system.randomness)
    gate = WorkspaceGate(
        route_cache,
        workspace_locator,
        service,
        api_targets,
        rules,
        clock=clock,
        tasks=tasks,
        entering=entering,
    )
    served = Edge(
        gate,
        rules=header_rules(secure=rules.is_secure, origins=origins),
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
        async with served.serving(listener):
            tasks.spawn(route_cache.run(), name="route-cache")
            tasks.spawn(activity.run(), name="activity")
            yield PublicPort(listener, served, gate)
    finally:
        await tasks.cancel_all()


def _port_address(backends: Backends, tasks: Tasks, workspace: Workspace, port: int) -> PortAddress | None:
    access = backends.accesses.get(workspace.spec.instance_backend)
    return None if access is None else PortAddress(access, workspace.id, port, tasks)


def _address_of(all_stores: ApiStores, backends: Backends) -> AddressOf:
    """Return a function that recognises workspaces which share this machine's network and its loopback."""
    local = backends.instances.get(InstanceBackend.LOCAL_PROCESS)
    if isinstance(local, LocalInstances) and local.shares_network:
        return LoopbackPeers(all_stores.installation).address_of
    return lambda _peer, _ours: None


def upstreams_of(urls: str) -> Sequence[Upstream]:
    """Return where APIs listen, each unix:///path or http://host:port, with commas between."""
    return [_upstream_of(url) for url in urls.split(",")]


def _upstream_of(url: str) -> Upstream:
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
