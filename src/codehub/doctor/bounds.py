"""Checks what limits workspaces on this machine: control groups, and free space on the homes' disk."""

import os
from pathlib import Path

from codehub.adapters.filesystems import free_mb
from codehub.adapters.groups import ROOT, is_unified, totals
from codehub.adapters.local.quota import find_quota
from codehub.doctor.findings import Finding, Verdict
from codehub.settings import Settings

_NO_GROUPS = "each workspace, and all of them together, can take what the machine has: run codehub as root, or let it run in a container or unit that is bound itself"


def examine_groups(settings: Settings) -> Finding:
    most = totals(settings.limit_memory_mb_total, settings.limit_pids_total)
    description = f"all workspaces together: {most.memory_mb} MB, {most.pids} processes"
    if os.geteuid() != 0:
        return Finding("limits", Verdict.OPTIONAL, "only root can make control groups", _NO_GROUPS)
    directories = [ROOT] if is_unified() else [ROOT / "memory", ROOT / "pids"]
    if not all(_can_be_written(directory) for directory in directories):
        return Finding("limits", Verdict.OPTIONAL, f"no control groups can be made below {ROOT}", _NO_GROUPS)
    return Finding("limits", Verdict.OK, description)


def examine_room(settings: Settings, homes: Path, data_dir: Path) -> Finding:
    """`homes`, `data_dir`: the part of each path that exists."""
    free, floor = min(free_mb(homes), free_mb(data_dir)), settings.disk_floor_mb
    if free < floor:
        return Finding(
            "disk",
            Verdict.OPTIONAL,
            f"{free} MB free, and no workspace starts below {floor} MB",
            "free some space, or lower CODEHUB_DISK_FLOOR_MB",
        )
    quota = find_quota(homes)
    size_note = "sizes of homes are kept by the filesystem"
    if isinstance(quota, str):
        size_note = f"sizes of homes are measured, not kept: {quota}"
    return Finding(
        "disk", Verdict.OK, f"{free} MB free, workspaces start while there are {floor} MB; {size_note}"
    )


def _can_be_written(directory: Path) -> bool:
    return (
        directory.is_dir()
        and os.access(directory, os.W_OK)
        and not os.statvfs(directory).f_flag & os.ST_RDONLY
    )
