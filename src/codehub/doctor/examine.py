"""The examination: one function per part of the machine, each returning one finding."""

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from codehub.adapters.local.installed_ides import installed_ides
from codehub.adapters.local.network import find_gateway, why_unusable
from codehub.adapters.postgres.embedded import owner_of
from codehub.core.workspace import InstanceBackend
from codehub.doctor.bounds import examine_groups, examine_room
from codehub.doctor.database import examine_database
from codehub.doctor.findings import Finding, Running, Verdict
from codehub.doctor.kubernetes import examine_cluster
from codehub.doctor.language import say
from codehub.doctor.origins import examine_origins
from codehub.doctor.services import examine_docker, examine_redis, examine_s3
from codehub.settings import Settings

_ANSWER_S_MAX = 3.0
_FREE_MB_MIN = 500
_NOBODY_UID = 65_534
_PYTHON_MIN = (3, 11)


def examine(settings: Settings) -> list[Finding]:
    return [
        examine_python(),
        examine_data_dir(settings),
        *([] if settings.homes_dir is None else [examine_homes_dir(settings.homes_dir)]),
        examine_room(settings, _find_existing(settings.homes_root)[0], _find_existing(settings.data_dir)[0]),
        examine_database(settings),
        examine_port(settings),
        *examine_origins(settings),
        examine_archives(settings),
        examine_backend(settings),
        examine_sandbox(settings),
        examine_groups(settings),
        examine_ide(settings),
        examine_docker(settings),
        *(examine_cluster(settings) if settings.instance_backend is InstanceBackend.K8S else []),
        examine_redis(settings),
    ]


def examine_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON_MIN:
        return Finding("python", Verdict.BROKEN, version, say("python.do"))
    return Finding("python", Verdict.OK, version)


def examine_data_dir(settings: Settings) -> Finding:
    directory = settings.data_dir
    existing, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "data directory",
            Verdict.BROKEN,
            problem,
            say("data_dir.do"),
        )
    free_mb = shutil.disk_usage(existing).free // 2**20
    if free_mb < _FREE_MB_MIN:
        return Finding(
            "data directory",
            Verdict.BROKEN,
            say("data_dir.short", directory=directory, free=free_mb),
            say("data_dir.short.do"),
        )
    if (pid := _owner(settings)) is not None:
        running = say("data_dir.runs", directory=directory, free=free_mb, pid=pid)
        return Running("data directory", Verdict.OK, running)
    return Finding("data directory", Verdict.OK, say("data_dir.ok", directory=directory, free=free_mb))


def examine_homes_dir(directory: Path) -> Finding:
    _, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "homes",
            Verdict.BROKEN,
            problem,
            say("homes.do"),
        )
    return Finding("homes", Verdict.OK, say("homes.ok", directory=directory / "users"))


def examine_port(settings: Settings) -> Finding:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            if (pid := _find_running(settings)) is not None:
                return Finding("port", Verdict.OK, say("port.ours", url=settings.base_url, pid=pid))
            if error.errno == errno.EADDRINUSE:
                taken = say("port.taken", host=settings.host, port=settings.port)
                return Finding("port", Verdict.BROKEN, taken, say("port.taken.do"))
            unusable = say("port.unusable", host=settings.host, port=settings.port, error=error.strerror)
            return Finding("port", Verdict.BROKEN, unusable, say("port.unusable.do"))
    return Finding("port", Verdict.OK, say("port.free", host=settings.host, port=settings.port))


def _owner(settings: Settings) -> int | None:
    """Return the pid of the codehub in this directory. With an external database there is no owner."""
    return None if settings.database_url is not None else owner_of(settings.data_dir)


def _find_running(settings: Settings) -> int | None:
    """Return the pid of the codehub in this directory, if it has this address."""
    try:
        return _owner(settings) if settings.address_note.read_text().strip() == settings.base_url else None
    except OSError:
        return None


def examine_archives(settings: Settings) -> Finding:
    url = urlsplit(settings.archives)
    if url.scheme == "s3":
        return examine_s3(settings)
    directory = Path(unquote(url.path))
    _, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "archives",
            Verdict.BROKEN,
            problem,
            say("archives.do"),
        )
    return Finding("archives", Verdict.OK, str(directory))


def examine_backend(settings: Settings) -> Finding:
    return Finding(
        "backend", Verdict.OK, say("backend", instances=settings.instance_backend, homes=settings.homes)
    )


def examine_sandbox(settings: Settings) -> Finding:
    verdict = Verdict.OPTIONAL
    do = say("sandbox.do")
    if settings.instance_backend is not InstanceBackend.LOCAL_PROCESS:
        do = say("sandbox.unused")
    program = shutil.which("bwrap")
    if program is None:
        return Finding("sandbox", verdict, say("sandbox.none"), do)
    problem = _run(
        [program, "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--dev", "/dev", "true"]
    )
    if problem is not None:
        return Finding(
            "sandbox",
            verdict,
            say("sandbox.unusable", reason=problem),
            say("sandbox.unusable.do"),
        )
    gateway = find_gateway()
    if (network_problem := why_unusable(gateway, _NOBODY_UID if os.geteuid() == 0 else None)) is not None:
        return Finding(
            "sandbox",
            verdict,
            say("sandbox.shared", program=program, reason=network_problem),
            say("sandbox.shared.do"),
        )
    assert gateway is not None
    return Finding("sandbox", Verdict.OK, say("sandbox.ok", program=program, gateway=gateway.command[0]))


def examine_ide(settings: Settings) -> Finding:
    if settings.instance_backend is not InstanceBackend.LOCAL_PROCESS:
        return Finding("ide", Verdict.OK, say("ide.image"))
    ides = installed_ides()
    ide = settings.ide or next(iter(ides), "none")
    if ide in ides:
        program, others = ides[ide].program, ", ".join(name for name in ides if name != ide)
        if others:
            return Finding("ide", Verdict.OK, say("ide.others", ide=ide, program=program, others=others))
        return Finding("ide", Verdict.OK, say("ide.ok", ide=ide, program=program))
    return Finding(
        "ide",
        Verdict.OPTIONAL if settings.ide is None else Verdict.BROKEN,
        say("ide.none") if settings.ide is None else say("ide.missing", ide=ide),
        say("ide.do"),
    )


def _find_existing(directory: Path) -> tuple[Path, str | None]:
    """Return the existing part of a directory's path, and why the rest can't be made there, if it can't."""
    for existing in (directory, *directory.parents):
        try:
            is_directory = stat.S_ISDIR(existing.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return existing, say("path.unseen", path=existing, error=error.strerror)
        if not is_directory:
            return existing, say("path.file", path=existing)
        is_writable = os.access(existing, os.W_OK | os.X_OK)
        return existing, None if is_writable else say("path.read_only", path=existing)
    raise AssertionError("there is always /")


def _run(command: list[str]) -> str | None:
    """Return why the command failed, or None."""
    try:
        result = subprocess.run(command, capture_output=True, timeout=_ANSWER_S_MAX, check=False)  # noqa: S603  # our own arguments, no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if result.returncode == 0:
        return None
    return (
        result.stderr.decode(errors="replace").strip().splitlines()[-1]
        if result.stderr.strip()
        else f"exit {result.returncode}"
    )
