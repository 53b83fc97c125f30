"""The web server: a port that is taken at once, and an application that is served on it until its requests
have ended.
"""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from codehub.app.connections import BoundedProtocol
from codehub.app.errors import CannotStart
from codehub.app.supervisor import supervise
from codehub.engine.system import System
from codehub.settings import Settings

_REQUESTS_END_S_MAX = 1
_TICK_S = 1.0
_SILENCE_S_MAX = 120
_UNACKNOWLEDGED_MS_MAX = 60_000


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end_signal = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals here: the web server is one of several things that they stop."""
        yield

    def end(self) -> None:
        self.should_exit = True
        self._end_signal.set()

    async def main_loop(self) -> None:
        """Tick once a second, and end at once. uvicorn's own ten ticks a second are half of what an idle
        codehub does.
        """
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._end_signal.wait()


class WebServerEnded(Exception):
    """The web server ended though nobody asked it to."""


def make_server(app: Any) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # codehub.web.addresses decides which proxies are trusted (security 5)
            timeout_graceful_shutdown=_REQUESTS_END_S_MAX,
        )
    )


@asynccontextmanager
async def serving(app: Any, listener: socket.socket, system: System) -> AsyncIterator[None]:
    """Serve `app` until its requests have ended.

    A server that ends by itself is started again on the same port.
    """
    server: _Server | None = None
    is_stopping = False
    ended = asyncio.Event()

    async def serve() -> None:
        nonlocal server
        server = make_server(app)
        await server.serve(sockets=[listener.dup()])
        if not is_stopping:
            raise WebServerEnded("the web server ended by itself")

    task = system.tasks.spawn(supervise("web", serve, system), name="web")
    task.add_done_callback(lambda _task: ended.set())
    try:
        while not (server and server.started) and not ended.is_set():
            await system.clock.sleep(0.01)
        yield
    finally:
        is_stopping = True
        if server and server.started:
            server.end()
        else:
            task.cancel()
        await ended.wait()


@contextmanager
def inner_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield a socket that only codehub itself reaches, for the API behind the edge.

    Its path is short: there is a limit.
    """
    with tempfile.TemporaryDirectory(prefix="codehub-") as directory:
        path = Path(directory) / "api.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            yield listener, path


@contextmanager
def bind_port(settings: Settings, *, is_shared: bool = False) -> Iterator[socket.socket]:
    """Bind the port before anything else is started, so that a port in use is reported at once.

    `is_shared`: several of our sockets bind it.
    """
    try:
        listener = make_listener(settings.host, settings.port, is_shared=is_shared)
    except OSError as error:
        raise CannotStart(
            f"can't listen on {settings.host}:{settings.port} ({error.strerror}): "
            "set CODEHUB_PORT to a free port or CODEHUB_HOST to an address of this machine"
        ) from None
    with listener:
        yield listener


def make_listener(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """Return a socket that is bound there. What it accepts inherits its options."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # A head and its body are two writes: without this the second would wait for the first's
        # acknowledgement, 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The kernel closes connections of peers that are gone, or read nothing: also of those that nothing is
        # sent to.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENCE_S_MAX)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS_MAX)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener
