"""What a command costs: `codehub ws list`, piped and on a terminal, against a running codehub, as a multiple
of `import httpx`.
"""

import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from tests.support.program import running

REPETITIONS = 15
WORKSPACES = 20


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as directory:
        data = Path(directory) / "data"
        with running(data, initial_admin_password="correct horse") as server:
            environment = {
                **bytecoded(),
                "HOME": directory,
                "CODEHUB_URL": server.address,
                "CODEHUB_TOKEN": token(server.address),
            }
            commands = {
                "import httpx": (["-c", "import httpx"], False),
                "codehub ws list": (["-m", "codehub", "ws", "list"], False),
                "codehub ws list, on a terminal": (["-m", "codehub", "ws", "list"], True),
            }
            for arguments, on_terminal in commands.values():
                seconds(arguments, environment, on_terminal)
            durations_s: dict[str, list[float]] = {name: [] for name in commands}
            for _ in range(REPETITIONS):
                for name, (arguments, on_terminal) in commands.items():
                    durations_s[name].append(seconds(arguments, environment, on_terminal))
    median = {name: statistics.median(times) for name, times in durations_s.items()}
    for name, value in median.items():
        print(f"{name:32} median of {REPETITIONS}: {value * 1000:6.1f} ms")
    for name in list(commands)[1:]:
        ratio = median[name] / median["import httpx"]
        print(f"{name} ({WORKSPACES} workspaces) / import httpx: {ratio:.2f}x (target: at most 4)")


def token(address: str) -> str:
    """Make some workspaces, and return a token to list them with."""
    with httpx.Client(base_url=f"{address}/api/v1") as admin:
        admin.post("/login", json={"username": "admin", "password": "correct horse"}).raise_for_status()
        for number in range(WORKSPACES):
            body = {"name": f"workspace {number}", "desired_state": "PENDING"}
            admin.post("/workspaces", json=body).raise_for_status()
        answer = admin.post("/tokens", json={"name": "benchmark", "scope": "read"}).raise_for_status()
        secret: str = answer.json()["token"]
        return secret


def bytecoded() -> dict[str, str]:
    """Whoever runs it has bytecode, whatever this shell says."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(arguments: list[str], environment: dict[str, str], on_terminal: bool) -> float:
    command = [sys.executable, *arguments]
    if not on_terminal:
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
        return time.perf_counter() - began
    ours, theirs = pty.openpty()
    reader = threading.Thread(target=_drain, args=(ours,))
    reader.start()
    began = time.perf_counter()
    subprocess.run(command, stdout=theirs, stderr=theirs, check=True, env=environment)
    took = time.perf_counter() - began
    os.close(theirs)
    reader.join()
    os.close(ours)
    return took


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


if __name__ == "__main__":
    main()
