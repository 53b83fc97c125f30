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
        examine_archives(settings),
        examine_backend(settings),
        examine_sandbox(settings),
        examine_groups(settings),
        examine_ide(settings),
        examine_docker(settings),
        examine_redis(settings),
    ]


def examine_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON_MIN:
        return Finding("python", Verdict.BROKEN, version, "install Python 3.11 or later")
    return Finding("python", Verdict.OK, version)


def examine_data_dir(settings: Settings) -> Finding:
    directory = settings.data_dir
    existing, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "data directory",
            Verdict.BROKEN,
            f"{existing} {problem}",
            "give this user the directory, or set CODEHUB_DATA_DIR to one that is writable",
        )
    free_mb = shutil.disk_usage(existing).free // 2**20
    if free_mb < _FREE_MB_MIN:
        return Finding(
            "data directory",
            Verdict.BROKEN,
            f"{directory}: only {free_mb} MB free",
            "free some space, or set CODEHUB_DATA_DIR elsewhere",
        )
    description = f"{directory} ({free_mb} MB free)"
    if (pid := _owner(settings)) is not None:
        return Running("data directory", Verdict.OK, f"{description}, codehub runs there (pid {pid})")
    return Finding("data directory", Verdict.OK, description)


def examine_homes_dir(directory: Path) -> Finding:
    nearest, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "homes",
            Verdict.BROKEN,
            f"{nearest} {problem}",
            "give this user the directory, or set CODEHUB_HOMES_DIR to one that is writable",
        )
    return Finding("homes", Verdict.OK, f"in {directory / 'users'}")


def examine_port(settings: Settings) -> Finding:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            if (pid := _find_running(settings)) is not None:
                return Finding("port", Verdict.OK, f"{settings.base_url} is this codehub's (pid {pid})")
            if error.errno == errno.EADDRINUSE:
                problem, do = (
                    "is taken",
                    "stop what listens there (another codehub?), or set CODEHUB_PORT to a free port",
                )
            else:
                problem, do = (
                    f"can't be used ({error.strerror})",
                    "set CODEHUB_HOST to an address of this machine and CODEHUB_PORT to a port this user may use",
                )
            return Finding("port", Verdict.BROKEN, f"{settings.host}:{settings.port} {problem}", do)
    return Finding("port", Verdict.OK, f"{settings.host}:{settings.port} is free")


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
    existing, problem = _find_existing(directory)
    if problem is not None:
        return Finding(
            "archives",
            Verdict.BROKEN,
            f"{existing} {problem}",
            "set CODEHUB_ARCHIVE_URL to a directory that is writable",
        )
    return Finding("archives", Verdict.OK, str(directory))


def examine_backend(settings: Settings) -> Finding:
    if settings.instance_backend is InstanceBackend.K8S:
        do = "set CODEHUB_INSTANCE_BACKEND to local-process or local-docker"
        return Finding("backend", Verdict.BROKEN, "k8s is not there yet", do)
    return Finding("backend", Verdict.OK, f"{settings.instance_backend}, homes: {settings.homes}")


def examine_sandbox(settings: Settings) -> Finding:
    verdict = Verdict.OPTIONAL
    do = "apt-get install bubblewrap passt: without it a local workspace is a plain process that sees this user's files"
    if settings.instance_backend is not InstanceBackend.LOCAL_PROCESS:
        do = "nothing: only local-process workspaces use it"
    program = shutil.which("bwrap")
    if program is None:
        return Finding("sandbox", verdict, "bubblewrap is not installed", do)
    problem = _run(
        [program, "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--dev", "/dev", "true"]
    )
    if problem is not None:
        return Finding(
            "sandbox",
            verdict,
            f"bubblewrap can't make a sandbox here: {problem}",
            "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root",
        )
    gateway = find_gateway()
    if (network_problem := why_unusable(gateway, _NOBODY_UID if os.geteuid() == 0 else None)) is not None:
        return Finding(
            "sandbox",
            verdict,
            f"bubblewrap ({program}), but this machine's network is shared: {network_problem}",
            "apt-get install passt: without it every workspace reaches what listens on this machine's loopback",
        )
    assert gateway is not None
    return Finding("sandbox", Verdict.OK, f"bubblewrap ({program}), networks by {gateway.command[0]}")


def examine_ide(settings: Settings) -> Finding:
    if settings.instance_backend is not InstanceBackend.LOCAL_PROCESS:
        return Finding("ide", Verdict.OK, "comes with the image")
    ides = installed_ides()
    ide = settings.ide or next(iter(ides), "none")
    if ide in ides:
        other_ides = "".join(f", and {name}" for name in ides if name != ide)
        return Finding("ide", Verdict.OK, f"{ide} ({ides[ide].program}){other_ides}")
    return Finding(
        "ide",
        Verdict.OPTIONAL if settings.ide is None else Verdict.BROKEN,
        "none found" if settings.ide is None else f"{ide} not found",
        "install code-server (`make code-server` builds it), or `pip install jupyterlab` beside codehub",
    )


def _find_existing(directory: Path) -> tuple[Path, str | None]:
    """Return the existing part of a directory's path, and why the rest can't be made there, if so."""
    for existing in (directory, *directory.parents):
        try:
            is_directory = stat.S_ISDIR(existing.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return existing, f"can't be looked at ({error.strerror})"
        if not is_directory:
            return existing, "is a file, not a directory"
        return existing, None if os.access(existing, os.W_OK | os.X_OK) else "can't be written to"
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
