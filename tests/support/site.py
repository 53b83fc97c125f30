"""A site for tests: the real web server on a port of its own, over any world and the memory platform."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
from tests.support.patience import PATIENCE_S, ask_until, until
from tests.support.programs import MEMORY_PROGRAMS
from tests.support.stores import PostgresWorld, World, shared_ports

from codehub.adapters.memory.disk import MemoryDisk
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.instance_access import MemoryInstanceAccess
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.password_authenticator import PasswordAuthenticator
from codehub.adapters.postgres.connect import Role as DatabaseRole
from codehub.adapters.postgres.hints import PEOPLE_CHANNEL, PostgresHints
from codehub.adapters.prometheus.metrics import PrometheusMetrics
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.adapters.system.passwords import Argon2Passwords
from codehub.api.app import Web, create_web
from codehub.app.server import make_listener, serving
from codehub.app.supervisor import supervise
from codehub.core.access import Role, Scope, User
from codehub.core.ceilings import Ceilings
from codehub.core.limits import Limits
from codehub.core.operations import Operation
from codehub.core.origins import WorkspaceOrigins
from codehub.core.visibility import Visibility
from codehub.core.workspace import InstanceBackend, Resources, StorageBackend, Workspace
from codehub.dashboard.app import add_dashboard
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeup
from codehub.ports.hints import Hints
from codehub.ports.system import Clock
from codehub.service.access import AccessService
from codehub.service.doors import DoorService
from codehub.service.ports import PortService
from codehub.service.workspaces import WorkspaceService
from codehub.web.dependencies import Defaults, Dependencies

PASSWORD = "correct horse"
RESTS = {"desired_state": "PENDING"}
API = "/api/v1"
METRICS_TOKEN = "who-watches-this-codehub"
WATCHES = {"Authorization": f"Bearer {METRICS_TOKEN}"}
_NUMBERS = itertools.count()
_CADENCE = Cadence(idle_s=0.5, active_s=0.1)
BOUNDLESS = Ceilings(
    Resources(4_194_304, 1024.0, 4_194_304, 1_073_741_824),
    workspaces=1_000_000,
    tokens=1_000_000,
    requests_per_minute=1_000_000,
)
"""Whatever the wire's shapes allow."""


@dataclass
class Site:
    """One running server, and words to use it with."""

    world: World
    parts: Dependencies
    passwords: Argon2Passwords
    web: Web
    address: str
    storage: MemoryStorage
    instances: MemoryInstances
    disk: MemoryDisk
    clients: AsyncExitStack
    instance_access: MemoryInstanceAccess
    is_living: bool = False
    prefix: str = ""
    people: dict[str, User] = field(default_factory=dict)

    def forget(self) -> None:
        """Begin another test: whoever is named next is somebody new."""
        self.people.clear()
        self.prefix = f"{next(_NUMBERS)}-" if self.is_living else ""

    async def user(self, name: str, role: Role = Role.MEMBER) -> User:
        if name not in self.people:
            self.people[name] = await self.parts.access.add_user(self.prefix + name, PASSWORD, role)
        return self.people[name]

    def anybody(self, **options: Any) -> httpx.AsyncClient:
        """A client that is nobody."""
        return httpx.AsyncClient(base_url=self.address, timeout=PATIENCE_S, **options)

    async def browser(self, name: str = "ann", role: Role = Role.MEMBER) -> httpx.AsyncClient:
        """Somebody with a session's cookie."""
        await self.user(name, role)
        client = await self.clients.enter_async_context(self.anybody())
        answer = await client.post(
            f"{API}/login", json={"username": self.prefix + name, "password": PASSWORD}
        )
        assert answer.status_code == 200, answer.text
        return client

    async def program(
        self, name: str = "ann", role: Role = Role.MEMBER, scope: Scope = Scope.WRITE
    ) -> httpx.AsyncClient:
        """Somebody with a token."""
        browser = await self.browser(name, role)
        answer = await browser.post(f"{API}/tokens", json={"name": "test", "scope": scope})
        headers = {"Authorization": f"Bearer {answer.json()['token']}"}
        return await self.clients.enter_async_context(self.anybody(headers=headers))

    async def arrives(
        self, client: httpx.AsyncClient, workspace_id: str, phase: str, **fields: object
    ) -> dict[str, Any]:
        """Wait until a workspace rests in this phase."""

        async def show() -> dict[str, Any]:
            answer = await client.get(f"{API}/workspaces/{workspace_id}")
            workspace: dict[str, Any] = answer.json()
            return {} if answer.status_code == 404 and phase == "DELETED" else workspace

        wanted = {"phase": phase, "operation": Operation.NONE, **fields}
        return await ask_until(show, lambda workspace: not workspace or wanted.items() <= workspace.items())


async def create(client: httpx.AsyncClient, name: str = "demo", **fields: object) -> dict[str, Any]:
    answer = await client.post(f"{API}/workspaces", json={"name": name, **fields})
    assert answer.status_code == 201, answer.text
    workspace: dict[str, Any] = answer.json()
    return workspace


@asynccontextmanager
async def open_site(
    world: World,
    *,
    controlled: bool = False,
    limits: Limits | None = None,
    checks: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    boot_s: float = 0.0,
    ceilings: Ceilings | None = None,
    trash_s: int | None = 3600,
    clock: Clock | None = None,
    workspace_origins: WorkspaceOrigins | None = None,
    cadence: Cadence = _CADENCE,
    ports_ceiling: Visibility = Visibility.SIGNED_IN,
    **options: Any,
) -> AsyncIterator[Site]:
    """Serve. `controlled`: with a controller, so that wishes come true."""
    limits, ceilings = limits or Limits(), ceilings or Ceilings()
    clock, tasks = clock or SystemClock(), SystemTasks()
    system = System(clock, SystemRandomness(), SystemIdentity(), tasks)
    storage = MemoryStorage(now=lambda: datetime.now(UTC), identity=SystemIdentity())
    instances = MemoryInstances(storage, clock=clock, boot_s=boot_s)
    disk = MemoryDisk(free_mb=5000, floor_mb=1000)
    backends = Backends(
        {InstanceBackend.LOCAL_PROCESS: instances},
        {StorageBackend.LOCAL_DIR: storage},
        ceilings,
        {StorageBackend.LOCAL_DIR: disk},
    )
    people_hints = _people_hints(world)
    passwords = Argon2Passwords(memory_kb=64, rounds=1)
    access = AccessService(
        world.access,
        PasswordAuthenticator(world.access, passwords),
        passwords,
        people_hints,
        randomness=system.randomness,
        identity=system.identity,
        tokens_max=ceilings.tokens,
    )
    metrics = PrometheusMetrics()
    listener = make_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    workspaces = WorkspaceService(world.api, limits=limits, trash_s=trash_s, ceilings=ceilings)
    instance_access = MemoryInstanceAccess(instances, MEMORY_PROGRAMS)
    parts = Dependencies(
        store=world.api,
        workspaces=workspaces,
        access=access,
        ports=PortService(
            workspaces,
            shared_ports(world),
            {InstanceBackend.LOCAL_PROCESS: instance_access},
            origins=workspace_origins,
            ceiling=ports_ceiling,
            clock=clock,
            tasks=tasks,
        ),
        hints=world.hints,
        people_hints=people_hints,
        instances=backends.instances,
        homes={InstanceBackend.LOCAL_PROCESS: [StorageBackend.LOCAL_DIR]},
        defaults=Defaults(
            image_ref="codercom/code-server",
            ide="jupyterlab",
            instance_backend=InstanceBackend.LOCAL_PROCESS,
            storage_backend=StorageBackend.LOCAL_DIR,
            standby_ttl_seconds=300,
            archive_ttl_seconds=86_400,
        ),
        limits=limits,
        ceilings=ceilings,
        base_url=options.pop("base_url", address),
        clock=clock,
        identity=system.identity,
        tasks=tasks,
        metrics=metrics,
        checks=checks or {},
        metrics_token=METRICS_TOKEN,
        workspace_origins=workspace_origins,
        doors=None
        if workspace_origins is None
        else DoorService(
            world.doors,
            world.api,
            shared_ports(world),
            workspace_origins,
            ceiling=ports_ceiling,
            randomness=system.randomness,
        ),
        **options,
    )
    web = create_web(parts)
    add_dashboard(web.app, parts)
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        stack.push_async_callback(tasks.cancel_all)
        tasks.spawn(supervise("events", web.feed.run, system), name="events")
        if controlled:
            own = replace(system, tasks=tasks)
            controller = WorkspaceController(
                "c1", world.controller, backends, world.hints, own, cadence=cadence, metrics=metrics
            )
            await controller.run_pass(Wakeup(frozenset(), everyone=True))
            tasks.spawn(controller.run(), name="controller")
        await stack.enter_async_context(serving(web.app, listener, system))
        clients = await stack.enter_async_context(AsyncExitStack())
        yield Site(
            world,
            parts,
            passwords,
            web,
            address,
            storage,
            instances,
            disk,
            clients,
            instance_access,
            is_living=controlled,
        )


def _people_hints(world: World) -> Hints:
    if isinstance(world, PostgresWorld):
        return PostgresHints(
            world.api_pool, world.connect_args, DatabaseRole.API, clock=SystemClock(), channel=PEOPLE_CHANNEL
        )
    return MemoryHints()


def known(workspace_id: str) -> UUID:
    return UUID(workspace_id)


async def placed(site: Site, row: Workspace, **spec: Any) -> Workspace:
    """Store a workspace of ann's in this state."""
    owner = await site.user("ann")
    fields = {"owner_user_id": owner.id, "desired_state": row.spec.desired_state, **spec}
    return await site.world.place(site.world.spec(**fields), row.status)


async def login(
    client: httpx.AsyncClient, name: str, password: str = PASSWORD, **headers: str
) -> httpx.Response:
    return await client.post(f"{API}/login", json={"username": name, "password": password}, headers=headers)


async def nobody_listens(site: Site) -> None:
    """Wait until the server has noticed that whoever listened is gone."""
    await until(lambda: not site.web.feed.held)
