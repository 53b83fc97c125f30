"""Roles under their supervisor, and the web server as one of them: a role that dies is started again."""

import asyncio
from typing import Any

import httpx
import pytest
import uvicorn
from tests.support.engine import Dice
from tests.support.patience import PATIENCE_S, until

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemTasks
from codehub.app import server
from codehub.app.drain import Drain
from codehub.app.server import make_listener, serving
from codehub.app.supervisor import supervise
from codehub.engine.system import System


class FastClock(SystemClock):
    """Counts how long it was asked to sleep, and does not."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def system(clock: SystemClock) -> System:
    return System(clock, Dice(), SystemIdentity(), SystemTasks())


async def test_a_role_that_dies_is_started_again_later_each_time_and_the_log_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = FastClock()
    lives = 0

    async def mortal() -> None:
        nonlocal lives
        lives += 1
        if lives <= 9:
            raise RuntimeError(f"death {lives}")

    await supervise("mortal", mortal, system(clock))
    assert lives == 10
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    log = capsys.readouterr().out
    assert log.count("role_died") == 9
    assert "mortal" in log
    assert "death 3" in log


async def test_a_role_that_lived_for_long_begins_with_a_short_pause_again() -> None:
    clock = FastClock()
    lives = 0

    async def mortal() -> None:
        nonlocal lives
        lives += 1
        clock.ahead += 100 if lives == 3 else 0
        if lives <= 3:
            raise RuntimeError("dead")

    await supervise("mortal", mortal, system(clock))
    assert clock.slept == [0.5, 1.0, 0.5]


async def test_a_cancelled_role_stays_dead() -> None:
    has_begun = asyncio.Event()

    async def endless() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    role = asyncio.ensure_future(supervise("endless", endless, system(FastClock())))
    await has_begun.wait()
    role.cancel()
    with pytest.raises(asyncio.CancelledError):
        await role


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Server]:
    """The web servers that were made, the last one last."""
    made: list[uvicorn.Server] = []
    make = server.make_server

    def make_known(app: Any) -> uvicorn.Server:
        made.append(make(app))
        return made[-1]

    monkeypatch.setattr(server, "make_server", make_known)
    return made


async def test_a_web_server_that_ends_by_itself_serves_again_on_the_same_port(
    servers: list[uvicorn.Server],
) -> None:
    async def app(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    tasks = SystemTasks()
    listener = make_listener("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    ours = System(SystemClock(), Dice(), SystemIdentity(), tasks)
    with listener:
        async with serving(app, listener, ours), httpx.AsyncClient(timeout=PATIENCE_S) as client:
            assert (await client.get(address)).status_code == 204
            dying = servers[-1]
            dying.should_exit = True
            await until(lambda: servers[-1] is not dying and servers[-1].started)
            assert (await client.get(address)).status_code == 204
        await tasks.cancel_all()


class StoppedClock(SystemClock):
    """Whoever sleeps before it tries again sleeps for ever."""

    def __init__(self) -> None:
        self.is_asleep = False

    async def sleep(self, seconds: float) -> None:
        if seconds < 0.1:
            await super().sleep(seconds)
            return
        self.is_asleep = True
        await asyncio.Event().wait()


@pytest.mark.parametrize("is_drained", [False, True])
async def test_a_web_server_that_has_died_and_is_not_started_again_yet_ends_at_once(
    servers: list[uvicorn.Server], *, is_drained: bool
) -> None:
    clock, tasks = StoppedClock(), SystemTasks()
    with make_listener("127.0.0.1", 0) as listener:
        async with asyncio.timeout(PATIENCE_S):
            ours = System(clock, Dice(), SystemIdentity(), tasks)
            async with serving(None, listener, ours) as served:
                servers[-1].should_exit = True
                await until(lambda: clock.is_asleep)
                if is_drained:
                    await served.leave(Drain(0, 0), lambda: None)
        await tasks.cancel_all()
