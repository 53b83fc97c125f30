"""The control group that all workspaces of an installation are in: where it is and what all of them may take
together.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
BOUND = ("memory", "pids")
_MB = 1 << 20
_SHARE = 0.9
_PIDS_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Totals:
    """What all workspaces of this machine may take together, so that the rest of it lives on."""

    memory_mb: int
    pids: int


def totals(memory_mb: int | None, pids: int | None) -> Totals:
    """Return them; what is not given is most of what this machine has."""
    here_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MB
    most_pids = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
    return Totals(memory_mb or int(here_mb * _SHARE), pids or int(most_pids * _PIDS_SHARE))


def is_unified(root: Path = ROOT) -> bool:
    return (root / "cgroup.controllers").exists()


def make_group(parent: Path, controller: str, *, unified: bool) -> None:
    """Make a group whose members this controller can limit. Raises OSError where that is not ours to do."""
    parent.mkdir(exist_ok=True)
    if unified:
        for group in (parent.parent, parent):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def bind_together(parents: Mapping[str, Path], most: Totals, *, unified: bool) -> None:
    """Bound what all members of the parents take together.

    What they have already taken beyond it stays: the next one waits.
    """
    memory = "memory.max" if unified else "memory.limit_in_bytes"
    for controller, file, value in (
        ("memory", memory, most.memory_mb * _MB),
        ("pids", "pids.max", most.pids),
    ):
        if controller in parents:
            with suppress(OSError):
                (parents[controller] / file).write_text(str(value))


def remove_group(group: Path) -> bool:
    """Remove a group, and say whether it is gone: one with processes or groups in it stays."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _number(file: str) -> int:
    try:
        return int(Path(file).read_text())
    except (OSError, ValueError):
        return 1 << 15
