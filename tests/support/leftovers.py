"""What a test engine leaves that was killed: its processes, those of its
containers, and its mounts. Ended and unmounted before another begins.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

RUN = Path("/run")
PREFIX = "chd-"
_NOTE = "data-root"
_GONE_S_MAX = 30.0


def note(run: Path, data: Path) -> None:
    """Say in an engine's directory where its data is: whoever finds it later knows whose it was."""
    (run / _NOTE).write_text(str(data))


def end_leftovers(data: Path) -> None:
    """End what engines with this data have left. Only for whoever
    holds the lock on it: nobody else uses it then.
    """
    runs = [run for run in RUN.glob(f"{PREFIX}*") if _is_of(run, data)]
    kill_all(_processes_of([str(data), *map(str, runs)]))
    for place in (data, *runs):
        unmount_below(place)
    for run in runs:
        shutil.rmtree(run, ignore_errors=True)


def kill_all(processes: Collection[int]) -> None:
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + _GONE_S_MAX
    while any(_is_alive(pid) for pid in processes) and time.monotonic() < deadline:
        time.sleep(0.05)


def unmount_below(place: Path) -> None:
    """Unmount whatever is mounted there, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounted = [Path(line.split()[4].replace(r"\040", " ")) for line in lines]
    for each in reversed([mount for mount in mounted if place in mount.parents]):
        subprocess.run(["umount", "--lazy", each], stderr=subprocess.DEVNULL, check=False)


def _is_of(run: Path, data: Path) -> bool:
    try:
        return (run / _NOTE).read_text() == str(data)
    except OSError:
        return False


def _processes_of(names: Collection[str]) -> list[int]:
    """Return the engines, and what runs below them, that name any of these directories."""
    parents, named = {}, set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        program = Path(os.fsdecode(command[0])).name
        rest = os.fsdecode(b" ".join(command[1:]))
        if program in ("dockerd", "containerd", "containerd-shim-runc-v2") and any(
            name in rest for name in names
        ):
            named.add(int(entry.name))
    return [pid for pid in parents if _descends(pid, parents, named)]


def _descends(pid: int, parents: dict[int, int], named: set[int]) -> bool:
    while pid not in named and parents.get(pid, 0) > 1:
        pid = parents[pid]
    return pid in named


def _is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
