"""The run directory goes in, what is known of each instance comes out. What runs is told by locks and /proc, never by a file alone.

installation          whose directory this is: without it nothing here can be believed
locks, uids           see locks.py and accounts.py
{workspace}/record    what it was started as; written before anything is
{workspace}/alive     locked by the sandbox's first process for as long as it lives
{workspace}/launcher  who started it, in its own words; {workspace}/info: bubblewrap's, with that first process
{workspace}/runtime   /run/codehub in there: the IDE makes its socket here
{workspace}/ide.sock  that same socket, where nobody in there can put another one in its place
"""

import json
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from codehub.adapters.local.directories import locked, remove_whole, write_whole
from codehub.adapters.local.installed_ides import SOCKET
from codehub.adapters.local.locks import is_held
from codehub.adapters.local.processes import boot_id, children, has_open, pid_inside
from codehub.adapters.local.sandbox import BEGUN
from codehub.adapters.processes import Process
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import InstanceSpec

_INIT_PID, _MAIN_PID = 1, 2


@dataclass(frozen=True, slots=True)
class Record:
    """What an instance was started as."""

    fingerprint: str
    volume_id: str
    ide: str
    sandboxed: bool
    boot: str


NOTHING_READABLE = Record("", "", "", sandboxed=True, boot="")


def fingerprint(spec: InstanceSpec) -> str:
    return sha256(json.dumps(asdict(spec), default=str, sort_keys=True).encode()).hexdigest()


class Paths:
    """The files of one instance."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = directory / "record"
        self.alive = directory / "alive"
        self.launcher = directory / "launcher"
        self.info = directory / "info"
        self.gateway = directory / "gateway"
        self.calls = directory / "calls"
        self.log = directory / "log"
        self.was_healthy = directory / "was-healthy"
        self.runtime = directory / "runtime"
        self.socket = directory / SOCKET

    def write(self, record: Record) -> None:
        new = self.record.with_suffix(".new")
        new.write_text(json.dumps(asdict(record)))
        new.rename(self.record)

    def read(self) -> Record | None:
        """Return what it was started as, or None if there is no instance. A file cut short by a power cut tells nothing but that."""
        try:
            return Record(**json.loads(self.record.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            return NOTHING_READABLE

    def starter(self, record: Record) -> Process | None:
        """Return who started it, if that was in this boot and has come to say so. Without a sandbox that is the IDE itself."""
        return _in_this_boot(record, self.launcher)

    def leading_out(self, record: Record) -> Process | None:
        """Return what leads out of its network, if it has one of its own. It does not end with the rest."""
        return _in_this_boot(record, self.gateway)

    def init(self) -> Process | None:
        """Return the sandbox's first process: it has the lock's file open, and its end is the end of all in there."""
        try:
            pid = int(json.loads(self.info.read_text())["child-pid"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        process = Process.of(pid)
        is_it = process is not None and pid_inside(pid) == _INIT_PID and has_open(pid, self.alive)
        return process if is_it and process is not None and process.alive() else None

    def main(self, record: Record) -> Process | None:
        """Return the IDE itself, if it has come to run."""
        if not record.sandboxed:
            starter = self.starter(record)
            return starter if starter is not None and starter.alive() else None
        init = self.init()
        found = [] if init is None else [p for p in children(init.pid) if pid_inside(p.pid) == _MAIN_PID]
        return found[0] if found else None

    def is_running(self, record: Record) -> bool:
        """Say whether the IDE runs or is on its way. What it left behind in a sandbox when it died does not count."""
        if not record.sandboxed:
            return is_held(self.alive) or self.main(record) is not None
        if not is_held(self.alive):
            return False
        # Asked before the family is: a program that begins between the two questions must not look like one that has ended.
        # Were the file forged or removed, it would only be the workspace's own end that is seen late.
        has_begun = (self.runtime / BEGUN).exists()
        return self.main(record) is not None or (not has_begun and is_held(self.alive))

    def publish(self) -> bool:
        """Make the IDE's socket reachable by a name that is not the workspace's to change; say whether there is one.

        In its own directory the workspace could put a link to any other socket of this machine in its place, and codehub would
        connect there with all its rights.
        """
        try:
            fd = os.open(self.runtime / SOCKET, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            found = os.fstat(fd)
            if not stat.S_ISSOCK(found.st_mode):
                return False
            with suppress(FileNotFoundError):
                if os.path.samestat(found, self.socket.lstat()):
                    return True
            new = self.directory / f"{SOCKET}.{fd}.{os.getpid()}"
            new.unlink(missing_ok=True)
            # By descriptor: what was looked at is what is linked. (With a dir_fd Python asks to follow /proc's link.)
            os.link(f"/proc/self/fd/{fd}", new, src_dir_fd=fd, follow_symlinks=True)
            new.rename(self.socket)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def clear(self) -> None:
        """Make room for a new instance. The old record stays until it is written over: one that lists must not miss it."""
        self._empty(kept=(self.record, self.log))

    def remove(self) -> None:
        """Remove all of it; the record first, because without it there is no instance."""
        self.record.unlink(missing_ok=True)
        with suppress(OSError):  # what is left counts for nobody, and the next one to remove it tries again
            self._empty()
            # Only if it is empty: what lies in it again is not what was to be removed.
            self.directory.rmdir()

    def _empty(self, kept: Collection[Path] = ()) -> None:
        for path in list(self.directory.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_whole(path)
            elif path not in kept:
                path.unlink(missing_ok=True)


def _in_this_boot(record: Record, said: Path) -> Process | None:
    with suppress(OSError):
        return Process.from_stat(said.read_text()) if record.boot == boot_id() else None
    return None


class RunDirectory:
    """DATA_DIR/run/instances."""

    def __init__(self, path: Path, install_id: str) -> None:
        self.path = path
        self.locks = path / "locks"
        self.uids = path / "uids"
        self._marker = path / "installation"
        self._install_id = install_id

    def open(self) -> None:
        """Make the directory ours, or find that it is. Only the start of codehub may do so: later its absence is an alarm."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
        with locked(self.path, self.path):  # several processes may start for the first time at once
            if not self._marker.exists():
                write_whole(self._marker, self._install_id.encode())
        self.check()

    def check(self) -> None:
        """Refuse to look at a directory that is gone, or another's: an empty list would be taken for the truth."""
        try:
            found = self._marker.read_text()
        except OSError as error:
            raise BackendUnreachable(f"{self.path} can't be read ({error.strerror})") from error
        if found != self._install_id:
            raise BackendUnreachable(f"{self.path} belongs to another installation ({found})")

    def of(self, workspace_id: UUID) -> Paths:
        return Paths(self.path / str(workspace_id))

    def all(self) -> Iterator[tuple[UUID, Paths, Record]]:
        try:
            names = [entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise BackendUnreachable(f"{self.path} can't be read ({error.strerror})") from error
        for name in names:
            with suppress(ValueError):
                workspace_id = UUID(name)
                paths = self.of(workspace_id)
                if (record := paths.read()) is not None:
                    yield workspace_id, paths, record
