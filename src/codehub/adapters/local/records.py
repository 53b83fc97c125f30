"""The files of each instance in the run directory. What runs is decided by locks and /proc, never by a file
alone.

installation          the installation that owns this directory: without it nothing here is valid
locks, uids           see locks.py and accounts.py
{workspace}/record    what it was started as; written before anything is
{workspace}/alive     locked by the sandbox's first process for as long as it lives
{workspace}/launcher  who started it, in its words; {workspace}/info: bubblewrap's, with that first process
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

from codehub.adapters.local.directories import lock_directory, remove_whole, write_whole
from codehub.adapters.local.installed_ides import SOCKET
from codehub.adapters.local.locks import is_held
from codehub.adapters.local.processes import boot_id, children, has_open, pid_inside
from codehub.adapters.local.sandbox import STARTED
from codehub.adapters.processes import Process
from codehub.core.messages import Code, Message
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
    home: str = ""
    """Where its home is without a sandbox. An older codehub did not write it."""


NOTHING_READABLE = Record("", "", "", sandboxed=True, boot="")


def fingerprint(spec: InstanceSpec) -> str:
    content = asdict(spec)
    if not spec.environment:
        del content["environment"]  # as an older codehub had it
    return sha256(json.dumps(content, default=str, sort_keys=True).encode()).hexdigest()


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
        """Return the record, or None if there is no instance.

        An unreadable file only shows that there is one.
        """
        try:
            return Record(**json.loads(self.record.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            return NOTHING_READABLE

    def starter(self, record: Record) -> Process | None:
        """Return the process that started it, if that was in this boot.

        Without a sandbox that is the IDE itself.
        """
        return _process_of_this_boot(record, self.launcher)

    def gateway_process(self, record: Record) -> Process | None:
        """Return the gateway of its own network, if it has one. It does not end with the rest."""
        return _process_of_this_boot(record, self.gateway)

    def init(self) -> Process | None:
        """Return the sandbox's first process: it has the lock's file open, and its end is the end of all in
        there.
        """
        try:
            pid = int(json.loads(self.info.read_text())["child-pid"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        process = Process.of(pid)
        is_init = process is not None and pid_inside(pid) == _INIT_PID and has_open(pid, self.alive)
        return process if is_init and process is not None and process.alive() else None

    def main(self, record: Record) -> Process | None:
        """Return the IDE itself, if it runs already."""
        if not record.sandboxed:
            starter = self.starter(record)
            return starter if starter is not None and starter.alive() else None
        init = self.init()
        candidates = [] if init is None else [p for p in children(init.pid) if pid_inside(p.pid) == _MAIN_PID]
        return candidates[0] if candidates else None

    def is_running(self, record: Record) -> bool:
        """Return whether the IDE runs or is being started.

        What it left in a sandbox when it died does not count.
        """
        if not record.sandboxed:
            return is_held(self.alive) or self.main(record) is not None
        if not is_held(self.alive):
            return False
        # Checked before the processes: a program that starts between the two checks must not look like one
        # that has ended. If the workspace forges or removes the file, only its own end is noticed late.
        has_begun = (self.runtime / STARTED).exists()
        return self.main(record) is not None or (not has_begun and is_held(self.alive))

    def publish(self) -> bool:
        """Make the IDE's socket reachable by a name that is not the workspace's to change; say whether there
        is one.

        In its own directory the workspace could put a link to any other socket of this machine in its place,
        and codehub would connect there with all its rights.
        """
        try:
            fd = os.open(self.runtime / SOCKET, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            status = os.fstat(fd)
            if not stat.S_ISSOCK(status.st_mode):
                return False
            with suppress(FileNotFoundError):
                if os.path.samestat(status, self.socket.lstat()):
                    return True
            new = self.directory / f"{SOCKET}.{fd}.{os.getpid()}"
            new.unlink(missing_ok=True)
            # By descriptor: what was looked at is what is linked. (With a dir_fd Python asks to follow
            # /proc's link.)
            os.link(f"/proc/self/fd/{fd}", new, src_dir_fd=fd, follow_symlinks=True)
            new.rename(self.socket)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def clear(self) -> None:
        """Remove the old instance's files.

        The record stays until it is overwritten: a list must not miss it.
        """
        self._empty(exceptions=(self.record, self.log))

    def remove(self) -> None:
        """Remove all of it; the record first, because without it there is no instance."""
        self.record.unlink(missing_ok=True)
        with suppress(OSError):  # what remains does no harm, and the next removal tries again
            self._empty()
            # Only if it is empty: a new file in it belongs to another instance.
            self.directory.rmdir()

    def _empty(self, exceptions: Collection[Path] = ()) -> None:
        for path in list(self.directory.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_whole(path)
            elif path not in exceptions:
                path.unlink(missing_ok=True)


def _process_of_this_boot(record: Record, identity: Path) -> Process | None:
    with suppress(OSError):
        return Process.from_stat(identity.read_text()) if record.boot == boot_id() else None
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
        """Mark the directory as ours, unless it is.

        Only at the start of codehub: later a missing mark is an outage.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
        with lock_directory(self.path, self.path):  # several processes may start for the first time at once
            if not self._marker.exists():
                write_whole(self._marker, self._install_id.encode())
        self.check()

    def check(self) -> None:
        """Refuse a directory that is gone, or another installation's: an empty list would be wrong."""
        try:
            marker = self._marker.read_text()
        except OSError as error:
            raise BackendUnreachable(
                Message(Code.PATH_UNUSABLE, {"path": str(self.path), "text": error.strerror})
            ) from error
        if marker != self._install_id:
            raise BackendUnreachable(
                Message(Code.OTHER_INSTALLATION, {"place": str(self.path), "mark": marker})
            )

    def of(self, workspace_id: UUID) -> Paths:
        return Paths(self.path / str(workspace_id))

    def all(self) -> Iterator[tuple[UUID, Paths, Record]]:
        try:
            names = [entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise BackendUnreachable(
                Message(Code.PATH_UNUSABLE, {"path": str(self.path), "text": error.strerror})
            ) from error
        for name in names:
            with suppress(ValueError):
                workspace_id = UUID(name)
                paths = self.of(workspace_id)
                if (record := paths.read()) is not None:
                    yield workspace_id, paths, record
