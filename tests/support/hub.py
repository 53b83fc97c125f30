"""A codehub in memory behind a real edge: stores, engine,
gate, and a server that is the IDE of every workspace.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.support.edge import Handler, Server, Talk, answer_ok, server, serving
from tests.support.patience import PATIENCE_S
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, SPEC

from codehub.adapters.byte_streams import ConnectionStream
from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.disk import MemoryDisk
from codehub.adapters.memory.doors import MemoryDoors
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.instance_access import MemoryInstanceAccess
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.shared_ports import MemorySharedPorts
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.port_address import PortAddress
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.edge import StoredWorkspaces
from codehub.core.access import SESSION_LASTS, Role
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.core.visit import Visitor
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.system import Cadence, System
from codehub.ports.instance_access import ByteStream, NothingListens
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.context import Networks
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entering import Entering
from codehub.proxy.policy.entrances import InserterOf, MonitorOf
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.port_ways import PortWays
from codehub.proxy.policy.route_cache import RouteCache
from codehub.service.workspaces import WorkspaceService

ANN = Visitor(OWNER_ID, "ann")
BOB = Visitor(UUID("019a8b00-0000-7000-8000-00000000000b"), "bob")
SESSION = Credential("session", b"anns-session")
BOBS = Credential("session", b"bobs-session")
READS = Credential("token", b"cht_only_reads_0123456789")
WRITES = Credential("token", b"cht_may_write_0123456789")
ORIGIN = "http://hub.test"
NAVIGATION = (
    "Sec-Fetch-Mode: navigate",
    "Sec-Fetch-Dest: document",
    "Sec-Fetch-Site: none",
    "Accept: text/html",
)
COOKIE = "Cookie: codehub_session=anns-session"


class ServedInstances(MemoryInstances):
    """Instances in memory that are said to listen where a real server does."""

    served_by: Upstream | None = None
    starts = 0

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        return self.served_by if await super().resolve_upstream(workspace_id) is not None else None


class ServedPorts(MemoryInstanceAccess):
    """Ports in memory that real servers answer on."""

    def __init__(self, instances: MemoryInstances) -> None:
        super().__init__(instances, {})
        self.served_by: dict[int, int] = {}
        """The port of this machine, by the port of any instance."""

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        self._require_running(workspace_id)
        if port not in self.served_by:
            raise NothingListens(port)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.served_by[port])
        async with self._at_its_end(workspace_id, writer.transport.abort):
            try:
                yield ConnectionStream(reader, writer)
            finally:
                writer.transport.abort()


@dataclass
class Hub:
    edge: Edge
    address: tuple[str, int]
    store: MemoryStore
    service: WorkspaceService
    credentials: MemoryCredentials
    access: MemoryAccess
    doors: MemoryDoors
    shared_ports: MemorySharedPorts
    instance_access: ServedPorts
    hints: MemoryHints
    people_hints: MemoryHints
    instances: ServedInstances
    storage: MemoryStorage
    disk: MemoryDisk
    workspace_locator: StoredWorkspaces
    route_cache: RouteCache
    ide: Server
    api: Server

    async def workspace(
        self, phase: Phase = Phase.RUNNING, name: str = "demo", *, ide: str = "code-server", **settings: Any
    ) -> Workspace:
        """Make a workspace and let the engine bring it there."""
        wish = DesiredState.RUNNING if phase is Phase.RUNNING else DesiredState.PENDING
        spec = replace(SPEC, name=name, desired_state=wish, ide=ide, **settings)
        made = await self.store.create_workspace(SystemIdentity().new_id(), spec, [])
        if phase in (Phase.STANDBY, Phase.ARCHIVED):
            await self.service.set_wish(made.id, DesiredState(phase.value), By("test", verbatim("test")))
        return await self.arrives(made.id, phase)

    async def arrives(self, workspace_id: UUID, phase: Phase) -> Workspace:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                row = await self.store.get(workspace_id)
                if row.status.phase is phase and row.status.operation is Operation.NONE:
                    return row
                await asyncio.sleep(0.01)

    async def connect(self) -> Talk:
        return Talk(*await asyncio.open_connection(*self.address, limit=1 << 20))

    async def ask(self, path: str, *lines: str, method: str = "GET") -> tuple[int, str, str]:
        """Ask once on a connection of its own; return the status, the head and the body."""
        talk = await self.connect()
        raw = "\r\n".join(
            (f"{method} {path} HTTP/1.1", "Host: hub.test", "Connection: close", *lines, "", "")
        )
        await talk.send(raw.encode())
        head, _, body = (await talk.rest()).partition(b"\r\n\r\n")
        await talk.close()
        return int(head.split(b" ")[1]), head.decode(), body.decode()


@asynccontextmanager
async def hub(
    handler: Handler = answer_ok,
    *,
    rules: GateRules | None = None,
    limits: Limits | None = None,
    boot_s: float = 0.05,
    monitor_of: MonitorOf = lambda _row: None,
    inserter_of: InserterOf = lambda _row: None,
    proto: bytes = b"http",
    time: DatabaseTime | None = None,
    origins: WorkspaceOrigins | None = None,
    trusted_proxies: Networks = (),
    ceiling: Visibility = Visibility.PUBLIC,
    port_monitor_of: MonitorOf = lambda _row: None,
) -> AsyncIterator[Hub]:
    def now() -> datetime:
        return datetime.now(UTC)

    clock, tasks = SystemClock(), SystemTasks()
    hints, people_hints = MemoryHints(), MemoryHints()
    users: Users = {}
    store = MemoryStore(now=now, hints=hints, users=users)
    access = MemoryAccess(users, now=now)
    storage = MemoryStorage(now=now, identity=SystemIdentity())
    instances = ServedInstances(storage, clock=clock, boot_s=boot_s)
    disk = MemoryDisk(free_mb=5000, floor_mb=1000)
    backends = Backends(
        {InstanceBackend.LOCAL_PROCESS: instances},
        {StorageBackend.LOCAL_DIR: storage},
        disks={StorageBackend.LOCAL_DIR: disk},
    )
    service = WorkspaceService(store, limits=limits or Limits(), trash_s=1000)
    doors = MemoryDoors(access, store, now=now)
    credentials = MemoryCredentials(doors=doors)
    for credential, person in ((SESSION, ANN), (BOBS, BOB), (WRITES, ANN)):
        credentials.admit(credential, person)
    credentials.admit(READS, replace(ANN, may_write=False))
    for person in (ANN, BOB):
        await access.add_user(
            person.user_id, username=person.username, password_hash=PASSWORD_HASH, role=Role.ADMIN
        )
    for credential, person in ((SESSION, ANN), (BOBS, BOB)):
        session_sha256 = sha256(credential.secret).digest()
        await access.open_session(session_sha256, person.user_id, password_hash=None, lasts=SESSION_LASTS)
    connections = set[ClientConnection]()
    shared_ports = MemorySharedPorts(store, now=now)
    instance_access = ServedPorts(instances)
    workspace_locator = StoredWorkspaces(store, backends.instances)
    route_cache = RouteCache(
        credentials,
        workspace_locator,
        hints,
        people_hints,
        clock=clock,
        tasks=tasks,
        keeps_prefix=lambda ide: ide == "jupyterlab",
        monitor_of=monitor_of,
        inserter_of=inserter_of,
        targets_in_use=partial(targets_in_use, connections),
        time=time,
        workspace_of=doors.workspace_of,
        ports=PortWays(
            shared_ports,
            ceiling,
            lambda row, port: PortAddress(instance_access, row.id, port, tasks),
            port_monitor_of,
        ),
    )
    async with AsyncExitStack() as stack:
        ide = await stack.enter_async_context(server(handler))
        api = await stack.enter_async_context(server(answer_ok))
        instances.served_by = ide.upstream
        rules = rules or GateRules(frozenset({ORIGIN}))
        entering = None
        if origins is not None:
            entering = Entering(doors, origins, ORIGIN, randomness=SystemRandomness())
        gate = WorkspaceGate(
            route_cache,
            workspace_locator,
            service,
            ApiTargets([api.upstream], clock),
            rules,
            clock=clock,
            tasks=tasks,
            entering=entering,
        )
        edge, address = await stack.enter_async_context(
            serving(
                gate, proto=proto, connections=connections, origins=origins, trusted_proxies=trusted_proxies
            )
        )
        system = System(clock, SystemRandomness(), SystemIdentity(), tasks)
        controller = WorkspaceController(
            "c1", store, backends, hints, system, cadence=Cadence(idle_s=1.0, active_s=0.05)
        )
        tasks.spawn(controller.run(), name="controller")
        tasks.spawn(route_cache.run(), name="route-cache")
        stack.push_async_callback(tasks.cancel_all)
        yield Hub(
            edge=edge,
            address=address,
            store=store,
            service=service,
            credentials=credentials,
            access=access,
            doors=doors,
            shared_ports=shared_ports,
            instance_access=instance_access,
            hints=hints,
            people_hints=people_hints,
            instances=instances,
            storage=storage,
            disk=disk,
            workspace_locator=workspace_locator,
            route_cache=route_cache,
            ide=ide,
            api=api,
        )
