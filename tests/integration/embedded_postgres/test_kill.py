"""kill -9 of anything at any moment: no acknowledged commit is
lost, never two servers, none left after a clean stop.
"""

import asyncio
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.support.embedded_process import (
    DEADLINE_S,
    LOST,
    EmbeddedProcess,
    at_work_in,
    connected,
    kill_9,
    postmasters_of,
    until,
)

from codehub.adapters.postgres.embedded import EmbeddedPostgres
from codehub.adapters.postgres.embedded.address import Address
from codehub.adapters.system.machine import SystemClock, SystemTasks

log = structlog.get_logger()

ROUNDS = int(os.environ.get("CODEHUB_KILL_ROUNDS", "10"))
SEED = os.environ.get("CODEHUB_KILL_SEED", "1")
KINDS = (
    "supervisor",
    "adopter",
    "postmaster",
    "backend",
    "everything",
    "initialisation",
    "restart",
    "shutdown",
)
# What a server logs when it starts after a crash and when it stops, and how many files a new database has.
START_LOG_BYTES = 1500
STOP_LOG_BYTES = 800
INITIAL_FILES = 1000


class Ledger:
    """One DATA_DIR and every commit that was acknowledged in it, over all rounds."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.data = data_dir / "postgres" / "data"
        self.acknowledged: set[int] = set()
        self.next_number = 0

    async def child(self) -> EmbeddedProcess:
        child = await EmbeddedProcess.launch(self.data_dir, "--commit-after", str(self.next_number))
        self.next_number += 1_000_000  # numbers that were committed but never acknowledged are not used again
        return child

    def take(self, child: EmbeddedProcess) -> None:
        self.acknowledged.update(child.committed)

    async def logs_more(self, size: int, is_over: Callable[[], bool]) -> None:
        """Wait until the server has written so much more to its log, or will write no more."""
        wanted = self._log_bytes() + size
        await until(lambda: self._log_bytes() >= wanted or is_over())

    def _log_bytes(self) -> int:
        log = self.data.with_name("log")
        return log.stat().st_size if log.exists() else 0

    def initial_files(self) -> int:
        """How many files of a new database there are: its directory gets its name when it is whole."""
        return sum(len(files) for _, _, files in os.walk(self.data.with_name("data.new")))

    async def check(self, connect_args: dict[str, Any]) -> int:
        """Look for every acknowledged commit, and return the newest number that is there."""
        stored = await self._read(connect_args) if self.acknowledged else set()
        lost = self.acknowledged - stored
        assert not lost, f"acknowledged and lost: {sorted(lost)[:10]}"
        assert len(postmasters_of(self.data_dir)) == 1
        return max(stored, default=0)

    async def _read(self, connect_args: dict[str, Any]) -> set[int]:
        """Ask until somebody answers: a server whose backend was
        killed lets others in, ends them, and recovers.
        """
        async with asyncio.timeout(DEADLINE_S):
            while True:
                connection = await connected(connect_args)
                try:
                    return {row["number"] for row in await connection.fetch("SELECT number FROM committed")}
                except LOST:
                    continue
                finally:
                    connection.terminate()

    async def check_after_death(self) -> None:
        """Start again where a codehub was killed, look, and stop cleanly."""
        server = EmbeddedPostgres(self.data_dir, clock=SystemClock(), tasks=SystemTasks())
        await server.start()
        try:
            await self.check(server.connect_args)
        finally:
            await server.stop()
        assert at_work_in(self.data) == {}

    async def check_alive(self, child: EmbeddedProcess) -> None:
        """Look at a server whose codehub survived, and let that stop cleanly."""
        self.take(child)
        newest = await self.check(Address(self.data).connect_args)
        await until(lambda: max(child.committed, default=0) > newest)
        await child.stop()
        self.take(child)
        assert at_work_in(self.data) == {}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    data_dir = tmp_path_factory.mktemp("kill")
    ledger = Ledger(data_dir)
    yield ledger
    while left := at_work_in(ledger.data):  # by a failed round
        kill_9(*left)
    shutil.rmtree(data_dir)


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_no_acknowledged_commit_is_lost(
    number: int, ledger: Ledger, children: list[EmbeddedProcess], tmp_path: Path
) -> None:
    dice = random.Random(f"{SEED}-{number}")
    kind = KINDS[number % len(KINDS)]
    log.info("kill_round", number=number, kind=kind, repeat_with=f"CODEHUB_KILL_SEED={SEED}")
    if kind == "initialisation":
        await kill_while_initialising(Ledger(tmp_path), children, dice)
        return
    child = await ledger.child()
    children.append(child)
    if kind == "adopter":
        await child.started()
        await child.kill()
        ledger.take(child)
        children.append(child := await ledger.child())
    if kind in ("adopter", "restart"):
        # At any moment of a start: before the server is there, while it recovers, or just when it is ready.
        size = dice.choice((0, START_LOG_BYTES)) if kind == "adopter" else dice.randrange(START_LOG_BYTES)
        await ledger.logs_more(size, commits_or_ends(child))
        await child.kill()
    else:
        postmaster = await child.started()
        await child.commits(dice.randrange(60))
        await kill(kind, child, postmaster, ledger, dice)
    ledger.take(child)
    if child.process.returncode is None:
        await ledger.check_alive(child)
    else:
        await ledger.check_after_death()


def commits_or_ends(child: EmbeddedProcess) -> Callable[[], bool]:
    """Whether it has committed since now, so that its server is ready, or is gone."""
    before = len(child.committed)
    return lambda: len(child.committed) > before or child.process.returncode is not None


async def kill(
    kind: str, child: EmbeddedProcess, postmaster: int, ledger: Ledger, dice: random.Random
) -> None:
    match kind:
        case "supervisor":
            await child.kill()
            assert postmasters_of(ledger.data_dir) == [postmaster]
        case "postmaster":
            kill_9(postmaster)
            await until(lambda: bool(set(postmasters_of(ledger.data_dir)) - {postmaster}))
            await ledger.logs_more(dice.randrange(START_LOG_BYTES), commits_or_ends(child))
            kill_9(*postmasters_of(ledger.data_dir))
        case "backend":
            kill_9(dice.choice([pid for pid in at_work_in(ledger.data) if pid != postmaster]))
        case "everything":
            everything = [child.process.pid, *at_work_in(ledger.data)]
            kill_9(*dice.sample(everything, len(everything)))
            await child.kill()
        case "shutdown":
            child.process.terminate()
            await ledger.logs_more(
                dice.randrange(STOP_LOG_BYTES), lambda: child.process.returncode is not None
            )
            await child.kill()


async def kill_while_initialising(
    fresh: Ledger, children: list[EmbeddedProcess], dice: random.Random
) -> None:
    child = await fresh.child()
    children.append(child)
    wanted = dice.randrange(INITIAL_FILES)
    await until(lambda: fresh.initial_files() >= wanted or fresh.data.exists())
    await child.kill()
    fresh.take(child)
    await fresh.check_after_death()
    assert not fresh.data.with_name("data.new").exists()
    shutil.rmtree(fresh.data_dir)
