"""The wiring: settings in, a running codehub out. The only package that knows which adapter stands behind which port."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

import structlog
import uvloop

from codehub.adapters.postgres.embedded import EmbeddedPostgresError
from codehub.adapters.postgres.migrate import MigrationRefused
from codehub.adapters.prometheus.meters import PrometheusMeters
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.access import ADMIN, first_admin, make_access
from codehub.app.control import control, garbage_collector, make_service
from codehub.app.database import database, database_beside, stores
from codehub.app.edge import StoredPlaces, edge
from codehub.app.errors import CannotStart
from codehub.app.face import make_web
from codehub.app.local import local_platform
from codehub.app.roles import supervised
from codehub.app.web import inner_socket, serving
from codehub.app.workers import edge_workers, shared_port
from codehub.engine.gc import Collected
from codehub.engine.system import System
from codehub.logs import configure_logs
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import UnixUpstream
from codehub.ports.store import StoreUnavailable
from codehub.settings import Settings, unknown_settings

log = structlog.get_logger()
T = TypeVar("T")

_EXPECTED = (CannotStart, EmbeddedPostgresError, MigrationRefused, StoreUnavailable, BackendUnreachable)


def run_up(settings: Settings, environ: Mapping[str, str]) -> int:
    """Run until Ctrl-C or SIGTERM and return the exit code."""
    configure_logs()
    for line in unknown_settings(environ):
        print(f"codehub: {line}", file=sys.stderr)  # noqa: T201  # words for people go to stderr
    return _run(_until_signalled(up(settings, announce=_say)))


def run_gc(settings: Settings, tell: Callable[[Collected], None], *, dry_run: bool, orphans: bool) -> int:
    """Collect garbage once, beside a codehub that may run, and return the exit code."""
    configure_logs()
    return _run(collect(settings, tell, dry_run=dry_run, orphans=orphans))


async def up(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Start everything, say so, and run until cancelled. Whatever was started is stopped again, in reverse."""
    system, meters = _system(), PrometheusMeters()
    workers = settings.proxy_workers
    with shared_port(settings, workers) as listeners, inner_socket() as (inner, inner_path):
        settings = settings.model_copy(update={"port": listeners[0].getsockname()[1]})
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            connect_args = await enter(database(settings, system))
            stored = await enter(stores(connect_args, system, settings.redis_url))
            local = await enter(local_platform(settings, stored, system, stops=True))
            is_controlled = await enter(control(settings, stored, local.platforms, system, meters))
            access = make_access(stored, system)
            password = await first_admin(settings, access, system)
            web = make_web(
                settings,
                stored,
                local.platforms,
                access,
                system,
                meters,
                ide=local.ide,
                ides=local.ides,
                checks={"database": stored.check, "controller": is_controlled},
            )
            feed = system.tasks.spawn(supervised("events", web.feed.run, system), name="events")
            stack.callback(feed.cancel)
            await enter(serving(web.app, inner, system))
            at_the_edge: AbstractAsyncContextManager[object] = (
                edge_workers(listeners, connect_args, inner_path, system)
                if workers
                else edge(
                    settings,
                    listeners[0],
                    UnixUpstream(inner_path),
                    places=StoredPlaces(stored.controller, stored.api, local.platforms.instances),
                    doorkeeper=stored.doorkeeper,
                    service=make_service(settings, stored),
                    hints=stored.hints,
                    people_hints=stored.people_hints,
                    system=system,
                )
            )
            await enter(at_the_edge)
            for warning in local.warnings:
                print(f"codehub: WARNING: {warning}", file=sys.stderr)  # noqa: T201
            announce(f"address: {settings.base_url}")
            announce(f"user: {ADMIN}")
            if password is not None:
                announce(f"password: {password}")
            announce(f"data: {settings.data_dir}")
            announce(f"backend: {settings.instance_backend}")
            announce(f"ide: {local.ide}")
            announce("ready")
            await asyncio.Event().wait()


def run_beside(settings: Settings, work: Callable[[Settings, System], Coroutine[Any, Any, T]]) -> T:
    """Do something beside a codehub that may run. Raises CannotStart with words for people."""
    configure_logs(level=logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(work(settings, _system()))
        except _EXPECTED as error:
            raise CannotStart(str(error)) from error


async def collect(
    settings: Settings, tell: Callable[[Collected], None], *, dry_run: bool, orphans: bool
) -> None:
    system = _system()
    async with (
        database_beside(settings, system) as connect_args,
        stores(connect_args, system, settings.redis_url) as stored,
        local_platform(settings, stored, system, stops=False) as local,
    ):
        collector = garbage_collector(settings, stored, local.platforms)
        tell(await collector.collect(dry_run=dry_run, orphans=orphans))


def _system() -> System:
    return System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())


def _run(work: Coroutine[Any, Any, None]) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(work)
        except _EXPECTED as error:
            print(f"codehub: {error}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


async def _until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends or the first SIGINT or SIGTERM cancels it. Later signals don't cut the stopping short."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    was_signalled = False

    def stop() -> None:
        nonlocal was_signalled
        if not was_signalled:
            was_signalled = True
            log.info("stopping")
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await work
    except asyncio.CancelledError:
        if not was_signalled:
            raise


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # the lines that wire.md fixes go to stdout
