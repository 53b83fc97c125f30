"""One edge process: its orders come as a line on stdin, it says `ready`, and it serves until stdin ends or SIGTERM comes.

Whoever started it reads no byte of a workspace's or a stranger's: that is done here.
"""

import asyncio
import signal
import socket
import sys

import structlog
import uvloop

from codehub.app.database import api_stores, until_stopped
from codehub.app.edge import edge, upstream_of
from codehub.app.edge_processes import Orders
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
    line = await reader.readline()  # a signal that comes before it just ends this: there is nothing to undo
    if not line:
        return
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    system = make_system()

    async def until_stdin_ends() -> None:
        await reader.read()
        ended.set()

    system.tasks.spawn(until_stdin_ends(), name="stdin")
    try:
        await _serve_as_told(Orders.from_json(line.decode()), ended, system)
    except EXPECTED as error:
        log.warning("edge_worker_failed", reason=str(error))
    await system.tasks.cancel_all()


async def _serve_as_told(orders: Orders, ended: asyncio.Event, system: System) -> None:
    settings = load_settings(port=orders.port)
    configure_logs(level=log_level(settings))
    with socket.socket(fileno=orders.listener) as listener:
        async with (
            api_stores(dict(orders.connect_args), system, settings.redis_url) as stored,
            platform(settings, stored, system, stops=False) as found,
            edge(settings, listener, upstream_of(orders.api), stored, found.backends, system),
        ):
            print("ready", flush=True)  # noqa: T201  # whoever started it waits for this
            await until_stopped(stored, ended)
            listener.close()  # whoever starts next may want the port, while this one writes down what was used


def main() -> None:
    configure_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
