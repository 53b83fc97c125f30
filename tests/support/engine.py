"""A whole control plane in memory, in time that a test moves: stores, platform, service and controllers."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import OWNER_ID, SPEC

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.faults import Faults
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.system.machine import SystemIdentity, SystemTasks
from codehub.core.access import Role
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation
from codehub.core.workspace import InstanceBackend, Status, StorageBackend, Workspace
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.gc import GarbageCollector
from codehub.engine.system import Cadence, System
from codehub.engine.wakeups import Wakeup
from codehub.service.workspaces import WorkspaceService

BY = By("ann", verbatim("because"))
EVERYONE = Wakeup(frozenset(), everyone=True)
EPOCH = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


# Which process runs: tasks inherit it, so that whatever a dead one still tries is refused.
process: ContextVar[str] = ContextVar("process", default="the test")


class Crashed(BaseException):
    """The process is dead: it does nothing any more."""


class ManualClock:
    """Time that moves when a test says so; whoever sleeps is woken at once, later."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)  # the others' turn

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)


class Dice:
    def fraction(self) -> float:
        return 0.5

    def token(self) -> str:
        return "x" * 43


@dataclass
class Plane:
    """One installation. `faults` is called at every boundary
    between two effects, of adapters and engine alike.
    """

    points: list[str] = field(default_factory=list)
    hook: Faults | None = None
    dead: set[str] = field(default_factory=set)
    clock: ManualClock = field(default_factory=ManualClock)
    boot_s: float = 0.0

    def __post_init__(self) -> None:
        identity = SystemIdentity()
        self.hints = MemoryHints(faults=self.fault)
        users: Users = {}
        self.store = MemoryStore(now=self.clock.now, hints=self.hints, faults=self.fault, users=users)
        self._access = MemoryAccess(users, now=self.clock.now)
        self.storage = MemoryStorage(now=self.clock.now, identity=identity, faults=self.fault)
        self.instances = MemoryInstances(
            self.storage, clock=self.clock, boot_s=self.boot_s, faults=self.fault
        )
        self.backends = Backends(
            {InstanceBackend.LOCAL_PROCESS: self.instances}, {StorageBackend.LOCAL_DIR: self.storage}
        )
        self.service = WorkspaceService(self.store, limits=Limits(), trash_s=1000)
        self.controllers: list[tuple[WorkspaceController, SystemTasks]] = []

    async def fault(self, point: str) -> None:
        if process.get() in self.dead:
            raise Crashed
        self.points.append(point)
        if self.hook is not None:
            await self.hook(point)

    def controller(self, name: str = "c1") -> WorkspaceController:
        tasks = SystemTasks()
        system = System(self.clock, Dice(), SystemIdentity(), tasks)
        made = WorkspaceController(name, self.store, self.backends, self.hints, system, cadence=Cadence())
        self.controllers.append((made, tasks))
        return made

    async def close(self) -> None:
        for _controller, tasks in self.controllers:
            await tasks.cancel_all()

    async def add_owner(self) -> None:
        await self._access.add_user(OWNER_ID, username="ann", password_hash=PASSWORD_HASH, role=Role.MEMBER)

    async def create(self, wish: DesiredState = DesiredState.RUNNING) -> UUID:
        await self.add_owner()
        return (await self.make("demo", wish)).id

    async def make(self, name: str, wish: DesiredState = DesiredState.RUNNING) -> Workspace:
        """Make one more workspace of the same user, limits aside."""
        spec = replace(SPEC, name=name, desired_state=wish)
        return await self.store.create_workspace(SystemIdentity().new_id(), spec, [])

    async def converge(self, controller: WorkspaceController, *, passes_max: int = 40) -> int:
        """Run passes, two seconds apart, until one writes nothing
        and no operation runs. Return how many it took.
        """
        process.set(controller.name)
        for count in range(1, passes_max + 1):
            written = await controller.run_pass(EVERYONE)
            await breathe()
            if controller.name in self.dead:
                raise Crashed
            rests = all(row.status.operation is Operation.NONE for row in self.store.dump().values())
            if rests and not written and not controller.is_busy:
                return count
            self.clock.seconds += 2
        raise AssertionError(f"still moving after {passes_max} passes: {self.points[-20:]}")

    async def get(self, workspace_id: UUID) -> Workspace:
        return await self.store.get(workspace_id)


async def wish(
    plane: Plane, controller: WorkspaceController, workspace_id: UUID, wanted: DesiredState
) -> Status:
    """Wish it there, and let a controller do all that follows."""
    await plane.service.set_wish(workspace_id, wanted, BY)
    await plane.converge(controller)
    return (await plane.get(workspace_id)).status


def collector(plane: Plane) -> GarbageCollector:
    return GarbageCollector(plane.store, plane.backends, grace=timedelta(hours=2))


async def breathe() -> None:
    """Let every task that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)
