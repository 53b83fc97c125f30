"""Marks and pids go in, this machine's processes and what is known of them come out."""

import os
from contextlib import suppress
from pathlib import Path

from codehub.adapters.processes import Process, all_pids, as_user, read_proc_file

POLL_S = 0.01
_PROC = Path("/proc")


def boot_id() -> str:
    """Return the id of this boot: a pid and a start time mean nothing in another one."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def children(pid: int) -> list[Process]:
    """Return the live children of a process."""
    text = read_proc_file(pid, f"task/{pid}/children")
    pids = map(int, text.split()) if text is not None else (p for p in all_pids() if _parent(p) == pid)
    return [process for child in pids if (process := Process.of(child)) is not None]


def pid_inside(pid: int) -> int | None:
    """Return the pid a process has in its own namespace, or None if that is ours or the process has ended."""
    numbers = _status(pid).get("NSpid", "").split()
    return int(numbers[-1]) if len(numbers) > 1 else None


def has_open(pid: int, path: Path) -> bool:
    """Return whether a process has this file open."""
    try:
        expected = path.stat()
        return any(os.path.samestat(expected, entry.stat()) for entry in (_PROC / f"{pid}/fd").iterdir())
    except OSError:
        return False


def processes_max(pid: int) -> list[int] | None:
    """Return how many processes its user may have, soft and hard;
    None if there is no limit, or the process has ended.
    """
    for line in (read_proc_file(pid, "limits") or "").splitlines():
        if line.startswith("Max processes"):
            fields = line.split()[2:4]
            return [int(field) for field in fields] if all(field.isdigit() for field in fields) else None
    return None


def find_marked(marks: frozenset[bytes], *, owner: int | None) -> list[Process]:
    """Return the live processes that were started with all these environment entries, or that belong to
    `owner`.
    """
    return [process for pid in all_pids() if (process := _process_if_marked(pid, marks, owner)) is not None]


def _process_if_marked(pid: int, marks: frozenset[bytes], owner: int | None) -> Process | None:
    process = Process.of(pid)
    if process is None or pid == os.getpid():
        return None
    uids = {int(field) for field in _status(pid).get("Uid", "").split()}
    if (owner is not None and owner in uids) or marks <= _environment(pid, uids):
        return process if process.alive() else None
    return None


def _environment(pid: int, uids: set[int]) -> frozenset[bytes]:
    path = _PROC / f"{pid}/environ"
    with suppress(OSError):
        return frozenset(path.read_bytes().split(b"\0"))
    with suppress(OSError), as_user(next(iter(uids), os.geteuid()), os.getegid()):
        return frozenset(path.read_bytes().split(b"\0"))
    return frozenset()


def _parent(pid: int) -> int | None:
    field = _status(pid).get("PPid", "")
    return int(field) if field else None


def _status(pid: int) -> dict[str, str]:
    lines = (read_proc_file(pid, "status") or "").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
