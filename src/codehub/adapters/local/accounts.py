"""A workspace goes in, the uid its processes and files have comes out: its own under root, else ours. None is given twice."""

import fcntl
import os
from hashlib import sha256
from pathlib import Path
from uuid import UUID

USER = "coder"
_BLOCK = 65_536
_FIRST = 0x2000_0000
_BLOCKS = 16_384
_WIDTH = 37


class Accounts:
    """One line per workspace in a file that only grows; a workspace's uid is the place of its line.

    Two installations of one machine must not share uids either, so each has its own block of them.
    """

    def __init__(self, path: Path, install_id: str) -> None:
        self._path = path
        self._first = _first_uid(install_id, _uid_max())
        self._known: dict[UUID, int] = {}

    def uid_of(self, workspace_id: UUID) -> int | None:
        """Return the workspace's own uid, or None where there is none to give: only root can."""
        if os.geteuid() != 0:
            return None
        if workspace_id not in self._known:
            self._known[workspace_id] = self._first + self._place(workspace_id)
        return self._known[workspace_id]

    def _place(self, workspace_id: UUID) -> int:
        line = f"{workspace_id}\n".encode()
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            taken = file.read()
            for place in range(len(taken) // _WIDTH):
                if taken[place * _WIDTH : (place + 1) * _WIDTH] == line:
                    return place
            place = len(taken) // _WIDTH  # a line that a crash cut short was never used: it is written over
            if place >= _BLOCK:
                raise RuntimeError(f"all {_BLOCK} user ids of this installation are taken")
            file.seek(place * _WIDTH)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
            return place


def own_home(home: Path, uid: int) -> None:
    """Give a home to its workspace's uid: what its former owner had in it, its top last, so that a crash repeats it.

    A home is made, or restored from another machine's archive, before anybody knows its uid.
    """
    former = home.stat(follow_symlinks=False).st_uid
    if former == uid:
        return
    for _, directories, files, fd in os.fwalk(home, topdown=False, follow_symlinks=False):
        for name in (*directories, *files):
            if os.stat(name, dir_fd=fd, follow_symlinks=False).st_uid == former:
                os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)
    os.chown(home, uid, uid, follow_symlinks=False)


def write_names(directory: Path, uid: int) -> tuple[Path, Path]:
    """Write the passwd and group files that a sandbox sees: its own user has a name, and nobody of the machine is in them."""
    nobody = "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    passwd, group = directory / "passwd", directory / "group"
    passwd.write_text(f"{nobody}{USER}:x:{uid}:{uid}:{USER}:/home/{USER}:/bin/bash\n")
    group.write_text(f"root:x:0:\ntty:x:5:\nnogroup:x:65534:\n{USER}:x:{uid}:\n")
    for path in (passwd, group):
        path.chmod(0o644)
    return passwd, group


def _first_uid(install_id: str, uid_max: int) -> int:
    if uid_max < _FIRST + _BLOCK * _BLOCKS:
        return uid_max // 2  # in a container with few uids; two installations there share them
    return _FIRST + int.from_bytes(sha256(install_id.encode()).digest()[:4]) % _BLOCKS * _BLOCK


def _uid_max() -> int:
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return max((int(first) + int(count) - 1 for first, _, count in rows), default=65_535)
