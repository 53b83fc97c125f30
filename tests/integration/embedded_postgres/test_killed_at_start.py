"""PostgreSQL killed while codehub starts is waited for: whoever
looks after it starts it again, and the start goes on.
"""

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, within

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemRandomness, SystemTasks
from codehub.app.control import control
from codehub.app.database import database, stores
from codehub.app.database_wait import until_reachable
from codehub.app.open_platform import open_platform
from codehub.engine.system import System
from codehub.ports.store import StoreUnavailable
from codehub.settings import load_settings


@pytest.mark.parametrize("killed_before", ["stores", "control"])
async def test_a_database_that_is_killed_during_the_start_is_waited_for(
    tmp_path: Path, killed_before: str
) -> None:
    settings = load_settings(data_dir=tmp_path / "data", ide="jupyterlab")
    system = System(SystemClock(), SystemRandomness(), SystemIdentity(), SystemTasks())
    async with within(PATIENCE_S), AsyncExitStack() as stack:
        connect_args = await stack.enter_async_context(database(settings, system))
        if killed_before == "stores":
            kill(settings.data_dir)
        stored = await stack.enter_async_context(stores(connect_args, system))
        wiring = await stack.enter_async_context(open_platform(settings, stored, system, stops=True))
        if killed_before == "control":
            kill(settings.data_dir)
        is_controlled = await stack.enter_async_context(control(settings, stored, wiring.backends, system))
        await is_controlled()


def kill(data_dir: Path) -> None:
    """End the server as the kernel does when memory runs out."""
    (pid_file,) = data_dir.glob("**/postmaster.pid")
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)


class Impatient(SystemClock):
    """Time in which whoever sleeps is woken at once, later."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


async def test_a_database_that_stays_away_is_not_waited_for_for_ever() -> None:
    clock = Impatient()
    system = System(clock, SystemRandomness(), SystemIdentity(), SystemTasks())

    async def ask() -> None:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable, match="away"):
        await until_reachable(ask, system)
    assert clock.seconds >= 60
