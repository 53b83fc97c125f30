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
from codehub.core.limits import Limits
from codehub.core.membership import machine_of
from codehub.engine.alarm import Woken
from codehub.engine.controller import Controller
from codehub.engine.gc import GarbageCollector
from codehub.engine.platforms import Platforms
from codehub.engine.system import Cadence, System
from codehub.engine.ttl import put_to_sleep
from codehub.ports.store import StoreUnavailable
from codehub.service.workspaces import WorkspaceService
from codehub.settings import Settings

log = structlog.get_logger()

_TTL_PERIOD_S = 5.0
_GC_PERIOD_S = 3600.0


@asynccontextmanager
async def control(
    settings: Settings, stores: Stores, platforms: Platforms, system: System
) -> AsyncIterator[None]:
    """Settle what the last process left before anything else begins (spec §5, Start-up); then go on beside the caller."""
    system = replace(system, tasks=SystemTasks())
    service = make_service(settings, stores)
    collector = garbage_collector(settings, stores, platforms)
    cadence = Cadence(idle_s=settings.idle_period_seconds, active_s=settings.active_period_seconds)
    name = f"controller-{system.identity.new_id()}"
    host = socket.gethostname()
    controller = Controller(
        name, stores.controller, platforms, stores.hints, system, host=host, cadence=cadence
    )

    async def sleep_round() -> None:
        await put_to_sleep(stores.controller, service)

    async def collect_round() -> None:
        await collector.collect()

    await controller.members.beat()
    for backend in platforms.instances:
        if (machine := machine_of(backend, controller.members.others, host=host)) is not None:
            await controller.members.leave()
            raise CannotStart(
                f"{backend} belongs to one machine, and {machine} has it: stop codehub there, or set CODEHUB_INSTANCE_BACKEND"
            )
    try:
        await controller.run_pass(Woken(frozenset(), everyone=True))
        system.tasks.spawn(controller.run(), name="controller")
        system.tasks.spawn(every(_TTL_PERIOD_S, sleep_round, system), name="ttl")
        system.tasks.spawn(every(_GC_PERIOD_S, collect_round, system), name="gc")
        yield
    finally:
        await system.tasks.settle()
        with suppress(StoreUnavailable):
            await controller.leave()


def make_service(settings: Settings, stores: Stores) -> WorkspaceService:
    limits = Limits(settings.limit_running_per_user, settings.limit_running_total)
    return WorkspaceService(stores.api, limits=limits, trash_s=settings.trash_seconds)


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
