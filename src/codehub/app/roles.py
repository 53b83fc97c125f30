"""Roles as processes of their own (spec §10): each finds the others in the database alone; the proxy finds
the API by its address.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

from codehub.adapters.prometheus.metrics import PrometheusMetrics
from codehub.app.access import ADMIN
from codehub.app.control import control
from codehub.app.database import ApiStores, api_stores, database, database_beside, stores, until_stopped
from codehub.app.database import migrate_database as database_migrated
from codehub.app.drain import Drain
from codehub.app.edge import edge, upstreams_of
from codehub.app.edge_processes import EdgeWorkers, shared_port
from codehub.app.errors import CannotStart
from codehub.app.health_port import answering_health
from codehub.app.language import say
from codehub.app.open_platform import open_platform
from codehub.app.platform import Platform
from codehub.app.process import make_system, print_line, warn
from codehub.app.server import bind_port
from codehub.app.web import serving_faces
from codehub.core.origins import NONE
from codehub.engine.system import System
from codehub.settings import Settings


async def api(settings: Settings, drain: Drain) -> None:
    """Serve the API, and feed its streams, until cancelled or drained."""
    _require(settings, "api", "database_url", "public_base_url")
    system = make_system()
    with bind_port(settings) as listener:
        async with _open_role(settings, system, partial(api_stores, is_serving=True)) as (
            stack,
            _connect_args,
            all_stores,
            platform,
        ):
            checks = {"process": drain.check, "database": all_stores.check}
            faces = await stack.enter_async_context(
                serving_faces(settings, listener, all_stores, platform, system, PrometheusMetrics(), checks)
            )
            # Its own /readyz is the installation's: what that lacks takes no API out of the balance.
            await stack.enter_async_context(answering_health(settings, checks, system))
            host, port = listener.getsockname()[:2]
            print_line(f"listens: {host}:{port}")
            print_line(f"address: {settings.base_url}")
            if faces.password is not None:
                print_line(f"user: {ADMIN}")
                print_line(f"password: {faces.password}")
            await _serve(all_stores, drain, faces.leave)


async def proxy(settings: Settings, drain: Drain) -> None:
    """Serve the public port until cancelled or drained: workspaces from here, all else from the APIs at
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
            platform,
        ):
            leave: Callable[[Drain], Awaitable[None]]
            if len(listeners) > 1:
                workers = EdgeWorkers(listeners, system)
                await stack.enter_async_context(workers.serving(connect_args, settings.api_url))
                leave = workers.leave
            else:  # nothing else is in this process
                upstreams = upstreams_of(settings.api_url)
                public_port = await stack.enter_async_context(
                    edge(settings, listeners[0], upstreams, all_stores, platform.backends, system)
                )
                leave = public_port.leave
            checks = {"process": drain.check, "database": all_stores.check}
            await stack.enter_async_context(answering_health(settings, checks, system))
            host, port = listeners[0].getsockname()[:2]
            print_line(f"listens: {host}:{port}")
            print_line(f"address: {settings.base_url}")
            await _serve(all_stores, drain, leave)


async def controller(settings: Settings, drain: Drain) -> None:
    """Bring workspaces to their desired state until cancelled, or told to hand them over."""
    _require(settings, "controller", "database_url")
    if settings.public_base_url is None:  # then nobody has said by which names browsers come
        settings = settings.model_copy(update={"workspace_host": NONE})
    system = make_system()
    async with _open_role(settings, system, stores, controls=True) as (
        stack,
        _connect_args,
        all_stores,
        platform,
    ):
        controller_check = await stack.enter_async_context(
            control(settings, all_stores, platform.backends, system)
        )
        checks = {"process": drain.check, "database": all_stores.check, "controller": controller_check}
        await stack.enter_async_context(answering_health(settings, checks, system))
        for warning in platform.warnings:
            warn(warning)
        print_line(f"data: {settings.data_dir}")
        print_line(f"backend: {settings.instance_backend}")
        print_line(f"ide: {platform.ide}")
        await _serve(all_stores, drain, _go_at_once)


async def migrate_database(settings: Settings, system: System, *, contracts: bool) -> list[str]:
    """Bring the database to this program's schema, and return the names of what was applied."""
    async with database_beside(settings, system, is_migrated=False) as connect_args:
        applied = await database_migrated(settings, connect_args, contracts=contracts)
    return [f"{migration.number:04} {migration.name}" for migration in applied]


StoresT = TypeVar("StoresT", bound=ApiStores)


@asynccontextmanager
async def _open_role(
    settings: Settings,
    system: System,
    open_stores: Callable[..., AbstractAsyncContextManager[StoresT]],
    *,
    controls: bool = False,
) -> AsyncIterator[tuple[AsyncExitStack, dict[str, object], StoresT, Platform]]:
    """Yield what every role needs: the database, its own stores, the platform. `controls`: it runs
    instances.
    """
    async with AsyncExitStack() as stack:
        connect_args = await stack.enter_async_context(database(settings, system))
        all_stores = await stack.enter_async_context(open_stores(connect_args, system, settings.redis_url))
        platform = await stack.enter_async_context(
            open_platform(settings, all_stores, system, stops=controls, is_shared=controls)
        )
        yield stack, connect_args, all_stores, platform


def _require(settings: Settings, role: str, *names: str) -> None:
    missing = [f"CODEHUB_{name.upper()}" for name in names if getattr(settings, name) is None]
    if missing:
        raise CannotStart(say("role_needs", role=role, settings=say("and").join(missing)))


async def _serve(all_stores: ApiStores, drain: Drain, leave: Callable[[Drain], Awaitable[None]]) -> None:
    """Say that this role is ready, and return when it has left in order."""

    async def until_left() -> None:
        await drain.wait()
        await leave(drain)

    drain.allow()
    print_line("ready")
    await until_stopped(all_stores, until_left())


async def _go_at_once(_drain: Drain) -> None:
    """Do nothing: nobody is served here, and whoever stops is followed by others at once."""
