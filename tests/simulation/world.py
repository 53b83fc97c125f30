"""The world: one store, one engine, one disk and one object store,
several processes that die and come back, people, and judges.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

from asyncpg.pgproto import pgproto
from tests.simulation.doors import Door
from tests.simulation.faults import Fault, Faults
from tests.simulation.judges import Judges
from tests.simulation.late import LateCalls
from tests.simulation.loop import VirtualLoop
from tests.simulation.machine import Crashed, LossyHints, Machine
from tests.simulation.misfortunes import Misfortunes
from tests.simulation.numbers import CADENCE, EPOCH, FREE_MB, GRACE, LIMITS, RULES, TRASH_S
from tests.simulation.truth import Broken
from tests.support.stores import PASSWORD_HASH

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.disk import MemoryDisk
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.memory.store import MemoryStore
from codehub.core.access import Role
from codehub.core.visit import Visit, Visitor
from codehub.core.workspace import Workspace
from codehub.engine.controller import WorkspaceController
from codehub.engine.gc import GarbageCollector
from codehub.engine.ttl import TtlManager
from codehub.engine.wakeups import Wakeup
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.store import ApiStore, StoreUnavailable
from codehub.service.workspaces import WorkspaceService

T = TypeVar("T")

_TTL_S = 15.0
_ACTIVITY_S = 15.0
_GC_S = 100.0
_SKEW_S = 30.0
_DUMPS = 30
# Longer than anything that was asked of a backend goes on there.
_RESTORING_S = 300.0
_EXPECTED = (ActionFailed, BackendUnreachable, StoreUnavailable, Crashed)


class World:
    def __init__(
        self,
        seed: int,
        *,
        only: Collection[int] | None = None,
        trash_s: int | None = TRASH_S,
        in_cluster: bool = False,
    ) -> None:
        self.seed = seed
        self._trash_s = trash_s
        self.loop = VirtualLoop()  # type: ignore[abstract]  # sockets and programs it has none
        self.dice = random.Random(f"world {seed}")
        self.faults = Faults(seed, time=self.loop.time, only=only, in_cluster=in_cluster)
        self.strikes = self.faults.strike
        self.late = LateCalls(self.dice)
        self.passes = 0
        self.restarts: list[float] = []
        self.is_still = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.misfortunes = Misfortunes(self)
        self.is_away = self.misfortunes.is_away
        self._ids = 0
        self._now_s, self._now = 0.0, EPOCH
        self.skew = timedelta(seconds=self.dice.uniform(-_SKEW_S, _SKEW_S))
        self.broken: Broken | None = None
        self.judges = Judges(self)
        self.hints = LossyHints(self)
        users: Users = {}
        self.store = MemoryStore(
            now=self.now, hints=self.hints, users=users, on_commit=self.judges.commits.judge
        )
        self._access = MemoryAccess(users, now=self.now)
        self.storage = MemoryStorage(
            now=lambda: self.now() + self.skew,
            identity=self,
            faults=self._inside,
            disks=self.judges.disks,
            objects=self.judges.objects,
        )
        self.instances = MemoryInstances(
            self.storage,
            clock=self,
            boot_s=self.dice.uniform(0, 8),
            faults=self._inside,
            by_workspace=self.judges.watched_instances,
        )
        self.disk = MemoryDisk(free_mb=FREE_MB)
        self.controllers: dict[str, Machine] = {}
        self.apis: dict[str, Machine] = {}
        self.services: dict[str, WorkspaceService] = {}
        self.doors: dict[str, Door] = {}
        self._running: dict[str, WorkspaceController] = {}
        self.people: list[asyncio.Task[Any]] = []
        self.is_restoring = False
        self.has_rolled_back = False
        self._dumps: deque[Mapping[UUID, Workspace]] = deque(maxlen=_DUMPS)
        self._chatter: asyncio.Task[Any] | None = None

    def break_(self, contract: str, workspace_id: UUID | None, what: str) -> None:
        """Note that a contract was broken. The first counts: what follows may follow from it."""
        if self.broken is None:
            self.broken = Broken(contract, workspace_id, f"{what} (after {self.loop.time():.3f} s)")

    def owner_of(self, archive_key: str) -> UUID:
        return UUID(archive_key.split("/", maxsplit=1)[0])

    # Time, dice and names.

    def now(self) -> datetime:
        seconds = self.loop.time()
        if seconds != self._now_s:
            self._now_s, self._now = seconds, EPOCH + timedelta(seconds=seconds)
        return self._now

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def new_id(self) -> UUID:
        """Return an id as PostgreSQL's driver hands them out: it hashes in C."""
        self._ids += 1
        value = (self._ids << 64) | self.dice.getrandbits(62) | 1 << 63
        return pgproto.UUID(value.to_bytes(16))

    def latency(self) -> float:
        """Most calls are over at once; the rest takes its time."""
        drawn = self.dice.random()
        return 0.0 if drawn < 0.75 else (drawn - 0.75) * 0.08 if drawn < 0.97 else drawn * 2

    async def _inside(self, point: str) -> None:
        """Inside a backend: between two of its effects it may take long, or be cut off."""
        if not point.endswith("between_effects"):
            return
        delay = self.dice.random()
        await asyncio.sleep(delay * 3 if delay < 0.9 else delay * 40)
        fills = point.startswith(("storage.provision", "storage.restore"))
        if (fills and self.disk.free_mb == 0) or self.strikes(Fault.ACT_HALF, point):
            raise ActionFailed("no space left")

    # Work that belongs to no process.

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = self.loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, _EXPECTED):
            self.break_("no task fails", None, f"{task.get_name()}: {error!r}")

    # Processes.

    def _may_start(self, machine: Machine | None) -> bool:
        return not self.is_restoring and (machine is None or machine.is_dead)

    async def add_user(self, user_id: UUID, name: str) -> None:
        await self._access.add_user(user_id, username=name, password_hash=PASSWORD_HASH, role=Role.MEMBER)

    def start_controller(self, name: str) -> None:
        if not self._may_start(self.controllers.get(name)):
            return
        machine = Machine(self, name)
        self.controllers[name] = machine
        self.restarts.append(self.loop.time())
        machine.tasks.spawn(self._control(machine), name=name)

    async def _control(self, machine: Machine) -> None:
        """What `codehub up` does: join, settle what was left, then run with TTL and GC beside."""
        controller = WorkspaceController(
            machine.name,
            machine.store,
            machine.connect(),
            machine.hints,
            machine.system,
            rules=RULES,
            cadence=CADENCE,
        )
        service = WorkspaceService(cast("ApiStore", machine.store), limits=LIMITS, trash_s=self._trash_s)
        collector = GarbageCollector(machine.store, machine.connect(), grace=GRACE)
        with suppress(StoreUnavailable):
            await controller.members.beat()
            await controller.run_pass(Wakeup(frozenset(), everyone=True))
        machine.tasks.spawn(controller.run(), name="controller")
        self._running[machine.name] = controller
        machine.tasks.spawn(
            self._every(_TTL_S, lambda: self._sleep_round(machine, service), machine), name="ttl"
        )
        machine.tasks.spawn(self._every(_GC_S, collector.collect, machine), name="gc")

    async def _sleep_round(self, machine: Machine, service: WorkspaceService) -> None:
        if not self.is_still:
            await TtlManager(machine.store, service).run_round()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[object]], machine: Machine) -> None:
        while True:
            await machine.sleep(seconds)
            with suppress(StoreUnavailable, BackendUnreachable):
                await work()

    async def leave(self, name: str) -> None:
        """Stop a controller as a person would."""
        await self.controllers[name].tasks.cancel_all()
        await self._running[name].leave()

    def start_api(self, name: str) -> None:
        if not self._may_start(self.apis.get(name)):
            return
        machine = Machine(self, name)
        self.apis[name] = machine
        service = WorkspaceService(cast("ApiStore", machine.store), limits=LIMITS, trash_s=self._trash_s)
        self.services[name] = service
        door = self.doors[name] = Door(machine, service)
        machine.tasks.spawn(self._every(_ACTIVITY_S, door.activity.flush, machine), name="activity")

    def crash(self, machine: Machine) -> None:
        """Kill it: nothing of it runs any more. What it has asked of a backend goes on there."""
        machine.is_dead = True
        self.spawn(machine.tasks.cancel_all(), name=f"end of {machine.name}")
        again = self.start_controller if machine.name in self.controllers else self.start_api
        self.loop.call_later(self.dice.uniform(0, 40), again, machine.name)

    def crash_one(self) -> None:
        """Kill a controller, if there is bad luck."""
        name = self.dice.choice(sorted(self.controllers))
        machine = self.controllers[name]
        if not machine.is_dead and self.strikes(Fault.LAST_CRASH, name):
            self.crash(machine)

    # What just happens.

    def begin_chatter(self) -> None:
        """Let somebody change something all the time, of no concern to
        anybody else: hints without an end, in calm too.
        """
        self._chatter = self.spawn(self._chat(), name="chatter")

    def end_chatter(self) -> None:
        if self._chatter is not None:
            self._chatter.cancel()

    async def _chat(self) -> None:
        dice = random.Random(f"chatter {self.seed}")
        while True:
            await asyncio.sleep(dice.uniform(0.5, 1.9))
            if rows := self.rows():
                await self.hints.send([dice.choice(rows).id])

    @property
    def is_any_watch_behind(self) -> bool:
        machines = self.controllers.values()
        return any(machine.instances.is_behind or machine.volumes.is_behind for machine in machines)

    def strike_database(self) -> None:
        """Restore an older dump, as one should: everything is stopped
        first, and what was under way in the backends has ended.
        """
        self._dumps.append(self.store.dump())
        if not self.is_restoring and self.strikes(Fault.ROLLBACK, "store"):
            self.is_restoring = True
            self.spawn(self._restore(self.dice.choice(self._dumps)), name="restore of a dump")

    async def _restore(self, dump: Mapping[UUID, Workspace]) -> None:
        for machine in (*self.controllers.values(), *self.apis.values()):
            if not machine.is_dead:
                machine.is_dead = True
                self.spawn(machine.tasks.cancel_all(), name=f"end of {machine.name}")
        self._cancel_late_calls()
        self.misfortunes.release_all()
        await asyncio.sleep(_RESTORING_S)
        self.store.roll_back(dump)
        self.has_rolled_back = True
        self._dumps.clear()
        self.judges.rolled_back(dump.values())
        self.is_restoring = False
        for name in self.controllers:
            self.start_controller(name)
        for name in self.apis:
            self.start_api(name)

    def calm(self) -> None:
        """From now on nothing goes wrong any more: what is away comes
        back, what was stopped goes on, what is late never comes.
        """
        self.faults.rates.clear()
        self._cancel_late_calls()
        self.misfortunes.end()
        for machine in (*self.controllers.values(), *self.apis.values()):
            machine.thaws_at = 0.0
            machine.instances.catch_up()
            machine.volumes.catch_up()
        for workspace_id in list(self.instances.by_workspace):
            self.instances.sicken(workspace_id, sick=False)

    def _cancel_late_calls(self) -> None:
        for task in self._tasks:
            if task.get_name().startswith("late "):
                task.cancel()

    async def request(self, work: Callable[[WorkspaceService], Awaitable[T]]) -> T | None:
        """Ask an API process, as a person would."""
        name = self._any_api()
        return await self._on(name, lambda: work(self.services[name]))

    async def visit(self, visit: Visit, person: Visitor, workspace_id: UUID) -> Door | None:
        """Visit a workspace, and return the door through which one was led in."""
        name = self._any_api()
        door = self.doors[name]
        return door if await self._on(name, lambda: door.visit(visit, person, workspace_id)) else None

    def _any_api(self) -> str:
        return self.dice.choice(sorted(self.apis))

    async def _on(self, name: str, work: Callable[[], Awaitable[T]]) -> T | None:
        """Let a process do this. Nothing comes back if it dies, or can't reach the database."""
        machine = self.apis[name]
        if machine.is_dead:
            return None

        async def ask() -> T | None:
            try:
                return await work()
            except StoreUnavailable:
                return None

        asking = machine.tasks.spawn(ask(), name="request")
        try:
            return await asyncio.shield(asking)
        except Crashed:
            return None
        except asyncio.CancelledError:
            if not asking.cancelled():
                raise
            return None

    def rows(self) -> list[Workspace]:
        return list(self.store.rows.values())

    async def end(self) -> None:
        """Stop every process as a person would, and see that nothing is left running."""
        for machine in (*self.controllers.values(), *self.apis.values()):
            await machine.tasks.cancel_all()

    def abandon(self) -> None:
        """End everything at once: what was to be seen was seen."""
        for machine in (*self.controllers.values(), *self.apis.values()):
            machine.is_dead = True
            for task in machine.tasks.running:
                task.cancel()
        for task in self._tasks:
            task.cancel()
        self.loop.run_until(self.loop.time() + 1)

    def unfinished(self) -> list[str]:
        """Return what still runs, though everybody has gone."""
        machines = (*self.controllers.values(), *self.apis.values())
        live = [task for machine in machines for task in machine.tasks.running]
        return [task.get_name() for task in (*self._tasks, *live) if not task.done()]
