"""A program and its paths go in, the command that runs it in a sandbox comes out. Nothing is started here.

As root, bubblewrap does the mounting and setpriv inside it gives up root before the program runs: only root
can reach a home or an IDE below a directory like /root. The first process in there stays root's, without any
capability and out of reach.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HOME = "/home/coder"
RUNTIME = "/run/codehub"
STARTED = "begun"
LOCK_FD = 3
INFO_FD = 4
FILTER_FD = 5
_PROBE_S = 60.0  # a machine that is suspended for a while must not lose its sandbox
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

# Single files and directories of /etc that programs fail or misbehave without. Not passwd and group: those
# are generated. fmt: off
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki",
    "resolv.conf",
    "hosts",
    "host.conf",
    "nsswitch.conf",
    "gai.conf",
    "localtime",
    "timezone",
    "services",
    "protocols",
    "bash.bashrc",
    "profile",
    "profile.d",
    "inputrc",
    "terminfo",
    "fonts",
    "mime.types",
    "os-release",
    "debian_version",
    "locale.alias",
    "shells",
)
# fmt: on

# The launcher runs this first: a crash of codehub can't leave a process behind that could not be identified.
# $1: the file for its own stat. Then files to enter control groups by, then --, then the command. Descriptor
# 0 is the lock.
_LAUNCH_SCRIPT = """
set -eu
read -r stat < /proc/self/stat
printf '%s\\n' "$stat" > "$1"
shift
while [ "$1" != -- ]; do echo $$ > "$1"; shift; done
shift
umask 022
"""
_SANDBOXED = _LAUNCH_SCRIPT + (
    f'info=$1; shift; filter=$1; shift; exec "$@" {LOCK_FD}<&0 {INFO_FD}>"$info" {FILTER_FD}<"$filter" '
    "</dev/null"
)
# The user's processes never have the lock, so they can't release it: the identity is written by now.
_WITHOUT_SANDBOX = _LAUNCH_SCRIPT + 'cd "$1"; shift; exec "$@" </dev/null'

_START_SCRIPT = f': > {RUNTIME}/{STARTED} && cd "$HOME" && exec "$@"'


@dataclass(frozen=True, slots=True)
class Confinement:
    """The parts of one sandbox."""

    home: Path
    runtime: Path
    passwd: Path
    group: Path
    uid: int | None
    """The uid to change to, or None to keep ours."""
    visible: Sequence[Path]
    hidden: Sequence[Path]
    """What must not be seen even if something visible holds it, as codehub's own data."""
    tmp_mb: int
    pids: int
    refuses_users: bool = False
    """Whether bubblewrap can forbid user namespaces inside."""
    is_filtered: bool = False
    """Whether FILTER_FD holds a filter of system calls."""
    resolver: Path | None = None
    """Its resolv.conf, where this machine's would be wrong inside."""
    environment: Mapping[str, str] = field(default_factory=dict)


def sandbox_command(bwrap: Path, confinement: Confinement, argv: Sequence[str]) -> list[str]:
    """Return the bubblewrap command."""
    return [
        *(str(bwrap), "--sync-fd", str(LOCK_FD), "--info-fd", str(INFO_FD)),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *_identity(confinement.uid),
        *(("--disable-userns",) if confinement.refuses_users and confinement.uid is None else ()),
        *(("--seccomp", str(FILTER_FD)) if confinement.is_filtered else ()),
        *_system(confinement.resolver),
        *("--proc", "/proc", "--dev", "/dev"),
        *_scratch("/tmp", confinement.tmp_mb),  # noqa: S108  # the sandbox's own
        *_scratch("/dev/shm", confinement.tmp_mb),  # noqa: S108
        *_scratch("/var/tmp", confinement.tmp_mb),  # noqa: S108
        *_read_only(confinement, [path for path in confinement.visible if not path.is_relative_to(HOME)]),
        *(
            "--ro-bind",
            str(confinement.passwd),
            "/etc/passwd",
            "--ro-bind",
            str(confinement.group),
            "/etc/group",
        ),
        *("--perms", "0755", "--dir", "/home", "--bind", str(confinement.home), HOME),
        *_read_only(
            confinement,
            [path for path in confinement.visible if path.is_relative_to(HOME) and confinement.uid is None],
        ),
        *("--perms", "0755", "--dir", "/run", "--bind", str(confinement.runtime), RUNTIME),
        *("--remount-ro", "/", "--clearenv"),
        *(
            argument
            for name, value in confinement.environment.items()
            for argument in ("--setenv", name, value)
        ),
        # Enter the home only now: root without capabilities may not. The file distinguishes a sandbox that is
        # being made from one whose program has ended.
        *(
            "--",
            *unprivileged_command(
                confinement.uid, confinement.pids, ["/bin/sh", "-c", _START_SCRIPT, "ide", *argv]
            ),
        ),
    ]


def unprivileged_command(uid: int | None, pids: int | None, argv: Sequence[str]) -> list[str]:
    """Return the command that gives up what the program must not have, limits its processes and becomes it.

    The kernel counts the processes of a uid: that is the workspace's where it has its own, and the sandbox's
    where it has a user namespace. Elsewhere (`pids` None) the count would be of all that the person runs on
    this machine.
    """
    # By their full paths: on PATH the home comes first, and this still runs as root.
    command = [_tool("setpriv"), "--no-new-privs"]
    if uid is not None:
        command += [
            f"--reuid={uid}",
            f"--regid={uid}",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]
    if pids is not None:
        command += [_tool("prlimit"), f"--nproc={pids}:{pids}"]
    return [*command, *argv]


def launch_command(
    identity: Path, groups: Sequence[Path], command: Sequence[str], *, info: Path, calls: Path
) -> list[str]:
    """Return the command that starts a sandbox: it writes its identity, enters its control groups and becomes
    the command.
    """
    return [
        "/bin/sh",
        "-c",
        _SANDBOXED,
        "codehub",
        str(identity),
        *map(str, groups),
        "--",
        str(info),
        str(calls),
        *command,
    ]


def plain_launch_command(
    identity: Path, groups: Sequence[Path], command: Sequence[str], *, cwd: Path
) -> list[str]:
    """Return the same without a sandbox."""
    return [
        "/bin/sh",
        "-c",
        _WITHOUT_SANDBOX,
        "codehub",
        str(identity),
        *map(str, groups),
        "--",
        str(cwd),
        *command,
    ]


def why_unusable(bwrap: Path | None, uid: int | None) -> str | None:
    """Return why bubblewrap can't be used here, or None if it can.

    Asked by running it, as a workspace would be.
    """
    if bwrap is None:
        return "bubblewrap is not installed"
    if missing := missing_tools():
        return missing
    command = [
        *(str(bwrap), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *_identity(uid),
        *_system(),
        *(
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--remount-ro",
            "/",
            "--",
            *unprivileged_command(uid, 64, ["/usr/bin/true"]),
        ),
    ]
    try:
        result = subprocess.run(  # noqa: S603  # the command is ours
            command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap can't run here: {error}"
    error_output = " ".join(result.stderr.decode(errors="replace").split())
    return None if result.returncode == 0 else f"bubblewrap can't run here: {error_output[:200]}"


def _identity(uid: int | None) -> Sequence[str]:
    if uid is None:
        return ("--unshare-user",)
    # What setpriv needs to drop all others, and then these.
    capabilities = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    return ("--cap-drop", "ALL", *(argument for name in capabilities for argument in ("--cap-add", name)))


def _system(resolver: Path | None = None) -> list[str]:
    """Return the read-only system: /usr, what leads to it, and the few files of /etc."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            arguments += ["--ro-bind", str(path), str(path)]
    for directory in ("/etc", "/etc/ssl", "/var"):
        arguments += ["--perms", "0755", "--dir", directory]
    for name in _ETC:
        source = f"/etc/{name}" if resolver is None or name != "resolv.conf" else str(resolver)
        arguments += ["--ro-bind-try", source, f"/etc/{name}"]
    return arguments


def _scratch(path: str, size_mb: int) -> Sequence[str]:
    return ("--perms", "1777", "--size", str(size_mb * 1024 * 1024), "--tmpfs", path)


def _read_only(confinement: Confinement, visible: Sequence[Path]) -> list[str]:
    arguments: list[str] = []
    created: set[Path] = set()
    for path in sorted(set(visible)):
        if path.is_relative_to("/usr"):
            continue
        # bubblewrap makes missing parents 0700, which the workspace's user could not pass.
        for parent in reversed(path.parents[:-1]):
            if parent not in created:
                created.add(parent)
                arguments += ["--perms", "0755", "--dir", str(parent)]
        arguments += ["--ro-bind", str(path), str(path)]
    for hidden in confinement.hidden:
        if any(hidden.is_relative_to(path) for path in (Path("/usr"), *visible)):
            arguments += ["--tmpfs", str(hidden)]
    return arguments


def blocked_directory(path: Path, uid: int) -> Path | None:
    """Return the first directory on the way to `path` that this uid can't enter, or None.

    Outside a sandbox that matters.
    """
    for directory in [*reversed(path.parents), path]:
        status = directory.stat()
        if not status.st_mode & (0o100 if status.st_uid == uid else 0o001):
            return directory
    return None


def missing_tools() -> str | None:
    """Return what is missing to give up root, or None."""
    missing = [name for name in ("setpriv", "prlimit") if shutil.which(name, path=_SYSTEM_PATH) is None]
    return f"{' and '.join(missing)} (util-linux) not found in {_SYSTEM_PATH}" if missing else None


def refuses_users(bwrap: Path) -> bool:
    """Return whether this bubblewrap knows --disable-userns: since 0.8."""
    with suppress(OSError, subprocess.TimeoutExpired):
        result = subprocess.run([str(bwrap), "--help"], capture_output=True, timeout=_PROBE_S, check=False)  # noqa: S603
        return b"--disable-userns" in result.stdout + result.stderr
    return False


def find_bubblewrap() -> Path | None:
    path = shutil.which("bwrap", path=_SYSTEM_PATH)
    return None if path is None else Path(path)


def _tool(name: str) -> str:
    return shutil.which(name, path=_SYSTEM_PATH) or f"/usr/bin/{name}"
