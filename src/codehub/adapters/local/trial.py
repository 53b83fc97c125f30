"""The IDEs of this machine go in, those that a workspace could really run come out, before there is a workspace: each is tried as one
would run it, and where its user can't read it, from a copy. What can't be run is told why."""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.ending import end
from codehub.adapters.local.installed_ides import InstalledIde, Place
from codehub.adapters.local.launch import Launcher, check_reach
from codehub.adapters.local.readable import readable_copy
from codehub.adapters.local.records import Paths
from codehub.adapters.processes import all_ended
from codehub.core.workspace import Resources, StorageBackend
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec
from codehub.ports.system import Clock

TRIAL_ID = UUID(int=0)
_TRIAL_S = 60.0  # a machine that stands still for a while runs an IDE all the same
_RESOURCES = Resources(memory_mb=512, cpus=1.0, pids=128)
_ANSWER = "codehub: it runs"
_ANSWERING = ("/bin/sh", "-c", f'"$@" && echo "{_ANSWER}"', "trial")
_TOLD_MAX = 300


@dataclass(frozen=True, slots=True)
class Tried:
    """What can be run, as it is to be run, and why the rest can't."""

    ides: Mapping[str, InstalledIde]
    failures: Mapping[str, str]


async def tried(
    launcher: Launcher, ides: Mapping[str, InstalledIde], place: Path, cache: Path, clock: Clock
) -> Tried:
    """Try them all. `place` is a directory for this alone, beside the homes; `cache` is for copies."""
    found: dict[str, InstalledIde] = {}
    failures: dict[str, str] = {}
    await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)  # of one who was killed here
    try:
        for name, ide in ides.items():
            result = await _runnable(launcher, ide, place, cache, clock)
            if isinstance(result, InstalledIde):
                found[name] = result
            else:
                failures[name] = result
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    return Tried(found, failures)


async def _runnable(
    launcher: Launcher, ide: InstalledIde, place: Path, cache: Path, clock: Clock
) -> InstalledIde | str:
    why_not = await _why_not(launcher, ide, place, clock)
    uid = launcher.accounts.uid_of(TRIAL_ID)
    if why_not is None or uid is None:
        return why_not or ide
    try:
        if launcher.bwrap is None:
            check_reach(uid, [place])  # a home that can't be reached is not helped by any copy
        copy = await asyncio.to_thread(readable_copy, ide, cache)
    except ActionFailed as error:
        return str(error)
    why_not = await _why_not(launcher, copy, place, clock)
    return why_not or copy


async def _why_not(launcher: Launcher, ide: InstalledIde, place: Path, clock: Clock) -> str | None:
    """Return why it can't be run, or None. It is run as a workspace would, all but its home."""

    def argv(_place: Place) -> tuple[str, ...]:
        return (*_ANSWERING, *ide.check)

    home, paths = _made_home(place), Paths(place / "instance")
    spec = InstanceSpec(TRIAL_ID, StorageBackend.LOCAL_DIR, "trial", "", ide.name, _RESOURCES)
    try:
        process = await launcher.launch(spec, "trial", home, replace(ide, argv=argv), paths)
    except (ActionFailed, OSError) as error:
        return str(error)
    has_ended = process is None or await all_ended([process], clock=clock, within_s=_TRIAL_S)
    record = paths.read()
    assert record is not None
    uid = launcher.accounts.uid_of(TRIAL_ID)
    await end(paths, record, launcher.marks(TRIAL_ID), uid, grace_s=0, clock=clock)
    if process is not None:
        process.reap()  # no watch is on it
    await launcher.limits.remove(TRIAL_ID, clock)
    said = paths.log.read_text(errors="replace").splitlines()
    paths.remove()
    if _ANSWER in said:
        return None
    words = " ".join(" ".join(said).split())
    return words[-_TOLD_MAX:] if has_ended else f"no answer in {_TRIAL_S:g} s {words[-_TOLD_MAX:]}"


def _made_home(place: Path) -> Path:
    home = place / "home"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.chmod(0o711)
    return home
