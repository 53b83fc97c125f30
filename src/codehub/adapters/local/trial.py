"""Tries each IDE of this machine as a workspace would run it, before there is a workspace.

Where the workspace's user can't read an IDE, a copy of it is tried. Returns the reason for each that can't be
run.
"""

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.ending import end
from codehub.adapters.local.installed_ides import IdePaths, InstalledIde
from codehub.adapters.local.launch import Launcher, check_reach
from codehub.adapters.local.readable import readable_copy
from codehub.adapters.local.records import Paths
from codehub.adapters.processes import all_ended
from codehub.core.messages import Code, Message, verbatim
from codehub.core.workspace import Resources, StorageBackend
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec
from codehub.ports.system import Clock

TRIAL_ID = UUID(int=0)
_TRIAL_S = 60.0  # a machine that is suspended for a while can still run an IDE
_RESOURCES = Resources(memory_mb=512, cpus=1.0, pids=128)
_ANSWER = "codehub: it runs"
_CHECK_COMMAND = ("/bin/sh", "-c", f'"$@" && echo "{_ANSWER}"', "trial")
_OUTPUT_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The IDEs that can be run, and the reason for each that can't."""

    ides: Mapping[str, InstalledIde]
    failures: Mapping[str, Message]


async def try_ides(
    launcher: Launcher, ides: Mapping[str, InstalledIde], directory: Path, cache: Path, clock: Clock
) -> TrialResult:
    """Try them all. `place` is a directory for this alone, beside the homes; `cache` is for copies."""
    runnable: dict[str, InstalledIde] = {}
    failures: dict[str, Message] = {}
    # Left by a process that was killed here.
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    try:
        for name, ide in ides.items():
            result = await _runnable(launcher, ide, directory, cache, clock)
            if isinstance(result, InstalledIde):
                runnable[name] = result
            else:
                failures[name] = result
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    return TrialResult(runnable, failures)


async def _runnable(
    launcher: Launcher, ide: InstalledIde, directory: Path, cache: Path, clock: Clock
) -> InstalledIde | Message:
    problem = await _find_problem(launcher, ide, directory, clock)
    uid = launcher.accounts.uid_of(TRIAL_ID)
    if problem is None or uid is None:
        return problem or ide
    try:
        if launcher.bwrap is None:
            check_reach(uid, [directory])  # no copy helps if the home itself can't be reached
        copy = await asyncio.to_thread(readable_copy, ide, cache)
    except ActionFailed as error:
        return error.message
    problem = await _find_problem(launcher, copy, directory, clock)
    return problem or copy


async def _find_problem(
    launcher: Launcher, ide: InstalledIde, directory: Path, clock: Clock
) -> Message | None:
    """Return why it can't be run, or None. It is run as a workspace would be, but on an empty home."""

    def argv(_place: IdePaths) -> tuple[str, ...]:
        return (*_CHECK_COMMAND, *ide.check)

    home, paths = _make_home(directory), Paths(directory / "instance")
    spec = InstanceSpec(TRIAL_ID, StorageBackend.LOCAL_DIR, "trial", "", ide.name, _RESOURCES)
    try:
        process = await launcher.launch(spec, "trial", home, replace(ide, argv=argv), paths)
    except ActionFailed as error:
        return error.message
    except OSError as error:
        return verbatim(str(error))
    has_ended = process is None or await all_ended([process], clock=clock, within_s=_TRIAL_S)
    record = paths.read()
    assert record is not None
    uid = launcher.accounts.uid_of(TRIAL_ID)
    await end(paths, record, launcher.marks(TRIAL_ID), uid, grace_s=0, clock=clock)
    if process is not None:
        process.reap()  # nothing else watches it
    await launcher.limits.remove(TRIAL_ID, clock)
    lines = paths.log.read_text(errors="replace").splitlines()
    paths.remove()
    if _ANSWER in lines:
        return None
    output = " ".join(" ".join(lines).split())[-_OUTPUT_LENGTH_MAX:]
    return verbatim(output) if has_ended else Message(Code.IDE_SILENT, {"seconds": _TRIAL_S, "text": output})


def _make_home(directory: Path) -> Path:
    home = directory / "home"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o711)
    return home
