"""The database and what stands on it: the configured server or the embedded one, migrated, and the stores of both writers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.embedded import EmbeddedPostgres, find_running
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.postgres.migrate import migrate
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.api.app import Check
from codehub.engine.system import System
from codehub.ports.store import StoreUnavailable
from codehub.settings import Settings

_CHECK_S_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Stores:
    """What the two writers write through, how hints travel, and whose installation this is."""

    api: PostgresApiStore
    access: PostgresAccess
    controller: PostgresControllerStore
    hints: PostgresHints
    installation: str
    check: Check


@asynccontextmanager
async def database(settings: Settings, system: System) -> AsyncIterator[dict[str, Any]]:
    """Yield how to connect to a migrated database: the configured one, or the embedded one, which then runs that long."""
    if settings.database_url is not None:
        connect_args = {"dsn": settings.database_url.get_secret_value()}
        await migrate(connect_args)
        yield connect_args
        return
    embedded = EmbeddedPostgres(settings.data_dir, clock=system.clock, tasks=system.tasks)
    await embedded.start()
    try:
        await migrate(embedded.connect_args)
        yield embedded.connect_args
    finally:
        await embedded.stop()


@asynccontextmanager
async def database_beside(settings: Settings, system: System) -> AsyncIterator[dict[str, Any]]:
    """Yield how to connect beside a codehub that may run: its embedded database if there is one, else as for a start."""
    running = None if settings.database_url is not None else find_running(settings.data_dir)
    if running is None:
        async with database(settings, system) as connect_args:
            yield connect_args
        return
    with running:
        yield running.connect_args


@asynccontextmanager
async def stores(connect_args: dict[str, Any], system: System) -> AsyncIterator[Stores]:
    async with AsyncExitStack() as stack:
        api_pool = await open_pool(connect_args, Role.API)
        stack.callback(api_pool.terminate)
        pool = await open_pool(connect_args, Role.CONTROLLER)
        stack.callback(pool.terminate)
        hints = PostgresHints(pool, connect_args, Role.CONTROLLER, clock=system.clock)
        api_hints = PostgresHints(api_pool, connect_args, Role.API, clock=system.clock)

        async def check() -> None:
            try:
                async with asyncio.timeout(_CHECK_S_MAX):
                    await api_pool.fetchval("SELECT id FROM installation")
            except TimeoutError:
                raise StoreUnavailable(f"the database did not answer within {_CHECK_S_MAX:g} s") from None

        installation = str(await api_pool.fetchval("SELECT id FROM installation"))
        yield Stores(
            PostgresApiStore(api_pool, api_hints),
            PostgresAccess(api_pool),
            PostgresControllerStore(pool, hints),
            hints,
            installation,
            check,
        )
