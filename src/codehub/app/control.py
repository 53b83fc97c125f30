"""The controller role: the loop, time to live and garbage collection, side by side until everything is
stopped.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from codehub.adapters.local.disk import FileReserve
from codehub.adapters.system.machine import SystemTasks
from codehub.app.database import ApiStores, Stores
from codehub.app.database_wait import until_reachable
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.supervisor import supervise
from codehub.core.limits import Limits
from codehub.core.membership import machine_of
from codehub.core.workspace import Workspace
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.disk_guard import TICK_S, DiskGuard
from codehub.engine.gc import GarbageCollector
from codehub.engine.system import Cadence, System
from codehub.engine.ttl import TtlManager
from codehub.engine.wakeups import Wakeup
from codehub.ports.disks import Reserve
from codehub.ports.metrics import Metrics, NoMetrics
from codehub.ports.store import HistoryChanged, StoreUnavailable
from codehub.service.workspaces import WorkspaceService
from codehub.settings import Settings
from codehub.web.dependencies import Check, NotReady

log = structlog.get_logger()

_SILENCE_S_MAX = 30.0


@asynccontextmanager
async def control(
    settings: Settings, stores: Stores, backends: Backends, system: System, metrics: Metrics | None = None
) -> AsyncIterator[Check]:
    """Finish what the last process left before anything else begins (spec §5, Start-up); then run beside the
    caller.

    Yields a check of whether it still works.
    """
    system = replace(system, tasks=SystemTasks())
    service = make_service(settings, stores)
    collector = garbage_collector(settings, stores, backends)
    role = _ControllerRole(settings, stores, backends, system, metrics)
    disk_guard = DiskGuard(
        backends,
        stores.controller,
        service,
        role.running,
        system.clock,
        metrics or NoMetrics(),
        *_reserve(settings),
    )
    await until_reachable(role.join, system)
    try:
        await until_reachable(disk_guard.look, system)
        await until_reachable(lambda: role.controller.run_pass(Wakeup(frozenset(), everyone=True)), system)
        for name, work in (
            ("controller", role.run),
            (
                "ttl",
                lambda: every(
                    settings.ttl_period_seconds,
                    lambda: TtlManager(stores.controller, service).run_round(),
                    system,
                ),
            ),
            ("gc", lambda: every(settings.gc_period_seconds, collector.collect, system)),
            ("room", lambda: every(TICK_S, disk_guard.look, system)),
            ("usage", lambda: every(TICK_S, disk_guard.measure, system)),
        ):
            system.tasks.spawn(supervise(name, work, system), name=name)
        yield role.check
    finally:
        try:
            with suppress(StoreUnavailable):
                await role.controller.leave()
        finally:
            await system.tasks.cancel_all()


def _reserve(settings: Settings) -> tuple[Reserve | None, int]:
    """Return the reserve for the database, and below how much free space it is released.

    None for an external database.
    """
    if settings.database_url is not None or settings.database_reserve_mb == 0:
        return None, 0
    size_mb = settings.database_reserve_mb
    return FileReserve(settings.data_dir, size_mb=size_mb, floor_mb=settings.disk_floor_mb), size_mb // 2


class _ControllerRole:
    """Runs one controller after another under one name: a new one starts with a clean memory."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        backends: Backends,
        system: System,
        metrics: Metrics | None,
    ) -> None:
        self._stores = stores
        self._backends = backends
        self._system = system
        self._metrics = metrics
        self._rules = settings.rules
        self._cadence = Cadence(
            idle_s=settings.idle_period_seconds,
            active_s=settings.active_period_seconds,
            probe_s_min=settings.probe_seconds_min,
            probe_s_max=settings.probe_seconds_max,
            sweep_s=settings.sweep_period_seconds,
            short_max=settings.steps_at_once,
            long_max=settings.long_steps_at_once,
        )
        self._name = f"controller-{system.identity.new_id()}"
        self._host = socket.gethostname()
        self._has_run = False
        self._renew()

    def _renew(self) -> None:
        self._tasks = SystemTasks()
        self.controller = WorkspaceController(
            self._name,
            self._stores.controller,
            self._backends,
            self._stores.controller_hints,
            replace(self._system, tasks=self._tasks),
            host=self._host,
            rules=self._rules,
            cadence=self._cadence,
            metrics=self._metrics,
        )

    async def join(self) -> None:
        """Become a member. Refuses a backend that belongs to another machine."""
        members = self.controller.members
        await members.beat()
        for backend in self._backends.instances:
            if (machine := machine_of(backend, members.others, host=self._host)) is not None:
                await members.leave()
                raise CannotStart(say("other_machine", backend=backend, machine=machine))

    async def run(self) -> None:
        """Run until cancelled, or until it dies: the next run is another controller's."""
        if self._has_run:
            self._renew()
            await until_reachable(self.join, self._system)
        self._has_run = True
        try:
            await self.controller.run()
        except HistoryChanged:
            log.warning("history_changed")
            with suppress(StoreUnavailable):
                await self.controller.leave()
            raise
        finally:
            await self._tasks.cancel_all()

    def running(self) -> Sequence[Workspace]:
        """Return the running workspaces, as the current controller knows them."""
        return self.controller.running()

    async def check(self) -> None:
        silent_s = self._system.clock.monotonic() - self.controller.passed_at
        if silent_s > _SILENCE_S_MAX + self._cadence.idle_s:
            raise NotReady(f"the controller has not looked for {silent_s:.0f} s")


def make_service(settings: Settings, stores: ApiStores) -> WorkspaceService:
    return WorkspaceService(
        stores.api,
        limits=make_limits(settings),
        trash_s=settings.trash_seconds,
        ceilings=settings.ceilings,
    )


def make_limits(settings: Settings) -> Limits:
    return Limits(settings.limit_running_per_user, settings.limit_running_total)


def garbage_collector(settings: Settings, stores: Stores, backends: Backends) -> GarbageCollector:
    return GarbageCollector(
        stores.controller,
        backends,
        grace=timedelta(seconds=settings.gc_grace_seconds),
        history_kept=timedelta(seconds=settings.history_seconds),
    )


async def every(seconds: float, work: Callable[[], Awaitable[object]], system: System) -> None:
    """Do the work again and again. Whatever it raises is logged; the next round comes all the same."""
    while True:
        await system.clock.sleep(seconds)
        try:
            await work()
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
        except Exception:
            log.exception("round_failed")
