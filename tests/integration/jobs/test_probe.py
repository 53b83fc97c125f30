"""The program of the Pods that probe isolation, run here: what takes
connections is named, what does not is not.
"""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, block_until

from codehub.job.probe import visit

PROBE = (sys.executable, "-m", "codehub.job.probe")


@contextmanager
def closed_port() -> Iterator[int]:
    """One that nobody else gets, and at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def test_the_visitor_writes_down_which_places_take_connections(tmp_path: Path) -> None:
    with closed_port() as free:
        pass
    with closed_port() as shut, subprocess.Popen([*PROBE, "listen", str(free)]) as listener:
        block_until(lambda: answers(free))
        result = tmp_path / "result"
        places = (
            f"neighbour=127.0.0.1:{free}",
            f"nobody=127.0.0.1:{shut}",
            f"again=[::ffff:127.0.0.1]:{free}",
        )
        subprocess.run([*PROBE, "visit", *places, "--result", result], check=True, timeout=PATIENCE_S)
        listener.kill()
    assert json.loads(result.read_text()) == ["neighbour", "again"]


async def test_what_is_refused_late_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codehub.job.probe._PATIENCE_S", PATIENCE_S)
    listener = socket.create_server(("127.0.0.1", 0))

    def close_after_one() -> None:
        listener.accept()[0].close()
        listener.close()

    closing = threading.Thread(target=close_after_one)
    closing.start()
    assert await visit({"neighbour": listener.getsockname()[:2]}) == []
    closing.join()
