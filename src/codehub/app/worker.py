"""One edge process: its orders come as a line on stdin, it says `ready`, and it serves until stdin ends or SIGTERM comes."""

import asyncio
import signal
import socket
import sys

import uvloop

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.control import make_service
from codehub.app.database import stores
from codehub.app.edge import StoredPlaces, edge, upstream_of
from codehub.app.local import local_platform
from codehub.app.workers import Orders
from codehub.engine.system import System
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
    system = System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())

    async def until_stdin_ends() -> None:
        await reader.read()
        ended.set()

    system.tasks.spawn(until_stdin_ends(), name="stdin")
    listener = socket.socket(fileno=orders.listener)
    async with (
        stores(dict(orders.connect_args), system, settings.redis_url) as stored,
        local_platform(settings, stored, system, stops=False) as local,
        edge(
            settings,
            listener,
            upstream_of(orders.api),
            places=StoredPlaces(stored.controller, stored.api, local.platforms.instances),
            doorkeeper=stored.doorkeeper,
            service=make_service(settings, stored),
            hints=stored.hints,
            people_hints=stored.people_hints,
            system=system,
        ),
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
