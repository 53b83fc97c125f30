"""The wiring: settings in, a running codehub out. The only module that knows which adapter stands behind which port."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import uvicorn
import uvloop

from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from codehub.adapters.postgres.migrate import MigrationRefused, migrate
from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemTasks
from codehub.api.app import create_app
from codehub.logs import configure_logs
from codehub.ports.store import StoreUnavailable
from codehub.settings import Settings, unknown_settings

log = structlog.get_logger()

_CHECK_S_MAX = 2.0
_REQUESTS_END_S_MAX = 1


class CannotStart(Exception):
    """Why codehub can't start, in one line that says what to do."""


@dataclass(frozen=True, slots=True)
class System:
    """The real machine, behind its ports."""

    clock: SystemClock
    identity: SystemIdentity
    tasks: SystemTasks


def run_up(settings: Settings, environ: Mapping[str, str]) -> int:
    """Run until Ctrl-C or SIGTERM and return the exit code."""
    configure_logs()
    for line in unknown_settings(environ):
        print(f"codehub: {line}", file=sys.stderr)  # noqa: T201  # words for people go to stderr
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_until_signalled(up(settings, announce=_say)))
        except (CannotStart, EmbeddedPostgresError, MigrationRefused, StoreUnavailable) as error:
            print(f"codehub: {error}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


async def up(settings: Settings, *, announce: Callable[[str], None]) -> None:
    """Start everything, say so, and run until cancelled. Whatever was started is stopped again, in reverse."""
    system = System(SystemClock(), SystemIdentity(), SystemTasks())
    with _bound(settings) as listener:
        async with database(settings, system) as connect_args, pool(connect_args) as ask:
            app = create_app({"database": ask}, identity=system.identity, clock=system.clock)
            async with _web(app, listener, system) as served:
                port = listener.getsockname()[1]
                announce(f"address: {settings.model_copy(update={'port': port}).base_url}")
                announce(f"data: {settings.data_dir}")
                announce("ready")
                await asyncio.wait({served})
                raise CannotStart("the web server ended by itself: see the log above")


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
async def pool(connect_args: dict[str, Any]) -> AsyncIterator[Callable[[], Any]]:
    """Yield a check that asks the database, in the API's role."""
    connections = await open_pool(connect_args, Role.API)

    async def ask() -> None:
        try:
            async with asyncio.timeout(_CHECK_S_MAX):
                await connections.fetchval("SELECT id FROM installation")
        except TimeoutError:
            raise StoreUnavailable(f"the database did not answer within {_CHECK_S_MAX:g} s") from None

    try:
        yield ask
    finally:
        connections.terminate()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: the web server is one of several things that they stop."""
        yield


@asynccontextmanager
async def _web(app: Any, listener: socket.socket, system: System) -> AsyncIterator[asyncio.Task[Any]]:
    """Yield the task that serves `app`, from when it answers until its requests have ended."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_REQUESTS_END_S_MAX,
        )
    )
    serving = system.tasks.spawn(server.serve(sockets=[listener]), name="web")
    try:
        while not server.started and not serving.done():
            await system.clock.sleep(0.01)
        yield serving
    finally:
        server.should_exit = True
        await asyncio.wait({serving})


@contextmanager
def _bound(settings: Settings) -> Iterator[socket.socket]:
    """Take the port before anything else is started: that it is taken should be known at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise CannotStart(
                f"can't listen on {settings.host}:{settings.port} ({error.strerror}): "
                "set CODEHUB_PORT to a free port or CODEHUB_HOST to an address of this machine"
            ) from None
        yield listener
    finally:
        listener.close()


async def _until_signalled(work: Any) -> None:
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
