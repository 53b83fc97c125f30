"""The wiring: settings in, a running codehub out.

The only package that knows which adapter stands behind which port.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from codehub.adapters.prometheus.metrics import PrometheusMetrics
from codehub.app.access import ADMIN
from codehub.app.control import control, garbage_collector
from codehub.app.database import database, database_beside, stores, until_stopped
from codehub.app.edge_processes import EdgeWorkers, shared_port
from codehub.app.greeting import next_steps
from codehub.app.language import say
from codehub.app.open_platform import open_platform
from codehub.app.process import make_system, print_line, progress, run_until_signalled, warn
from codehub.app.second_start import refuse_second, write_address_note
from codehub.app.server import inner_socket
from codehub.app.web import serving_faces
from codehub.engine.gc import Collected
from codehub.engine.system import System
from codehub.settings import Settings


def run_up(settings: Settings, environ: Mapping[str, str]) -> int:
    """Run until Ctrl-C or SIGTERM and return the exit code."""
    return run_until_signalled(settings, environ, up(settings, announce=print_line))


async def up(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Start everything, say so, and run until cancelled.

    Whatever was started is stopped again, in reverse.
    """
    system, metrics = make_system(), PrometheusMetrics()
    refuse_second(settings)
    with shared_port(settings) as listeners, inner_socket() as (inner, inner_path):
        settings = settings.model_copy(update={"port": listeners[0].getsockname()[1]})
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            workers = EdgeWorkers(listeners, system, metrics=metrics)
            stack.push_async_callback(workers.end)
            progress(say("starting.database"))
            connect_args = await enter(database(settings, system))
            all_stores = await enter(stores(connect_args, system, settings.redis_url, is_serving=True))
            progress(say("starting.backend"))
            platform = await enter(open_platform(settings, all_stores, system, stops=True))
            controller_check = await enter(control(settings, all_stores, platform.backends, system, metrics))
            progress(say("starting.address"))
            checks = {"database": all_stores.check, "controller": controller_check}
            faces = await enter(serving_faces(settings, inner, all_stores, platform, system, metrics, checks))
            await enter(workers.serving(connect_args, f"unix://{inner_path}"))
            progress("")
            for warning in platform.warnings:
                warn(warning)
            if settings.is_open_elsewhere:
                warn(say("open_elsewhere", host=settings.host))
            announce(f"address: {settings.base_url}")
            announce(f"user: {ADMIN}")
            if faces.password is not None:
                announce(f"password: {faces.password}")
            announce(f"data: {settings.data_dir}")
            announce(f"backend: {settings.instance_backend}")
            announce(f"ide: {platform.ide}")
            announce("ready")
            if sys.stdout.isatty():
                announce(next_steps(settings, sys.argv[0], is_new=faces.password is not None))
            stack.enter_context(write_address_note(settings))
            await until_stopped(all_stores)


async def collect(settings: Settings, system: System, *, dry_run: bool, orphans: bool) -> Collected:
    """Collect garbage once, beside a codehub that may run."""
    async with (
        database_beside(settings, system) as connect_args,
        stores(connect_args, system, settings.redis_url) as all_stores,
        open_platform(settings, all_stores, system, stops=False) as platform,
    ):
        collector = garbage_collector(settings, all_stores, platform.backends)
        return await collector.collect(dry_run=dry_run, orphans=orphans)
