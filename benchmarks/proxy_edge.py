"""codehub's proxy as a process to be measured: `PORT WORKERS UPSTREAM ECHO_PORT ECHO_SOCKET [origins]`.
Session or door, and owner, are checked for every request, and activity is listened to, as in production.
"""

import asyncio
import os
import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import uvloop
from benchmarks.proxy_peers import DOMAIN, SESSION, WORKSPACE

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.doors import MemoryDoors
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.system.machine import SystemClock, SystemRandomness, SystemTasks
from codehub.app.edge import StoredWorkspaces
from codehub.core.access import Role
from codehub.core.limits import Limits
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import Door, WorkspaceOrigins
from codehub.core.visit import Visitor
from codehub.core.workspace import InstanceBackend, Spec, StorageBackend, Workspace
from codehub.ports.instances import TcpUpstream, UnixUpstream, Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import Change
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.answers import EngineAnswers
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entering import Entering
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.header_rules import header_rules
from codehub.proxy.policy.route_cache import RouteCache
from codehub.service.workspaces import WorkspaceService

FLUSH_S = 30.0
OWNER = Visitor(UUID(int=1), "bench")
SPEC = Spec(
    owner_user_id=OWNER.user_id,
    name="bench",
    image_ref="image",
    ide="code-server",
    instance_backend=InstanceBackend.LOCAL_DOCKER,
    storage_backend=StorageBackend.DOCKER_VOLUME,
    home_store_key="home",
    standby_ttl_seconds=300,
    archive_ttl_seconds=86_400,
    desired_state=DesiredState.RUNNING,
)


class Listening(StoredWorkspaces):
    """A place whose instance listens on a given port."""

    address: Upstream

    async def upstream(self, _workspace: Workspace) -> Upstream | None:
        return self.address


class ThreeServers:
    """The gate, with others for WebSockets, at a port and at a
    socket: the one behind that is quick at files knows none.
    """

    def __init__(self, gate: WorkspaceGate, at_port: WorkspaceGate, at_socket: WorkspaceGate) -> None:
        self._gate = gate
        self._at_port = at_port
        self._at_socket = at_socket
        self.find_again = gate.find_again

    def admit(self, head):  # type: ignore[no-untyped-def]
        if head.upgrade is None:
            return self._gate.admit(head)
        return (self._at_socket if head.target.endswith(b"-unix") else self._at_port).admit(head)


def _now() -> datetime:
    return datetime.now(UTC)


async def _workspace_of(_label: str) -> UUID | None:
    return UUID(WORKSPACE)


async def serve(port: int, origins: WorkspaceOrigins | None, *upstreams: Upstream) -> None:
    clock, tasks = SystemClock(), SystemTasks()
    route_caches = []
    gates = []
    connections = set[ClientConnection]()
    for upstream in upstreams:
        hints = MemoryHints()
        users: Users = {}
        store = MemoryStore(now=_now, hints=hints, users=users)
        access = MemoryAccess(users, now=_now)
        await access.add_user(OWNER.user_id, username="bench", password_hash="$argon2id$", role=Role.MEMBER)
        row = await store.create_workspace(UUID(WORKSPACE), SPEC, [])
        await store.persist([Change(row.id, replace(row.status, phase=Phase.RUNNING))])
        credentials = MemoryCredentials()
        credentials.admit(Credential("session", SESSION.encode()), OWNER)
        door = replace(OWNER, door=Door(row.id, None))
        credentials.admit(Credential("door", SESSION.encode()), door)
        workspace_locator = Listening(store, {})
        workspace_locator.address = upstream
        service = WorkspaceService(store, limits=Limits(), trash_s=1)
        time = DatabaseTime()
        activity = Activity(service, credentials, time, clock=clock, flush_s=FLUSH_S)
        route_cache = RouteCache(
            credentials,
            workspace_locator,
            hints,
            MemoryHints(),
            clock=clock,
            tasks=tasks,
            keeps_prefix=lambda _ide: False,
            monitor_of=activity.monitor,
            forget_monitor=activity.forget,
            targets_in_use=partial(targets_in_use, connections),
            time=time,
            workspace_of=_workspace_of,
        )
        tasks.spawn(activity.run(), name="activity")
        route_caches.append(route_cache)
        rules = GateRules(frozenset())
        apis = ApiTargets([workspace_locator.address], clock)
        entering = None
        if origins is not None:
            doors = MemoryDoors(access, store, now=_now)
            entering = Entering(doors, origins, "http://bench", randomness=SystemRandomness())
        gates.append(
            WorkspaceGate(
                route_cache,
                workspace_locator,
                service,
                apis,
                rules,
                clock=clock,
                tasks=tasks,
                entering=entering,
            )
        )
    edge = Edge(
        ThreeServers(*gates),
        rules=header_rules(secure=False, origins=origins),
        answers=EngineAnswers(),
        clock=clock,
        tasks=tasks,
        randomness=SystemRandomness(),
        connections=connections,
    )
    for route_cache in route_caches:
        tasks.spawn(route_cache.run(), name="route-cache")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", port))
    async with edge.serving(listener):
        await asyncio.Event().wait()


def main() -> None:
    port, workers, upstream, echo_port = (int(word) for word in sys.argv[1:5])
    for _ in range(workers - 1):
        if os.fork() == 0:
            break
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            serve(
                port,
                WorkspaceOrigins("http", DOMAIN, None) if "origins" in sys.argv[6:] else None,
                TcpUpstream("127.0.0.1", upstream),
                TcpUpstream("127.0.0.1", echo_port),
                UnixUpstream(Path(sys.argv[5])),
            )
        )


if __name__ == "__main__":
    main()
