"""`codehub` as people run it: a process of its own, waited for by what it says, and never left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_S_MAX = 60.0
ANSWERS_S_MAX = 60.0
ENDS_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Running:
    process: subprocess.Popen[str]
    address: str
    lines: tuple[str, ...]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(ENDS_S_MAX)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.address + path, headers=headers, timeout=ANSWERS_S_MAX)

    def until_ready(self) -> httpx.Response:
        return until_ready(self.address)


def environment(**settings: str) -> Mapping[str, str]:
    """Return this environment without anybody's codehub settings but these. What this machine happens to have built is no default IDE here."""
    ours = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("CODEHUB_") or key == "CODEHUB_CACHE"
    }
    if "instance_backend" not in settings and shutil.which("code-server") is None:
        ours["CODEHUB_IDE"] = "jupyterlab"
    return ours | {f"CODEHUB_{name.upper()}": value for name, value in settings.items()}


def codehub(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=START_S_MAX,
        check=False,
    )


@contextmanager
def running(data_dir: Path, **settings: str) -> Iterator[Running]:
    """Run `codehub up` until it says it is ready, and end it afterwards whatever happens."""
    with (data_dir.parent / "stderr").open("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "codehub", "up"],
            env=environment(data_dir=str(data_dir), port="0", **settings),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield _until_ready(process, data_dir.parent / "stderr")
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(ENDS_S_MAX)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _until_ready(process: subprocess.Popen[str], errors: Path) -> Running:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.strip())
        if lines[-1] == "ready":
            address = next(line.removeprefix("address: ") for line in lines if line.startswith("address: "))
            return Running(process, address, tuple(lines))
    raise AssertionError(f"codehub ended before it was ready: {lines} {errors.read_text()}")


def until_ready(address: str) -> httpx.Response:
    """Ask until it is ready: a database that is asked while the machine stands still does not answer in time."""
    deadline = time.monotonic() + ANSWERS_S_MAX
    while (answer := httpx.get(f"{address}/readyz", timeout=ANSWERS_S_MAX)).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)
    return answer


def processes_in(directory: Path) -> list[int]:
    """Return the live processes that work in this directory or below it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cwd = (entry / "cwd").readlink()
            except OSError:
                continue
            if cwd.is_relative_to(directory):
                found.append(int(entry.name))
    return found
