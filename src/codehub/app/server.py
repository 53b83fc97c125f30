"""The web server: a port that is taken at once, and an application that is served on it until its requests
have ended.
"""

import asyncio
import math
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from codehub.app.connections import BoundedProtocol
from codehub.app.drain import Drain
from codehub.app.errors import CannotStart
from codehub.app.language import say
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
        self._when_closed: Callable[[], None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals here: the web server is one of several things that they stop."""
        yield

    def end(self) -> None:
        self.should_exit = True
        self._end_signal.set()

    def close_connections(self) -> None:
        """Let every connection end after its next answer."""
        close = (b"connection", b"close")
        self.config.encoded_headers.append(close)
        self.server_state.default_headers.append(close)  # until the next tick makes it of those

    def end_within(self, seconds: float, when_closed: Callable[[], None]) -> None:
        """End as soon as nothing is under way, and after so many seconds at the latest."""
        self.config.timeout_graceful_shutdown = math.ceil(seconds)
        self._when_closed = when_closed
        self.end()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        if self._when_closed is not None:
            self._when_closed()
        await super().shutdown(sockets)

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


class WebServer:
    """An application that is served on a port."""

    def __init__(self, app: Any, listener: socket.socket, system: System) -> None:
        self._app = app
        self._listener = listener
        self._clock = system.clock
        self._server: _Server | None = None
        self._is_stopping = False
        self._has_ended = asyncio.Event()
        self._task = system.tasks.spawn(supervise("web", self._serve, system), name="web")
        self._task.add_done_callback(lambda _task: self._has_ended.set())

    async def start(self) -> None:
        while not self._is_up and not self._has_ended.is_set():
            await self._clock.sleep(0.01)

    async def stop(self) -> None:
        """End soon; at once, if it was about to leave and nobody waits for that any more."""
        if self._server is not None and self._is_up and not self._is_stopping:
            self._is_stopping = True
            self._server.end()
        else:
            self._task.cancel()
        await self._has_ended.wait()

    async def leave(self, drain: Drain, end_streams: Callable[[], None]) -> None:
        """Serve on until balancers know, then take nobody new and end when nothing is under way.

        Streams are ended only then: their readers come back, and are to find another process.
        """
        if self._server is not None:
            self._server.close_connections()
        await self._clock.sleep(drain.notice_s)
        self._is_stopping = True
        self._listener.close()
        if self._server is not None:
            self._server.end_within(drain.rest_s, end_streams)
            await self._has_ended.wait()

    @property
    def _is_up(self) -> bool:
        return self._server is not None and self._server.started

    async def _serve(self) -> None:
        self._server = make_server(self._app)
        try:
            await self._server.serve(sockets=[self._listener.dup()])
        finally:
            self._server = None
        if not self._is_stopping:
            raise WebServerEnded("the web server ended by itself")


@asynccontextmanager
async def serving(app: Any, listener: socket.socket, system: System) -> AsyncIterator[WebServer]:
    """Serve `app` until its requests have ended.

    A server that ends by itself is started again on the same port.
    """
    server = WebServer(app, listener, system)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


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
def bind_port(settings: Settings, *, is_shared: bool = False, port: str = "port") -> Iterator[socket.socket]:
    """Bind the port of this setting before anything else is started, so that one in use is reported at once.

    `is_shared`: several of our sockets bind it.
    """
    number: int = getattr(settings, port)
    try:
        listener = make_listener(settings.host, number, is_shared=is_shared)
    except OSError as error:
        raise CannotStart(
            say(
                "no_port",
                host=settings.host,
                port=number,
                error=error.strerror,
                setting=f"CODEHUB_{port.upper()}",
            )
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
