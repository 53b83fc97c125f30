"""Edge processes: several serve one port, one that is killed is replaced, and none is left behind."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.support.engine import ManualClock
from tests.support.patience import PATIENCE_S, block_until, until
from tests.support.program import Running, processes_in, running

from codehub.adapters.system.machine import SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.drain import Drain
from codehub.app.edge_processes import DRAIN, EdgeWorkers
from codehub.app.errors import CannotStart
from codehub.engine.system import System
from codehub.ports.metrics import NoMetrics


def workers_of(pid: int) -> set[int]:
    process_ids = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            if b"codehub.app.edge_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                process_ids.add(int(child))
    return process_ids


def answers(server: Running) -> bool:
    try:
        return server.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_workers_share_the_port_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path / "data", proxy_workers="2") as server:
        before = workers_of(server.process.pid)
        assert len(before) == 2
        block_until(lambda: all(answers(server) for _ in range(20)))
        assert server.get("/w/x/").status_code == 404
        os.kill(min(before), signal.SIGKILL)
        block_until(lambda: len(workers_of(server.process.pid) - before) == 1)
        block_until(lambda: all(answers(server) for _ in range(10)))
        after = workers_of(server.process.pid)
        assert server.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in before | after)


def test_the_port_is_served_by_a_process_of_its_own_that_is_replaced_when_it_dies(tmp_path: Path) -> None:
    """Without any setting: what a workspace or a stranger sends is read where nothing is controlled."""
    with running(tmp_path / "data") as server:
        [worker] = workers_of(server.process.pid)
        block_until(lambda: answers(server))
        port = int(server.address.rpartition(":")[2])
        assert accepts(worker, port)
        assert not accepts(server.process.pid, port)
        os.kill(worker, signal.SIGKILL)
        block_until(lambda: workers_of(server.process.pid) - {worker} != set())
        block_until(lambda: answers(server))
        after = workers_of(server.process.pid)
        server.process.kill()
        server.process.wait(PATIENCE_S)
        block_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in after))
    with running(tmp_path / "data") as second:  # its database outlives a killed one, until the next start
        assert second.stop() == 0
    assert processes_in(tmp_path) == []


def accepts(pid: int, port: int) -> bool:
    """Whether a process waits for connections: whoever has a listener in its epoll."""
    listeners = {
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if _listens(line, port)
    }
    numbers = {fd.name for fd in Path(f"/proc/{pid}/fd").iterdir() if _inode(fd) in listeners}
    watched = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            watched |= {line.split()[1] for line in info.read_text().splitlines() if line.startswith("tfd:")}
    return bool(numbers & watched)


def _listens(line: str, port: int) -> bool:
    _, local, _, state, *_ = line.split()
    return state == "0A" and int(local.rpartition(":")[2], 16) == port


def _inode(fd: Path) -> str:
    with suppress(OSError):
        return str(fd.readlink()).removeprefix("socket:[").removesuffix("]")
    return ""


class Silent:
    """A worker that lives, and says what it is told to say."""

    pid = 1
    returncode: int | None = None

    def __init__(self, line: bytes) -> None:
        self.stdin = self
        self.stdout = asyncio.StreamReader()
        self.orders: list[bytes] = []
        self.has_ended = asyncio.Event()
        if line:
            self.stdout.feed_data(line)

    def write(self, order: bytes) -> None:
        if self.returncode is not None:
            raise RuntimeError("its pipe is closed")
        self.orders.append(order)
        if order == DRAIN:
            self.has_ended.set()

    async def wait(self) -> int:
        if self.returncode is None:
            await self.has_ended.wait()
            self.returncode = 0
        return 0

    def terminate(self) -> None:
        self.returncode = 0


@contextmanager
def spawning(monkeypatch: pytest.MonkeyPatch, *outcomes: Silent | OSError) -> Iterator[socket.socket]:
    """Let the machine start these, one after another; yield what they listen on."""
    coming = iter(outcomes)

    async def spawn(*_: object, **__: object) -> Silent:
        outcome = next(coming)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def test_a_worker_that_the_machine_could_not_start_is_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = System(ManualClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    full = OSError(errno.EAGAIN, "too many processes")
    with spawning(monkeypatch, full, Silent(b"ready\n")) as listener:
        async with EdgeWorkers([listener], system).serving({}, "unix:///api"):
            pass


async def test_workers_that_never_serve_are_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(ManualClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    with spawning(monkeypatch, Silent(b"")) as listener, pytest.raises(CannotStart, match="worker"):
        async with EdgeWorkers([listener], system, ready_s_max=0.01).serving({}, "unix:///api"):
            pass


class Notice(ManualClock):
    """The notice of a drain lasts until a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()
        self.is_over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds < 60:
            await super().sleep(seconds)
            return
        self.has_begun.set()
        await self.is_over.wait()


async def test_a_worker_that_is_being_started_when_all_are_to_leave_leaves_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Notice()
    system = System(clock, SystemRandomness(), SystemIdentity(), SystemTasks())
    dies, follows, may_start = Silent(b"ready\n"), Silent(b"ready\n"), asyncio.Event()
    spawned: list[Silent] = []

    async def spawn(*_: object, **__: object) -> Silent:
        spawned.append(follows if spawned else dies)
        if spawned[-1] is follows:
            await may_start.wait()
        return spawned[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        workers = EdgeWorkers([listener], system)
        async with workers.serving({}, "unix:///api"):
            dies.has_ended.set()
            await until(lambda: spawned[-1] is follows)
            leaving = asyncio.ensure_future(workers.leave(Drain(60, 0)))
            await clock.has_begun.wait()
            may_start.set()
            await until(lambda: follows.orders[-1:] == [DRAIN])
            clock.is_over.set()
            await leaving


async def test_a_worker_that_has_just_died_stops_no_other_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = System(ManualClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    dead, lives = Silent(b"ready\n"), Silent(b"ready\n")
    with spawning(monkeypatch, dead, lives) as listener, listener.dup() as other:
        workers = EdgeWorkers([listener, other], system)
        async with workers.serving({}, "unix:///api"):
            dead.returncode = -9  # which nobody was told yet
            await workers.leave(Drain(0, 0))
            assert lives.orders[-1] == DRAIN


class Pages(NoMetrics):
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def count_page(self, outcome: str) -> None:
        self.outcomes.append(outcome)


async def test_what_workers_say_of_pages_is_counted_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(ManualClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    pages, dies, follows = Pages(), Silent(b"ready\npage inserted\n"), Silent(b"ready\npage policy\nelse\n")
    with spawning(monkeypatch, dies, follows) as listener:
        async with EdgeWorkers([listener], system, metrics=pages).serving({}, "unix:///api"):
            await until(lambda: pages.outcomes == ["inserted"])
            dies.has_ended.set()  # and another process still has its end of the pipe
            await until(lambda: pages.outcomes == ["inserted", "policy"])
