"""Resources go in, control groups that limit a workspace to them come out.

Lists the limits that are missing.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codehub.adapters.groups import ROOT as _ROOT
from codehub.adapters.groups import Totals, bind_together, is_unified, make_group, remove_group
from codehub.adapters.local.processes import POLL_S
from codehub.core.workspace import Resources
from codehub.ports.disks import ResourceUse
from codehub.ports.system import Clock

_CONTROLLERS = ("memory", "cpu", "pids")
_PERIOD_US = 100_000
_REMOVE_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The groups' parents by what they limit; one and the same directory for all under cgroup v2."""

    parents: Mapping[str, Path]
    is_unified: bool
    totals: Totals | None = None
    """What all workspaces together may take."""

    @property
    def missing(self) -> list[str]:
        return [name for name in _CONTROLLERS if name not in self.parents]

    def prepare(self, workspace_id: UUID, resources: Resources) -> list[Path]:
        """Make the groups and return the files that a process enters them by."""
        entries = []
        for name, parent in self.parents.items():
            group = parent / str(workspace_id)
            make_group(parent, name, unified=self.is_unified)
            group.mkdir(exist_ok=True)
            for file, value in _values(name, resources, unified=self.is_unified):
                with suppress(FileNotFoundError):  # swap may not be counted
                    (group / file).write_text(value)
            entries.append(group / "cgroup.procs")
        if self.totals is not None:
            bind_together(self.parents, self.totals, unified=self.is_unified)
        return list(dict.fromkeys(entries))

    @contextmanager
    def open_groups(self, workspace_id: UUID) -> Iterator[list[int]]:
        """Yield descriptors by which a process enters the groups of a running instance from any namespace."""
        entries = dict.fromkeys(
            parent / str(workspace_id) / "cgroup.procs" for parent in self.parents.values()
        )
        with ExitStack() as stack:
            fds = []
            for entry in entries:
                fds.append(os.open(entry, os.O_WRONLY | os.O_CLOEXEC))
                stack.callback(os.close, fds[-1])
            yield fds

    def spent(self, workspace_id: UUID) -> ResourceUse | None:
        """Return what the processes in a workspace's groups use; None where it is not counted."""
        if self.missing:
            return None
        try:
            memory = self.parents["memory"] / str(workspace_id)
            cpu = self.parents["cpu"] / str(workspace_id)
            if self.is_unified:
                cpu_stat = dict(line.split() for line in (cpu / "cpu.stat").read_text().splitlines())
                used, spent_s = (
                    int((memory / "memory.current").read_text()),
                    int(cpu_stat["usage_usec"]) / 1e6,
                )
            else:
                used = int((memory / "memory.usage_in_bytes").read_text())
                spent_s = int((cpu / "cpuacct.usage").read_text()) / 1e9
        except (OSError, ValueError, KeyError):
            return None
        return ResourceUse(used >> 20, spent_s)

    async def remove(self, workspace_id: UUID, clock: Clock) -> None:
        """Remove the groups.

        The kernel needs a moment to see that they are empty; one that stays is used again.
        """
        deadline = clock.monotonic() + _REMOVE_S
        for group in {parent / str(workspace_id) for parent in self.parents.values()}:
            while not remove_group(group) and clock.monotonic() < deadline:
                await clock.sleep(POLL_S)

    def close(self) -> None:
        """Remove the parents, if nothing runs in them."""
        for parent in set(self.parents.values()):
            remove_group(parent)


def find_limits(install_id: str, totals: Totals | None = None) -> Limits:
    """Return what control groups this process can make. Only root is asked to: others rarely own any."""
    if os.geteuid() != 0:
        return Limits({}, is_unified=False)
    name = f"codehub-{install_id}"
    unified = is_unified(_ROOT)
    candidates = dict.fromkeys(_CONTROLLERS, _ROOT / name) if unified else _own_groups(name)
    parents = {}
    for controller, parent in candidates.items():
        with suppress(OSError):
            make_group(parent, controller, unified=unified)
            parents[controller] = parent
    return Limits(parents, is_unified=unified, totals=totals)


def _own_groups(name: str) -> dict[str, Path]:
    """Return the paths below our own groups of cgroup v1: our own limits apply to workspaces too."""
    rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = {controller: path for _, names, path in rows for controller in names.split(",")}
    return {
        controller: _ROOT / controller / own[controller].lstrip("/") / name
        for controller in _CONTROLLERS
        if controller in own
    }


def _values(controller: str, resources: Resources, *, unified: bool) -> Sequence[tuple[str, str]]:
    memory = str(resources.memory_mb * 1024 * 1024)
    quota = str(max(1_000, int(resources.cpus * _PERIOD_US)))
    table = {
        ("memory", True): (("memory.max", memory), ("memory.swap.max", "0")),
        ("memory", False): (
            ("memory.memsw.limit_in_bytes", "-1"),  # must never be below the other
            ("memory.limit_in_bytes", memory),
            ("memory.memsw.limit_in_bytes", memory),
        ),
        ("cpu", True): (("cpu.max", f"{quota} {_PERIOD_US}"),),
        ("cpu", False): (("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", quota)),
        ("pids", True): (("pids.max", str(resources.pids)),),
        ("pids", False): (("pids.max", str(resources.pids)),),
    }
    return table[controller, unified]
