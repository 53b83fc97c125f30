"""Worlds for tests: both stores, their hints and one user, in memory or on a PostgreSQL."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, Self
from uuid import UUID, uuid4

import asyncpg
from tests.support.postgres import TestServer
from tests.support.workspaces import SPEC

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.doors import MemoryDoors
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.shared_ports import MemorySharedPorts
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.credentials import PostgresCredentials
from codehub.adapters.postgres.doors import PostgresDoors
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.postgres.ports import PostgresSharedPorts
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.access import Role as UserRole
from codehub.core.history import Event, EventKind
from codehub.core.messages import verbatim
from codehub.core.operations import Operation
from codehub.core.workspace import Spec, Status, Workspace
from codehub.ports.access import AccessStore
from codehub.ports.doors import DoorStore
from codehub.ports.hints import Hints
from codehub.ports.proxy_lookups import CredentialLookup
from codehub.ports.shared_ports import SharedPorts
from codehub.ports.store import ApiStore, Change, ControllerStore, RoomStore

PASSWORD_HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
BEGUN = Event(
    EventKind.OPERATION, "NONE", "PROVISIONING", "controller", verbatim("One step up, to where it should be.")
)
# Who refers comes before who is referred to.
_TABLES = (
    *("door_codes", "doors"),
    *(
        "workspace_usage",
        "disk_shortage",
        "workspace_progress",
        "idempotency_keys",
        "workspace_events",
        "workspace_ports",
        "workspaces",
    ),
    *("sessions", "api_tokens", "users", "controllers", "login_failures"),
)


class ControllersStore(ControllerStore, RoomStore, Protocol):
    """All that a controller's process writes."""


@dataclass(frozen=True)
class World:
    api: ApiStore
    controller: ControllersStore
    hints: Hints
    access: AccessStore
    doors: DoorStore
    credentials: CredentialLookup
    user_id: UUID = field(default_factory=uuid4)

    async def add_user(self) -> None:
        name = f"user-{self.user_id}"
        await self.access.add_user(
            self.user_id, username=name, password_hash=PASSWORD_HASH, role=UserRole.MEMBER
        )

    def spec(self, **fields: Any) -> Spec:
        """Return a spec of this world's user, with a name nobody has."""
        return replace(SPEC, **{"owner_user_id": self.user_id, "name": f"ws-{uuid4()}", **fields})

    async def create(self, **fields: Any) -> Workspace:
        return await self.api.create_workspace(SystemIdentity().new_id(), self.spec(**fields), [])

    async def place(self, spec: Spec, status: Status, workspace_id: UUID | None = None) -> Workspace:
        """Store a workspace with this spec and this status."""
        created = await self.api.create_workspace(workspace_id or SystemIdentity().new_id(), spec, [])
        lost = await self.controller.persist([Change(created.id, replace(status, version=0))])
        assert not lost
        return await self.api.get(created.id)

    async def now(self) -> datetime:
        """The database's time."""
        return (await self.controller.load([])).now


def _utc_now() -> datetime:
    return datetime.now(UTC)


def memory_world(faults: Faults = no_faults, *, now: Callable[[], datetime] = _utc_now) -> World:
    hints = MemoryHints(faults=faults)
    users: Users = {}
    store, access = (
        MemoryStore(now=now, hints=hints, faults=faults, users=users),
        MemoryAccess(users, now=now),
    )
    doors = MemoryDoors(access, store, now=now, faults=faults)
    return World(store, store, hints, access, doors, MemoryCredentials(doors=doors))


@dataclass(frozen=True)
class PostgresWorld(World):
    """Also holds what tests of PostgreSQL itself need: its
    address, pools of both roles, and an administrator.
    """

    connect_args: Mapping[str, Any] = field(kw_only=True)
    api_pool: "asyncpg.Pool[asyncpg.Record]" = field(kw_only=True)
    controller_pool: "asyncpg.Pool[asyncpg.Record]" = field(kw_only=True)
    admin: "asyncpg.Connection[asyncpg.Record]" = field(kw_only=True)

    @classmethod
    @asynccontextmanager
    async def opened(cls, server: TestServer) -> AsyncIterator[Self]:
        clock = SystemClock()
        async with server.migrated() as connect_args:
            api_pool = await open_pool(connect_args, Role.API, size_max=25)
            controller_pool = await open_pool(connect_args, Role.CONTROLLER, size_max=25)
            admin = await asyncpg.connect(**connect_args)
            hints = PostgresHints(api_pool, connect_args, Role.API, clock=clock)
            sent = PostgresHints(controller_pool, connect_args, Role.CONTROLLER, clock=clock)
            try:
                yield cls(
                    PostgresApiStore(api_pool, hints),
                    PostgresControllerStore(controller_pool, sent),
                    hints,
                    PostgresAccess(api_pool),
                    PostgresDoors(api_pool),
                    PostgresCredentials(api_pool),
                    connect_args=connect_args,
                    api_pool=api_pool,
                    controller_pool=controller_pool,
                    admin=admin,
                )
            finally:
                await admin.close()
                await api_pool.close()
                await controller_pool.close()

    async def clean(self) -> None:
        """Leave one user and nothing else."""
        # Not TRUNCATE: for a handful of rows, new files for every index cost ten times as much.
        await self.admin.execute("".join(f"DELETE FROM {table};" for table in _TABLES))
        await self.add_user()


def shared_ports(world: World) -> SharedPorts:
    """Return the shared ports of this world's workspaces."""
    if isinstance(world, PostgresWorld):
        return PostgresSharedPorts(world.api_pool, world.hints)
    assert isinstance(world.api, MemoryStore)
    return MemorySharedPorts(world.api, now=lambda: datetime.now(UTC))


def claim(workspace: Workspace, now: datetime, op_id: UUID | None = None) -> Change:
    """The write that begins PROVISIONING."""
    begun = replace(
        workspace.status, operation=Operation.PROVISIONING, op_id=op_id or uuid4(), op_started_at=now
    )
    return Change(workspace.id, begun, (BEGUN,))


async def fetch(connect_args: Mapping[str, Any], statement: str) -> list[Any]:
    connection = await asyncpg.connect(**connect_args)
    try:
        return [row[0] for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def made_with_history(world: PostgresWorld) -> UUID:
    wished = Event(EventKind.WISH, None, "RUNNING", "ann", verbatim("because"))
    return (await world.api.create_workspace(SystemIdentity().new_id(), world.spec(), [wished])).id
