"""A codehub in memory behind a real edge: stores, engine, gate, and a server that is the IDE of every workspace."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from tests.support.edge import Handler, Server, Talk, answer_ok, server, serving
from tests.support.patience import PATIENCE_S
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, SPEC

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.disk import MemoryDisk
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.edge import StoredWorkspaces
from codehub.core.access import Role
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.visit import Visitor
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace
from codehub.engine.controller import WorkspaceController
from codehub.engine.platforms import Platforms
from codehub.engine.system import Cadence, System
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.engine.targets import Target
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.route_cache import MonitorOf, RouteCache
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


@dataclass
class Hub:
    edge: Edge
    address: tuple[str, int]
    store: MemoryStore
    service: WorkspaceService
    credentials: MemoryCredentials
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
        self, phase: Phase = Phase.RUNNING, name: str = "demo", *, ide: str = "code-server"
    ) -> Workspace:
        """Make a workspace and let the engine bring it there."""
        wish = DesiredState.RUNNING if phase is Phase.RUNNING else DesiredState.PENDING
        spec = replace(SPEC, name=name, desired_state=wish, ide=ide)
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
    proto: bytes = b"http",
    time: DatabaseTime | None = None,
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
    platforms = Platforms(
        {InstanceBackend.LOCAL_PROCESS: instances},
        {StorageBackend.LOCAL_DIR: storage},
        disks={StorageBackend.LOCAL_DIR: disk},
    )
    service = WorkspaceService(store, limits=limits or Limits(), trash_s=1000)
    credentials = MemoryCredentials()
    for credential, person in ((SESSION, ANN), (BOBS, BOB), (WRITES, ANN)):
        credentials.admit(credential, person)
    credentials.admit(READS, replace(ANN, may_write=False))
    for person in (ANN, BOB):
        await access.add_user(
            person.user_id, username=person.username, password_hash=PASSWORD_HASH, role=Role.ADMIN
        )
    connections = set[ClientConnection]()
    workspace_locator = StoredWorkspaces(store, platforms.instances)
    route_cache = RouteCache(
        credentials,
        workspace_locator,
        hints,
        people_hints,
        clock=clock,
        tasks=tasks,
        keeps_prefix=lambda ide: ide == "jupyterlab",
        monitor_of=monitor_of,
        targets_in_use=partial(targets_in_use, connections),
        time=time,
    )
    async with AsyncExitStack() as stack:
        ide = await stack.enter_async_context(server(handler))
        api = await stack.enter_async_context(server(answer_ok))
        instances.served_by = ide.upstream
        rules = rules or GateRules(frozenset({ORIGIN}))
        gate = WorkspaceGate(
            route_cache, workspace_locator, service, Target(api.upstream), rules, clock=clock, tasks=tasks
        )
        edge, address = await stack.enter_async_context(serving(gate, proto=proto, connections=connections))
        system = System(clock, SystemRandomness(), SystemIdentity(), tasks)
        controller = WorkspaceController(
            "c1", store, platforms, hints, system, cadence=Cadence(idle_s=1.0, active_s=0.05)
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
