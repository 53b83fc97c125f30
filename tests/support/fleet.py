"""Roles as processes of their own, several of each, and a balancer before the proxies that asks who is
ready.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.support.groups import remove_groups
from tests.support.light_ide import light_code_server
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.program import end, environment, until_it_says

from codehub.adapters.local.home_mark import MARK

PASSWORD = "correct horse"
SLOTS = 3
"""Of each role two serve, and one comes before one goes."""
_POLL_S = 0.1


@dataclass
class Member:
    """One process of a role."""

    role: str
    slot: int
    process: subprocess.Popen[str]
    log: Path

    def leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)


@dataclass
class Fleet:
    """Where each slot of a role listens, and what runs."""

    settings: Mapping[str, str]
    ports: Mapping[str, list[int]]
    directory: Path
    path: str
    members: ExitStack = field(default_factory=ExitStack)
    launched: int = 0

    @property
    def address(self) -> str:
        return self.settings["public_base_url"]

    def launch(self, role: str, slot: int, *, source: Path | None = None) -> Member:
        """Start it. `source`: another release's code."""
        self.launched += 1
        log = self.directory / f"{role}-{self.launched}.log"
        ours = {"port": str(self.ports[role][slot])}
        if source is None:
            ours["health_port"] = str(self.ports[f"{role} health"][slot])
        environ = {**environment(**{**self.settings, **ours}), "PATH": self.path}
        if source is not None:
            environ["PYTHONPATH"] = str(source)
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "codehub", role],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.members.callback(end_at_once, process)
        return Member(role, slot, process, log)

    async def ready(self, member: Member) -> Member:
        lines = await asyncio.to_thread(until_it_says, member.process, "ready")
        assert lines[-1:] == ["ready"], member.log.read_text()
        return member

    async def start(self, role: str, slot: int, *, source: Path | None = None) -> Member:
        return await self.ready(self.launch(role, slot, source=source))

    def url(self, role: str, slot: int) -> str:
        return f"http://127.0.0.1:{self.ports[role][slot]}"

    def health_url(self, role: str, slot: int) -> str:
        return self.url(f"{role} health", slot)

    def log_of(self, text: str) -> str:
        return "\n".join(
            line
            for log in self.directory.glob("*.log")
            for line in log.read_text().splitlines()
            if text in line
        )


def end_at_once(process: subprocess.Popen[str]) -> None:
    """End it without a drain, which may take as long as a test likes."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    end(process)


@contextmanager
def fleet(directory: Path, database_url: str, **settings: str) -> Iterator[Fleet]:
    """Nothing runs yet."""
    kinds = [f"{role}{kind}" for role in ("api", "proxy", "controller") for kind in ("", " health")]
    ports = {kind: [free_port() for _ in range(SLOTS)] for kind in kinds}
    with light_code_server() as ide, ExitStack() as members:
        made = Fleet(
            {
                "data_dir": str(directory / "data"),
                "database_url": database_url,
                "public_base_url": f"http://127.0.0.1:{free_port()}",
                "api_url": ",".join(f"http://127.0.0.1:{port}" for port in ports["api"]),
                "trusted_proxies": "127.0.0.1",
                "initial_admin_password": PASSWORD,
                "idle_period_seconds": "1",
                "drain_notice_seconds": "1",
                "drain_seconds": "2",
                "limit_running_per_user": "10",
                "limit_requests_per_user": "1000000",
                "ide": "code-server",
                **settings,
            },
            ports,
            directory,
            f"{ide}:{os.environ['PATH']}",
            members,
        )
        yield made
    if (mark := directory / "data" / "users" / MARK).exists():
        remove_groups(mark.read_text().split()[0])


class Balancer:
    """Passes connections on to a proxy that says that it is
    ready, or to the next one if nobody listens there.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ready: list[int] = []
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        port = int(self._fleet.address.rpartition(":")[2])
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        async with httpx.AsyncClient(timeout=5) as client:
            polling = asyncio.create_task(self._poll(client))
            try:
                yield
            finally:
                server.close()
                tasks = [polling, *self._tasks]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _poll(self, client: httpx.AsyncClient) -> None:
        while True:
            ready = []
            for slot in range(SLOTS):
                with suppress(httpx.HTTPError):
                    answer = await client.get(f"{self._fleet.health_url('proxy', slot)}/readyz")
                    ready += [slot] * (answer.status_code == 200)
            self._ready = ready
            await asyncio.sleep(_POLL_S)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self._turn += 1
                for slot in sorted(self._ready, key=lambda slot: (slot - self._turn) % SLOTS):
                    with suppress(ConnectionError):
                        return await asyncio.open_connection("127.0.0.1", self._fleet.ports["proxy"][slot])
                await asyncio.sleep(_POLL_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        writers = [writer]
        try:
            there_reader, there_writer = await self._connect()
            writers.append(there_writer)
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        except asyncio.CancelledError:
            pass  # the balancer ends; asyncio would report it as a mistake
        finally:
            for each in writers:
                each.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass everything on. A reset counts as an end."""
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    with suppress(ConnectionError, OSError):
        writer.write_eof()
