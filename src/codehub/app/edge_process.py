"""One edge process: it reads its configuration from stdin, prints `ready`, and serves until stdin ends or
SIGTERM.

The process that started it handles no bytes of workspaces or clients: that is done here.
"""

import asyncio
import signal
import socket
import sys

import structlog
import uvloop

from codehub.app.database import api_stores, until_stopped
from codehub.app.edge import edge, upstream_of
from codehub.app.edge_processes import WorkerConfig
from codehub.app.platform import platform
from codehub.app.process import EXPECTED, log_level, make_system
from codehub.engine.system import System
from codehub.logs import configure_logs
from codehub.settings import load_settings

log = structlog.get_logger()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    line = await reader.readline()  # an earlier signal just ends the process: there is nothing to undo
    if not line:
        return
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    system = make_system()

    async def until_stdin_ends() -> None:
        await reader.read()
        end.set()

    system.tasks.spawn(until_stdin_ends(), name="stdin")
    try:
        await _serve_config(WorkerConfig.from_json(line.decode()), end, system)
    except EXPECTED as error:
        log.warning("edge_worker_failed", reason=str(error))
    await system.tasks.cancel_all()


async def _serve_config(config: WorkerConfig, end: asyncio.Event, system: System) -> None:
    settings = load_settings(port=config.port)
    configure_logs(level=log_level(settings))
    with socket.socket(fileno=config.listener) as listener:
        async with (
            api_stores(dict(config.connect_args), system, settings.redis_url) as all_stores,
            platform(settings, all_stores, system, stops=False) as host_platform,
            edge(settings, listener, upstream_of(config.api), all_stores, host_platform.backends, system),
        ):
            print("ready", flush=True)  # noqa: T201  # the parent process waits for this
            await until_stopped(all_stores, end)
            listener.close()  # the next process may need the port, while this one records its activity


def main() -> None:
    configure_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
