"""The controller role: the loop, time to live and garbage collection, side by side until everything is stopped."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import structlog

from codehub.adapters.system.machine import SystemTasks
from codehub.app.database import Stores
from codehub.app.errors import CannotStart
from codehub.app.roles import supervised
from codehub.core.limits import Limits
from codehub.core.membership import machine_of
from codehub.engine.alarm import Woken
from codehub.engine.controller import Controller
from codehub.engine.gc import GarbageCollector
from codehub.engine.platforms import Platforms
from codehub.engine.system import Cadence, System
from codehub.engine.ttl import put_to_sleep
from codehub.ports.meters import Meters
from codehub.ports.store import StoreUnavailable
from codehub.service.workspaces import WorkspaceService
from codehub.settings import Settings
from codehub.web.parts import Check

log = structlog.get_logger()

_TTL_PERIOD_S = 5.0
_GC_PERIOD_S = 3600.0
_SILENCE_S_MAX = 30.0


class ControllerStopped(Exception):
    """The controller has not looked for too long: nothing moves."""


@asynccontextmanager
async def control(
    settings: Settings, stores: Stores, platforms: Platforms, system: System, meters: Meters | None = None
) -> AsyncIterator[Check]:
    """Settle what the last process left before anything else begins (spec §5, Start-up); then go on beside the caller.

    Yields a check of whether it still looks.
    """
    system = replace(system, tasks=SystemTasks())
    service = make_service(settings, stores)
    collector = garbage_collector(settings, stores, platforms)
    cadence = Cadence(idle_s=settings.idle_period_seconds, active_s=settings.active_period_seconds)
    name = f"controller-{system.identity.new_id()}"
    host = socket.gethostname()

    def make() -> tuple[Controller, SystemTasks]:
        tasks = SystemTasks()
        own = replace(system, tasks=tasks)
        made = Controller(
            name,
            stores.controller,
            platforms,
            stores.controller_hints,
            own,
            host=host,
            cadence=cadence,
            meters=meters,
        )
        return made, tasks

    current = make()
    fresh = [current]

    async def control_role() -> None:
        nonlocal current
        current = controller, tasks = fresh.pop() if fresh else make()
        try:
            await controller.run()
        finally:
            await tasks.settle()

    async def check() -> None:
        silent_s = system.clock.monotonic() - current[0].passed_at
        if silent_s > _SILENCE_S_MAX + settings.idle_period_seconds:
            raise ControllerStopped(f"the controller has not looked for {silent_s:.0f} s")

    async def sleep_round() -> None:
        await put_to_sleep(stores.controller, service)

    async def collect_round() -> None:
        await collector.collect()

    await _join(current[0], platforms, host)
    try:
        await current[0].run_pass(Woken(frozenset(), everyone=True))
        for role, work in (
            ("controller", control_role),
            ("ttl", lambda: every(_TTL_PERIOD_S, sleep_round, system)),
            ("gc", lambda: every(_GC_PERIOD_S, collect_round, system)),
        ):
            system.tasks.spawn(supervised(role, work, system), name=role)
        yield check
    finally:
        await system.tasks.settle()
        with suppress(StoreUnavailable):
            await current[0].leave()


async def _join(controller: Controller, platforms: Platforms, host: str) -> None:
    """Become a member. Refuses a backend that belongs to another machine."""
    await controller.members.beat()
    for backend in platforms.instances:
        if (machine := machine_of(backend, controller.members.others, host=host)) is not None:
            await controller.members.leave()
            raise CannotStart(
                f"{backend} belongs to one machine, and {machine} has it: stop codehub there, or set CODEHUB_INSTANCE_BACKEND"
            )


def make_service(settings: Settings, stores: Stores) -> WorkspaceService:
    return WorkspaceService(stores.api, limits=make_limits(settings), trash_s=settings.trash_seconds)


def make_limits(settings: Settings) -> Limits:
    return Limits(settings.limit_running_per_user, settings.limit_running_total)


def garbage_collector(settings: Settings, stores: Stores, platforms: Platforms) -> GarbageCollector:
    return GarbageCollector(stores.controller, platforms, grace=timedelta(seconds=settings.gc_grace_seconds))


async def every(seconds: float, work: Callable[[], Awaitable[None]], system: System) -> None:
    """Do the work again and again. Whatever it raises is logged; the next round comes all the same."""
    while True:
        await system.clock.sleep(seconds)
        try:
            await work()
        except StoreUnavailable as error:
            log.warning("store_unavailable", reason=str(error))
        except Exception:
            log.exception("round_failed")
