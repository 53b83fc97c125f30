"""Opens the database, configured or embedded, migrates it, and opens the stores of both writers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from codehub.adapters.postgres.access import PostgresAccess
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool, report_outages
from codehub.adapters.postgres.credentials import PostgresCredentials
from codehub.adapters.postgres.doors import PostgresDoors
from codehub.adapters.postgres.embedded import EmbeddedPostgres, find_running, has_cluster
from codehub.adapters.postgres.hints import PEOPLE_CHANNEL, PostgresHints
from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.migrate import Migration, migrate
from codehub.adapters.postgres.ports import PostgresSharedPorts
from codehub.adapters.postgres.store import PostgresControllerStore
from codehub.app.database_wait import until_reachable
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.engine.system import System
from codehub.ports.hints import Hints
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Tasks
from codehub.settings import Settings
from codehub.web.dependencies import Check

_CHECK_S_MAX = 2.0
_DEFAULT_PORT = 5432
_INSTALLATION = "SELECT id FROM installation"
SERVING_CONNECTIONS = 8
ANSWER_S_MAX = 15.0  # a request waits no longer for the database: it is answered with 503
_PASS_ANSWER_S_MAX = (
    120.0  # nor does a pass, which may read every row: one that hangs would stop the controller
)
LAST_ANSWER_S_MAX = 3.0  # nor does anything during a shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiStores:
    """What the API's role reads and writes through, how its hints travel, and whose installation this is."""

    api: PostgresApiStore
    access: PostgresAccess
    credentials: PostgresCredentials
    doors: PostgresDoors
    ports: PostgresSharedPorts
    api_hints: Hints
    people_hints: PostgresHints
    installation: str
    check: Check
    terminate: Callable[[], None]
    """Close all connections at once: every pending query fails, even one that is being cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores(ApiStores):
    """The same, and what the controller's role reads and writes through."""

    controller: PostgresControllerStore
    controller_hints: Hints


@asynccontextmanager
async def database(
    settings: Settings, system: System, *, is_migrated: bool = True
) -> AsyncIterator[dict[str, Any]]:
    """Yield how to connect to a migrated database: the configured one, or the embedded one, which then runs
    that long.

    `is_migrated` False leaves the migrating to the caller.
    """
    if settings.database_url is not None:
        connect_args = {"dsn": settings.database_url.get_secret_value()}
        if is_migrated:
            await migrate_database(settings, connect_args)
        yield connect_args
        return
    embedded = EmbeddedPostgres(settings.data_dir, clock=system.clock, tasks=system.tasks)
    await embedded.start()
    try:
        if is_migrated:
            await until_reachable(
                lambda: migrate_database(settings, embedded.connect_args, contracts=True),  # nobody is beside
                system,
            )
        yield embedded.connect_args
    finally:
        await embedded.stop()


async def migrate_database(
    settings: Settings, connect_args: dict[str, Any], *, contracts: bool = False
) -> Sequence[Migration]:
    """Bring the database to this program's schema and return what was
    applied. `contracts`: no earlier release serves any more.

    An error about the server names its setting.
    """
    try:
        return await migrate(connect_args, contracts=contracts)
    except (StoreUnavailable, ValueError) as error:
        if settings.database_url is None:
            raise
        # An address that can't be parsed is not repeated: a part of the password may stand in place of the
        # port.
        reason = f" ({error})" if isinstance(error, StoreUnavailable) else ""
        raise CannotStart(
            say("no_database", place=_host_and_port(settings.database_url), reason=reason)
        ) from None


def _host_and_port(url: SecretStr) -> str:
    """Return the host and port of a database, and nothing else of its address."""
    parts = urlsplit(url.get_secret_value())
    try:
        return f"{parts.hostname or say('this_machine')}:{parts.port or _DEFAULT_PORT}"
    except ValueError:
        return say("set_address")


@asynccontextmanager
async def database_beside(
    settings: Settings, system: System, *, is_migrated: bool = True
) -> AsyncIterator[dict[str, Any]]:
    """Yield how to connect beside a running codehub.

    The embedded database must exist: it is not made here.
    """
    if settings.database_url is None and not has_cluster(settings.data_dir):
        raise CannotStart(say("no_codehub", directory=settings.data_dir))
    running = None if settings.database_url is not None else find_running(settings.data_dir)
    if running is None:
        async with database(settings, system, is_migrated=is_migrated) as connect_args:
            yield connect_args
        return
    with running:
        yield running.connect_args


@asynccontextmanager
async def api_stores(
    connect_args: dict[str, Any],
    system: System,
    redis_url: SecretStr | None = None,
    *,
    is_serving: bool = False,
    answer_s_max: float = ANSWER_S_MAX,
) -> AsyncIterator[ApiStores]:
    """Open the API's stores alone: what serves people needs no more. With a Redis, that carries the hints."""
    async with AsyncExitStack() as stack:
        lineage = Lineage()
        pool = await until_reachable(
            lambda: open_pool(
                connect_args,
                Role.API,
                size_min=SERVING_CONNECTIONS if is_serving else 1,
                size_max=SERVING_CONNECTIONS,
                answer_s_max=answer_s_max,
                lineage=lineage,
            ),
            system,
        )
        stack.callback(pool.terminate)
        hints: Hints = PostgresHints(pool, connect_args, Role.API, clock=system.clock)
        if redis_url is not None:
            hints = await stack.enter_async_context(_redis_hints(redis_url, system))

        async def installation_id() -> str:
            async with report_outages():
                return str(await pool.fetchval(_INSTALLATION))

        probe = _Probe(lambda: pool.fetchval(_INSTALLATION), system.tasks)
        yield ApiStores(
            api=PostgresApiStore(pool, hints, lineage),
            access=PostgresAccess(pool),
            credentials=PostgresCredentials(pool),
            doors=PostgresDoors(pool),
            ports=PostgresSharedPorts(pool, hints),
            api_hints=hints,
            people_hints=PostgresHints(
                pool, connect_args, Role.API, clock=system.clock, channel=PEOPLE_CHANNEL
            ),
            installation=await until_reachable(installation_id, system),
            check=probe.check,
            terminate=pool.terminate,
        )


@asynccontextmanager
async def stores(
    connect_args: dict[str, Any],
    system: System,
    redis_url: SecretStr | None = None,
    *,
    is_serving: bool = False,
    answer_s_max: float = ANSWER_S_MAX,
) -> AsyncIterator[Stores]:
    """Open both writers' stores. With a Redis, that carries the hints."""
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            api_stores(connect_args, system, redis_url, is_serving=is_serving, answer_s_max=answer_s_max)
        )
        lineage = Lineage()
        pool = await until_reachable(
            lambda: open_pool(
                connect_args, Role.CONTROLLER, answer_s_max=_PASS_ANSWER_S_MAX, lineage=lineage
            ),
            system,
        )
        stack.callback(pool.terminate)
        by_database = PostgresHints(pool, connect_args, Role.CONTROLLER, clock=system.clock)
        sender, listener = (
            (by_database, by_database.of_others())
            if redis_url is None
            else (opened.api_hints, opened.api_hints)
        )

        def terminate() -> None:
            opened.terminate()
            pool.terminate()

        yield Stores(
            api=opened.api,
            access=opened.access,
            credentials=opened.credentials,
            doors=opened.doors,
            ports=opened.ports,
            api_hints=opened.api_hints,
            people_hints=opened.people_hints,
            installation=opened.installation,
            check=opened.check,
            terminate=terminate,
            controller=PostgresControllerStore(pool, sender, lineage),
            controller_hints=listener,
        )


@asynccontextmanager
async def _redis_hints(url: SecretStr, system: System) -> AsyncIterator[Hints]:
    from codehub.adapters.redis.hints import RedisHints  # noqa: PLC0415  # it takes a while to import

    try:
        hints = RedisHints(url.get_secret_value(), clock=system.clock)
    except (TypeError, ValueError) as error:
        raise CannotStart(say("wrong_redis", error=error)) from None
    try:
        yield hints
    finally:
        await hints.close()


async def until_stopped(
    all_stores: ApiStores,
    end: Awaitable[object] | None = None,
    *,
    last_answer_s_max: float = LAST_ANSWER_S_MAX,
) -> None:
    """Wait until cancelled, or for `end`.

    A moment later all database connections are closed: one may hang.
    """
    try:
        await (end or asyncio.Event().wait())
    finally:
        asyncio.get_running_loop().call_later(last_answer_s_max, all_stores.terminate)


class _Probe:
    """Runs one query at a time, and waits shortly for it: a query that hangs can't be cancelled."""

    def __init__(self, ask: Callable[[], Awaitable[object]], tasks: Tasks) -> None:
        self._ask = ask
        self._tasks = tasks
        self._query: asyncio.Future[None] | None = None

    async def check(self) -> None:
        if self._query is None:
            self._query = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._answer(self._query), name="probe")
        error = StoreUnavailable(f"the database did not answer within {_CHECK_S_MAX:g} s")
        done, _ = await asyncio.wait({self._query}, timeout=_CHECK_S_MAX)
        if not done:
            raise error
        try:
            done.pop().result()
        except TimeoutError:
            raise error from None

    async def _answer(self, result: "asyncio.Future[None]") -> None:
        try:
            await self._ask()
        except Exception as error:  # noqa: BLE001  # the waiting check raises it
            result.set_exception(error)
            result.exception()
        else:
            result.set_result(None)
        finally:
            self._query = None
