"""Checks what limits workspaces on this machine: control groups, and free space on the homes' disk."""

import os
from pathlib import Path

from codehub.adapters.filesystems import free_mb
from codehub.adapters.groups import ROOT, is_unified, totals
from codehub.adapters.local.quota import find_quota
from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.language import say
from codehub.settings import Settings


def examine_groups(settings: Settings) -> Finding:
    most = totals(settings.limit_memory_mb_total, settings.limit_pids_total)
    description = say("limits.total", memory_mb=most.memory_mb, pids=most.pids)
    if os.geteuid() != 0:
        return Finding("limits", Verdict.OPTIONAL, say("limits.no_root"), say("limits.do"))
    directories = [ROOT] if is_unified() else [ROOT / "memory", ROOT / "pids"]
    if not all(_can_be_written(directory) for directory in directories):
        return Finding("limits", Verdict.OPTIONAL, say("limits.none", root=ROOT), say("limits.do"))
    return Finding("limits", Verdict.OK, description)


def examine_room(settings: Settings, homes: Path, data_dir: Path) -> Finding:
    """`homes`, `data_dir`: the part of each path that exists."""
    free, floor = min(free_mb(homes), free_mb(data_dir)), settings.disk_floor_mb
    if free < floor:
        return Finding(
            "disk",
            Verdict.OPTIONAL,
            say("disk.short", free=free, floor=floor),
            say("disk.short.do"),
        )
    quota = find_quota(homes)
    if isinstance(quota, str):
        return Finding("disk", Verdict.OK, say("disk.measured", free=free, floor=floor, reason=quota))
    return Finding("disk", Verdict.OK, say("disk.kept", free=free, floor=floor))


def _can_be_written(directory: Path) -> bool:
    return (
        directory.is_dir()
        and os.access(directory, os.W_OK)
        and not os.statvfs(directory).f_flag & os.ST_RDONLY
    )
