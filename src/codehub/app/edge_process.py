"""One edge process: it reads its configuration from stdin, prints `ready`, and serves until stdin ends or
SIGTERM, or until it was told to leave and has done so.

The process that started it handles no bytes of workspaces or clients: that is done here.
"""

import asyncio
import signal
import socket
import sys
from contextlib import suppress

import structlog
import uvloop

from codehub.app.database import api_stores, until_stopped
from codehub.app.drain import Drain, drain_of
from codehub.app.edge import PublicPort, edge, upstreams_of
from codehub.app.edge_processes import DRAIN, PAGE, WorkerConfig
from codehub.app.open_platform import open_platform
from codehub.app.process import EXPECTED, log_level, make_system
from codehub.engine.system import System
from codehub.logs import configure_logs
from codehub.settings import Settings, load_settings

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
    config = WorkerConfig.from_json(line.decode())
    settings = load_settings(port=config.port)
    drain = drain_of(settings)

    async def until_stdin_ends() -> None:
        while line := await reader.readline():
            if line == DRAIN:
                drain.begin()
        end.set()

    system.tasks.spawn(until_stdin_ends(), name="stdin")
    try:
        await _serve_config(config, settings, end, drain, system)
    except EXPECTED as error:
        log.warning("edge_worker_failed", reason=str(error))
    await system.tasks.cancel_all()


async def _serve_config(
    config: WorkerConfig, settings: Settings, end: asyncio.Event, drain: Drain, system: System
) -> None:
    configure_logs(level=log_level(settings))
    with socket.socket(fileno=config.listener) as listener:
        async with (
            api_stores(dict(config.connect_args), system, settings.redis_url) as all_stores,
            open_platform(settings, all_stores, system, stops=False) as platform,
            edge(
                settings,
                listener,
                upstreams_of(config.api),
                all_stores,
                platform.backends,
                system,
                count_page=_tell_page,
            ) as public_port,
        ):
            print("ready", flush=True)  # noqa: T201  # the parent process waits for this
            system.tasks.spawn(_leave_when_asked(drain, public_port, end), name="drain")
            await until_stopped(all_stores, end.wait())
            listener.close()  # the next process may need the port, while this one records its activity


async def _leave_when_asked(drain: Drain, public_port: PublicPort, end: asyncio.Event) -> None:
    await drain.wait()
    await public_port.leave(drain)
    end.set()


def _tell_page(outcome: str) -> None:
    """Tell whoever started this process, who has the metrics."""
    with suppress(OSError):  # it has gone: so will this process
        print(PAGE, outcome, flush=True)  # noqa: T201  # the parent process reads it


def main() -> None:
    configure_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
