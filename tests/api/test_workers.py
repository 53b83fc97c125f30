"""Edge processes of their own: several serve one port, one that is killed is replaced, and none is left behind."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, running


def workers_of(pid: int) -> set[int]:
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            if b"codehub.app.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(int(child))
    return found


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def answers(server: Running) -> bool:
    try:
        return server.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_workers_share_the_port_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path / "data", proxy_workers="2") as server:
        before = workers_of(server.process.pid)
        assert len(before) == 2
        until(lambda: all(answers(server) for _ in range(20)))
        assert server.get("/w/x/").status_code == 404
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(workers_of(server.process.pid) - before) == 1)
        until(lambda: all(answers(server) for _ in range(10)))
        after = workers_of(server.process.pid)
        assert server.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in before | after)
