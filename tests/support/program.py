"""`codehub` as people run it: a process of its own, waited for by what it says, and never left behind."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.support.groups import remove_groups
from tests.support.patience import PATIENCE_S

from codehub.adapters.local.home_mark import MARK

UP = (sys.executable, "-m", "codehub", "up")
_LOG_SHOWN = 8_000


@dataclass(frozen=True, slots=True)
class Running:
    process: subprocess.Popen[str]
    address: str
    lines: tuple[str, ...]
    errors: Path

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, and return its exit code. What it said is printed if that is not 0."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        if code:
            sys.stdout.write(self.errors.read_text()[-_LOG_SHOWN:])
        return code

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.address + path, headers=headers, timeout=PATIENCE_S)

    def until_ready(self) -> httpx.Response:
        return until_ready(self.address)


def environment(**settings: str) -> Mapping[str, str]:
    """Return this environment without anybody's codehub settings but these. What
    this machine happens to have built is no default IDE here.
    """
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
        timeout=PATIENCE_S,
        check=False,
    )


@contextmanager
def running(data_dir: Path, *, command: Sequence[str] = UP, **settings: str) -> Iterator[Running]:
    """Run `codehub up` until it says it is ready, and end it afterwards whatever happens."""
    with (data_dir.parent / "stderr").open("w+") as errors:
        process = subprocess.Popen(
            command,
            env=environment(data_dir=str(data_dir), **{"port": "0", **settings}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield _until_ready(process, data_dir.parent / "stderr")
        finally:
            end(process)
            if (mark := data_dir / "users" / MARK).exists():
                remove_groups(mark.read_text().split()[0])  # of one that was killed


def _until_ready(process: subprocess.Popen[str], errors: Path) -> Running:
    lines = until_it_says(process, "ready")
    if lines[-1:] != ["ready"]:
        raise AssertionError(f"codehub ended before it was ready: {lines} {errors.read_text()}")
    address = next(line.removeprefix("address: ") for line in lines if line.startswith("address: "))
    return Running(process, address, tuple(lines), errors)


def until_it_says(process: subprocess.Popen[str], word: str) -> list[str]:
    """Return its lines up to this one, or all if it ends
    before. One that says nothing for too long is killed.
    """
    assert process.stdout is not None
    lines: list[str] = []
    limit = threading.Timer(PATIENCE_S, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if lines[-1] == word:
                break
    finally:
        limit.cancel()
    return lines


def end(process: subprocess.Popen[str]) -> None:
    """Let it end, by force if it must be."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def until_ready(address: str) -> httpx.Response:
    """Ask until it is ready: a database that is asked while the machine stands still does not answer in
    time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (answer := httpx.get(f"{address}/readyz", timeout=PATIENCE_S)).status_code != 200:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.1)
    return answer


def processes_in(directory: Path) -> list[int]:
    """Return the live processes that work in this directory or below it."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cwd = (entry / "cwd").readlink()
            except OSError:
                continue
            if cwd.is_relative_to(directory):
                pids.append(int(entry.name))
    return pids
