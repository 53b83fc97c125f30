"""Project quotas: a home and a size in, a limit that the filesystem itself enforces comes out. Where there
are none, it returns the reason.

A home's directory, and all that is made in it, belongs to a project of its own; the kernel counts a project's
blocks and refuses more. Nothing but the kernel is needed: no quota tools, no /etc/projects.
"""

import ctypes
import fcntl
import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

_FILESYSTEMS = ("ext4", "xfs", "f2fs")
_OPTIONS = frozenset({"prjquota", "pquota"})
_PROJECT_QUOTA = 2
_GET, _SET = 0x800007, 0x800008  # Q_GETQUOTA, Q_SETQUOTA
_BLOCK_LIMITS = 1
_BLOCKS_PER_MB = 1024
_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820  # FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR
_INHERIT = 0x200
_ATTRIBUTES = struct.Struct("=5I8s")  # struct fsxattr
_LIMITS = struct.Struct("=8QI4x")  # struct if_dqblk: limits in blocks of 1 KiB, use in bytes
_PROJECT_MIN = 1 << 16  # lower numbers are those that people assign by hand


@dataclass(frozen=True, slots=True)
class Quota:
    """The project quotas of one mounted filesystem. Every call blocks: run it in a thread."""

    device: str

    def bind(self, home: Path, workspace_id: UUID, most_mb: int) -> None:
        """Limit the size of a home. Its existing files are counted once, at the first call."""
        project = project_of(workspace_id)
        if _project(home) != project:
            _assign_all(home, project)
        limits = _LIMITS.pack(most_mb * _BLOCKS_PER_MB, 0, 0, 0, 0, 0, 0, 0, _BLOCK_LIMITS)
        _quotactl(_SET, self.device, project, ctypes.create_string_buffer(limits, len(limits)))

    def used_mb(self, workspace_id: UUID) -> int:
        buffer = ctypes.create_string_buffer(_LIMITS.size)
        _quotactl(_GET, self.device, project_of(workspace_id), buffer)
        return int(_LIMITS.unpack(buffer.raw)[2]) >> 20


def find_quota(path: Path, mounts: str | None = None) -> Quota | str:
    """Return the quotas of the filesystem that holds this place, or why there are none."""
    if os.geteuid() != 0:
        return "only root can set quotas"
    mount = _mount_of(path, Path("/proc/self/mountinfo").read_text() if mounts is None else mounts)
    if mount.kind not in _FILESYSTEMS:
        return f"{mount.kind} has no project quotas"
    if not _OPTIONS & mount.options:
        return f"{mount.path} is not mounted with prjquota"
    quota = Quota(mount.device)
    try:
        quota.used_mb(UUID(int=0))
    except FileNotFoundError:
        return quota  # the project does not exist, so quotas work
    except OSError as error:
        return f"the kernel has no quotas for {mount.path} ({error.strerror})"
    return quota


def project_of(workspace_id: UUID) -> int:
    """Return a home's project. Two homes of one project, which is most unlikely, share their limit."""
    number = int.from_bytes(hashlib.sha256(workspace_id.bytes).digest()[:4], "big")
    return _PROJECT_MIN + number % ((1 << 31) - _PROJECT_MIN)


@dataclass(frozen=True, slots=True)
class _Mount:
    path: str
    kind: str
    device: str
    options: frozenset[str]


def _mount_of(path: Path, mounts: str) -> _Mount:
    """Return the mount that holds a place. Of two on one path the later one hides the earlier."""
    candidates = [mount for mount in _mounts(mounts) if path.resolve().is_relative_to(mount.path)]
    return max(reversed(candidates), key=lambda mount: len(mount.path))


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        mount, _, filesystem = line.partition(" - ")
        fields, (kind, device, options) = mount.split(), filesystem.split(" ", 2)
        all_options = frozenset((*fields[5].split(","), *options.split(",")))
        yield _Mount(_unescape(fields[4]), kind, device, all_options)


def _unescape(path: str) -> str:
    """Read a path of mountinfo: the kernel writes spaces, tabs, newlines and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _assign_all(home: Path, project: int) -> None:
    """Give everything in a home to its project, through no link.

    The home itself comes last: until then it is not done.
    """
    for directory, _names, files, fd in os.fwalk(home, follow_symlinks=False):
        for name in files:
            if stat.S_ISREG(os.lstat(name, dir_fd=fd).st_mode):
                with _open(name, fd) as file:
                    _assign(file, project)
        if Path(directory) != home:
            _assign(fd, project)
    with _open(home) as home_fd:
        _assign(home_fd, project)


def _project(path: Path) -> int:
    with _open(path) as fd:
        return int(_attributes(fd)[3])


def _assign(fd: int, project: int) -> None:
    flags, extent, count, _before, cow, rest = _attributes(fd)
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        flags |= _INHERIT
    fcntl.ioctl(fd, _SET_ATTRIBUTES, _ATTRIBUTES.pack(flags, extent, count, project, cow, rest))


def _attributes(fd: int) -> tuple[int, int, int, int, int, bytes]:
    buffer = bytearray(_ATTRIBUTES.size)
    fcntl.ioctl(fd, _GET_ATTRIBUTES, buffer)
    flags, extent, count, project, cow, rest = _ATTRIBUTES.unpack(buffer)
    return flags, extent, count, project, cow, rest


@contextmanager
def _open(path: Path | str, directory: int | None = None) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield fd
    finally:
        os.close(fd)


def _quotactl(command: int, device: str, project: int, buffer: "ctypes.Array[ctypes.c_char]") -> None:
    number = command << 8 | _PROJECT_QUOTA
    signed = number - (1 << 32) if number >= 1 << 31 else number
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.quotactl(ctypes.c_int(signed), os.fsencode(device), ctypes.c_int(project), buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), device)
