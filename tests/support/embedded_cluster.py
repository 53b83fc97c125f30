"""Helpers for tests of the embedded database: make one, copy one, break one, see that nothing of it is
left.
"""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.embedded_process import EmbeddedProcess, at_work_in, kill_9

from codehub.adapters.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresError
from codehub.adapters.postgres.embedded.account import Account
from codehub.adapters.system.machine import SystemClock, SystemTasks
from codehub.ports.system import Clock

CLOCK = SystemClock()
NOBODY = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user or mount a small disk"
)


def embedded(data_dir: Path, cache_dir: Path | None = None, clock: Clock = CLOCK) -> EmbeddedPostgres:
    return EmbeddedPostgres(data_dir, clock=clock, tasks=SystemTasks(), cache_dir=cache_dir)


def data_of(data_dir: Path) -> Path:
    return data_dir / "postgres" / "data"


async def refusal(server: EmbeddedPostgres) -> str:
    """Return the one line that a start is refused with."""
    with pytest.raises(EmbeddedPostgresError) as refused:
        await server.start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def copy_cluster(source: Path, target: Path) -> None:
    target.mkdir()
    subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/postgres", f"{target}/postgres"], check=True)


async def abandoned(data_dir: Path, children: list[EmbeddedProcess]) -> int:
    """Leave a server without its codehub, and return its pid."""
    children.append(child := await EmbeddedProcess.launch(data_dir))
    postmaster = await child.started()
    await child.kill()
    return postmaster


def spawned(command: list[str], account: Account, cwd: Path) -> subprocess.Popen[bytes]:
    """Run something as the user that the server runs as."""
    uid, gid = account.drop_to or (None, None)
    return subprocess.Popen(command, cwd=cwd, user=uid, group=gid, stderr=subprocess.DEVNULL)


def end_all(data_dir: Path) -> None:
    while left := at_work_in(data_of(data_dir)):
        kill_9(*left)


def assert_nothing_runs(data_dir: Path) -> None:
    assert at_work_in(data_of(data_dir)) == {}
    assert at_work_in(data_dir / "postgres" / "data.new") == {}
