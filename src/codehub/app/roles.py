"""Roles as processes of their own (spec §10): each finds the others in the database alone; the proxy finds
the API by its address.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

from codehub.adapters.prometheus.metrics import PrometheusMetrics
from codehub.app.access import ADMIN
from codehub.app.control import control
from codehub.app.database import ApiStores, api_stores, database, database_beside, stores, until_stopped
from codehub.app.database import migrate_database as database_migrated
from codehub.app.edge import edge, upstream_of
from codehub.app.edge_processes import EdgeWorkers, shared_port
from codehub.app.errors import CannotStart
from codehub.app.platform import Platform, platform
from codehub.app.process import make_system, say, warn
from codehub.app.server import bind_port
from codehub.app.web import serving_faces
from codehub.engine.system import System
from codehub.settings import Settings


async def api(settings: Settings) -> None:
    """Serve the API, and feed its streams, until cancelled."""
    _require(settings, "api", "database_url", "public_base_url")
    system = make_system()
    with bind_port(settings) as listener:
        async with _open_role(settings, system, partial(api_stores, is_serving=True)) as (
            stack,
            _connect_args,
            all_stores,
            host_platform,
        ):
            faces = serving_faces(
                settings,
                listener,
                all_stores,
                host_platform,
                system,
                PrometheusMetrics(),
                {"database": all_stores.check},
            )
            password = await stack.enter_async_context(faces)
            host, port = listener.getsockname()[:2]
            say(f"listens: {host}:{port}")
            say(f"address: {settings.base_url}")
            if password is not None:
                say(f"user: {ADMIN}")
                say(f"password: {password}")
            await _announce_ready(all_stores)


async def proxy(settings: Settings) -> None:
    """Serve the public port until cancelled: workspaces from here, all else from the API at
    CODEHUB_API_URL.
    """
    _require(settings, "proxy", "database_url", "public_base_url", "api_url")
    assert settings.api_url is not None
    system = make_system()
    with shared_port(settings) as listeners:
        async with _open_role(settings, system, api_stores) as (
            stack,
            connect_args,
            all_stores,
            host_platform,
        ):
            if len(listeners) > 1:
                workers = EdgeWorkers(listeners, system)
                await stack.enter_async_context(workers.serving(connect_args, settings.api_url))
            else:  # nothing else is in this process
                upstream = upstream_of(settings.api_url)
                await stack.enter_async_context(
                    edge(settings, listeners[0], upstream, all_stores, host_platform.backends, system)
                )
            host, port = listeners[0].getsockname()[:2]
            say(f"listens: {host}:{port}")
            say(f"address: {settings.base_url}")
            await _announce_ready(all_stores)


async def controller(settings: Settings) -> None:
    """Bring workspaces to their desired state until cancelled."""
    _require(settings, "controller", "database_url")
    system = make_system()
    async with _open_role(settings, system, stores, stops=True) as (
        stack,
        _connect_args,
        all_stores,
        host_platform,
    ):
        await stack.enter_async_context(control(settings, all_stores, host_platform.backends, system))
        for warning in host_platform.warnings:
            warn(warning)
        say(f"data: {settings.data_dir}")
        say(f"backend: {settings.instance_backend}")
        say(f"ide: {host_platform.ide}")
        await _announce_ready(all_stores)


async def migrate_database(settings: Settings, system: System) -> list[str]:
    """Bring the database to this program's schema, and return the names of what was applied."""
    async with database_beside(settings, system, is_migrated=False) as connect_args:
        applied = await database_migrated(settings, connect_args)
    return [f"{migration.number:04} {migration.name}" for migration in applied]


StoresT = TypeVar("StoresT", bound=ApiStores)


@asynccontextmanager
async def _open_role(
    settings: Settings,
    system: System,
    open_stores: Callable[..., AbstractAsyncContextManager[StoresT]],
    *,
    stops: bool = False,
) -> AsyncIterator[tuple[AsyncExitStack, dict[str, object], StoresT, Platform]]:
    """Yield what every role needs: the database, its own stores, the platform."""
    async with AsyncExitStack() as stack:
        connect_args = await stack.enter_async_context(database(settings, system))
        all_stores = await stack.enter_async_context(open_stores(connect_args, system, settings.redis_url))
        host_platform = await stack.enter_async_context(platform(settings, all_stores, system, stops=stops))
        yield stack, connect_args, all_stores, host_platform


def _require(settings: Settings, role: str, *names: str) -> None:
    missing = [f"CODEHUB_{name.upper()}" for name in names if getattr(settings, name) is None]
    if missing:
        raise CannotStart(
            f"`codehub {role}` runs beside other processes of codehub: set {' and '.join(missing)} "
            "(docs/operators.md), or use `codehub up`, which needs nothing"
        )


async def _announce_ready(all_stores: ApiStores) -> None:
    say("ready")
    await until_stopped(all_stores)
