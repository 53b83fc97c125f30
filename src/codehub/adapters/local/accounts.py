"""A workspace goes in, the uid of its processes and files comes out: its own under root, else ours.

No uid is used again while anything of its workspace is left.
"""

import fcntl
import os
import subprocess
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import structlog

from codehub.adapters.processes import all_pids, read_proc_file
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

log = structlog.get_logger()

USER = "coder"
_BLOCK = 65_536
_FIRST = 0x2000_0000
_BLOCKS = 16_384
_WIDTH = 37
_TRIAL_ID = str(UUID(int=0))  # the trial's line, which is never reused
_FIND = ("find", "-P")
_SCRATCH = tuple(path for path in map(Path, ("/tmp", "/var/tmp", "/dev/shm")) if path.is_dir())  # noqa: S108


@dataclass(frozen=True, slots=True)
class RemainingNames:
    """What remains of workspaces: the names of their directories, and the uids of files and processes."""

    names: Set[str]
    uids: Set[int]


class Accounts:
    """One line per workspace; the number of its line determines its uid. A line is used again only when none
    is free, and only if nothing of its workspace remains: no home, no archive, no file and no process.

    Two installations of one machine must not share uids either, so each has its own block of them.
    """

    def __init__(
        self,
        path: Path,
        install_id: str,
        *,
        find_remaining: Callable[[], RemainingNames] | None = None,
        block: int = _BLOCK,
    ) -> None:
        """`find_remaining` is called when no uid is free; without it no uid is used twice.

        `block` is how many there are, for tests.
        """
        self._path = path
        self._find_remaining = find_remaining
        self._block = block
        self._first = first_uid(install_id, _uid_max())
        self._numbers: dict[UUID, int] = {}

    def uid_of(self, workspace_id: UUID) -> int | None:
        """Return the workspace's own uid, or None where there is none to give: only root can."""
        if os.geteuid() != 0:
            return None
        line = f"{workspace_id}\n".encode()
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            number = self._numbers.get(workspace_id)
            # Another process may have reused it since, if nothing of the workspace was left.
            if number is None or os.pread(fd, _WIDTH, number * _WIDTH) != line:
                fcntl.flock(file, fcntl.LOCK_EX)
                number = self._numbers[workspace_id] = self._line_number(file, line)
        return self._first + number

    def _line_number(self, file: BinaryIO, line: bytes) -> int:
        content = file.read()
        lines = [content[at : at + _WIDTH] for at in range(0, len(content) // _WIDTH * _WIDTH, _WIDTH)]
        if line in lines:
            return lines.index(line)
        # A line that a crash cut short was never used: it is written over.
        number = len(lines) if len(lines) < self._block else self._find_free(lines)
        file.seek(number * _WIDTH)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
        return number

    def _find_free(self, lines: Sequence[bytes]) -> int:
        """Return a line whose workspace has left nothing behind."""
        if self._find_remaining is not None:
            remaining = self._find_remaining()
            for number, line in enumerate(lines):
                name = line.decode().strip()
                if (
                    name not in remaining.names
                    and name != _TRIAL_ID
                    and self._first + number not in remaining.uids
                ):
                    log.info("uid_given_again", uid=self._first + number, former=name)
                    return number
        raise ActionFailed(Message(Code.USER_IDS_TAKEN, {"count": self._block}))


def find_remaining(
    data_dir: Path, homes_root: Path | None = None, scratch: Sequence[Path] = _SCRATCH
) -> RemainingNames:
    """Look through the data directory, that of homes, those that everybody may write to, and the processes of
    this machine.
    """
    names, uids = set[str](), set[int]()
    for pid in all_pids():
        rows = (line.split() for line in (read_proc_file(pid, "status") or "").splitlines())
        uids |= {int(uid) for row in rows if row and row[0] == "Uid:" for uid in row[1:]}
    ours = {data_dir, homes_root or data_dir}
    for directory in (*ours, *scratch):
        # The database's own files are many, and belong to no workspace.
        listing = subprocess.run(  # noqa: S603  # the command is ours
            [
                *_FIND,
                str(directory),
                "-ignore_readdir_race",
                "-path",
                f"{data_dir}/postgres",
                "-prune",
                "-o",
                "-printf",
                r"%U %f\0",
            ],
            stdout=subprocess.PIPE,
            check=directory in ours,
        ).stdout
        for entry in listing.decode(errors="surrogateescape").split("\0")[:-1]:
            uid, _, name = entry.partition(" ")
            uids.add(int(uid))
            if directory in ours:
                names.add(name)
    return RemainingNames(names, uids)


def write_names(directory: Path, uid: int) -> tuple[Path, Path]:
    """Write the passwd and group files that a sandbox sees: its own user has a name, and no user of the
    machine is listed.
    """
    system_users = (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    passwd, group = directory / "passwd", directory / "group"
    passwd.write_text(f"{system_users}{USER}:x:{uid}:{uid}:{USER}:/home/{USER}:/bin/bash\n")
    group.write_text(f"root:x:0:\ntty:x:5:\nnogroup:x:65534:\n{USER}:x:{uid}:\n")
    for path in (passwd, group):
        path.chmod(0o644)
    return passwd, group


def uids_of(install_id: str) -> range:
    """Return the uids that workspaces of this installation have: none where codehub is not root."""
    first = first_uid(install_id, _uid_max())
    return range(first, first + _BLOCK) if os.geteuid() == 0 else range(0)


def first_uid(install_id: str, uid_max: int) -> int:
    if uid_max < _FIRST + _BLOCK * _BLOCKS:
        return uid_max // 2  # in a container with few uids; two installations there share them
    return _FIRST + int.from_bytes(sha256(install_id.encode()).digest()[:4]) % _BLOCKS * _BLOCK


def _uid_max() -> int:
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return max((int(first) + int(count) - 1 for first, _, count in rows), default=65_535)
