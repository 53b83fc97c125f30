"""One edge process: its orders come as a line on stdin, it says `ready`, and it serves until stdin ends or SIGTERM comes."""

import asyncio
import signal
import socket
import sys

import uvloop

from codehub.app.database import stores
from codehub.app.edge import edge, upstream_of
from codehub.app.platform import platform
from codehub.app.process import make_system
from codehub.app.workers import Orders
from codehub.logs import configure_logs
from codehub.settings import load_settings


async def serve() -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    orders = Orders.from_json((await reader.readline()).decode())
    settings = load_settings(port=orders.port)
    system = make_system()

    async def until_stdin_ends() -> None:
        await reader.read()
        ended.set()

    system.tasks.spawn(until_stdin_ends(), name="stdin")
    listener = socket.socket(fileno=orders.listener)
    async with (
        stores(dict(orders.connect_args), system, settings.redis_url) as stored,
        platform(settings, stored, system, stops=False) as found,
        edge(settings, listener, upstream_of(orders.api), stored, found.backends, system),
    ):
        print("ready", flush=True)  # noqa: T201  # whoever started it waits for this
        await ended.wait()
    await system.tasks.settle()


def main() -> None:
    configure_logs()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
