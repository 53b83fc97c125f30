"""What bounds workspaces on this machine: control groups for all of them together, and room on the disk that homes lie on."""

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
    bound = f"all workspaces together: {most.memory_mb} MB, {most.pids} processes"
    if os.geteuid() != 0:
        return Finding("limits", Verdict.OPTIONAL, "only root can make control groups", _NO_GROUPS)
    places = [ROOT] if is_unified() else [ROOT / "memory", ROOT / "pids"]
    if not all(_can_be_written(place) for place in places):
        return Finding("limits", Verdict.OPTIONAL, f"no control groups can be made below {ROOT}", _NO_GROUPS)
    return Finding("limits", Verdict.OK, bound)


def examine_room(settings: Settings, nearest: Path) -> Finding:
    """`nearest`: what there is of the data directory's path."""
    free, floor = free_mb(nearest), settings.disk_floor_mb
    if free < floor:
        return Finding(
            "disk",
            Verdict.OPTIONAL,
            f"{free} MB free, and no workspace starts below {floor} MB",
            "free some space, or lower CODEHUB_DISK_FLOOR_MB",
        )
    found = find_quota(nearest)
    kept = "sizes of homes are kept by the filesystem"
    if isinstance(found, str):
        kept = f"sizes of homes are measured, not kept: {found}"
    return Finding("disk", Verdict.OK, f"{free} MB free, workspaces start while there are {floor} MB; {kept}")


def _can_be_written(place: Path) -> bool:
    return place.is_dir() and os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_RDONLY
