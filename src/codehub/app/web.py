"""The web server: a port that is taken at once, and an application that is served on it until its requests have ended."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from codehub.app.errors import CannotStart
from codehub.engine.system import System
from codehub.settings import Settings

_REQUESTS_END_S_MAX = 1


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: the web server is one of several things that they stop."""
        yield


@asynccontextmanager
async def serving(app: Any, listener: socket.socket, system: System) -> AsyncIterator[asyncio.Event]:
    """Serve `app` until its requests have ended. What is yielded is set if the server ends by itself."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            forwarded_allow_ips="*",  # only the edge reaches it, and says who asks
            timeout_graceful_shutdown=_REQUESTS_END_S_MAX,
        )
    )
    ended = asyncio.Event()
    task = system.tasks.spawn(server.serve(sockets=[listener]), name="web")
    task.add_done_callback(lambda _task: ended.set())
    try:
        while not server.started and not ended.is_set():
            await system.clock.sleep(0.01)
        yield ended
    finally:
        server.should_exit = True
        await ended.wait()


@contextmanager
def inner_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield a socket that only codehub itself reaches, for the API behind the edge. Its path is short: there is a limit."""
    with tempfile.TemporaryDirectory(prefix="codehub-") as directory:
        path = Path(directory) / "api.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            yield listener, path


@contextmanager
def bound(settings: Settings, *, is_shared: bool = False) -> Iterator[socket.socket]:
    """Take the port before anything else is started: that it is taken should be known at once. Shared: by several sockets of ours."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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
