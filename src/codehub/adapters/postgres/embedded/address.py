"""A data directory goes in, the keyword arguments to connect to its server come out. Starts nothing."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codehub.adapters.postgres.embedded.errors import EmbeddedPostgresError, explain_errors
from codehub.adapters.postgres.embedded.processes import process_in
from codehub.adapters.processes import Process

PORT = 5432  # only a part of the socket's name: nothing listens on the network
SUPERUSER = "codehub"
DATABASE = "codehub"
POSTGRES = frozenset({"postgres"})
_SOCKET_PATH_BYTES_MAX = 107


class Address:
    """Where the server of `data` listens.

    A path too long for a socket is shortened through a descriptor of ours.
    """

    def __init__(self, data: Path) -> None:
        self._fd: int | None = None
        self._host = str(data)
        if len(os.fsencode(data / f".s.PGSQL.{PORT}")) > _SOCKET_PATH_BYTES_MAX:
            self._fd = os.open(data, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self._host = f"/proc/{os.getpid()}/fd/{self._fd}"

    @property
    def connect_args(self) -> dict[str, Any]:
        # The last two keep a PGSSLMODE, a PGPASSWORD or an unreadable ~/.pgpass of the caller out of it.
        return {
            "host": self._host,
            "port": PORT,
            "user": SUPERUSER,
            "database": DATABASE,
            "password": "",
            "ssl": False,
        }

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class RunningServer:
    """A live server that somebody else started.

    Close it when done with its connections; that stops nothing.
    """

    def __init__(self, pid: int, address: Address) -> None:
        self.pid = pid
        self.connect_args = address.connect_args
        self._address = address

    def close(self) -> None:
        self._address.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def has_cluster(data_dir: Path) -> bool:
    """Whether a server has ever been started in this DATA_DIR."""
    data = data_dir.absolute() / "postgres" / "data"
    with explain_errors(data):
        return (data / "PG_VERSION").exists()


def find_running(data_dir: Path) -> RunningServer | None:
    """Return the live server of this DATA_DIR, or None. It may still be starting up, or be shutting down."""
    data = data_dir.absolute() / "postgres" / "data"
    with explain_errors(data):
        postmaster = find_postmaster(data)
        return None if postmaster is None else RunningServer(postmaster.pid, Address(data))


def find_postmaster(data: Path) -> Process | None:
    """Return the live process that postmaster.pid names, if it is a postmaster of this very directory."""
    pid = pid_in(data / "postmaster.pid")
    if pid is None:
        return None
    process = process_in(data, abs(pid), POSTGRES)
    if process is not None and pid < 0:
        raise EmbeddedPostgresError(
            f"{data} is in use by a single-user postgres (pid {-pid}): end it, then start codehub again"
        )
    return process


def pid_in(path: Path) -> int | None:
    """Return the pid in the first line of a lock file of PostgreSQL's, or None when there is no such line."""
    try:
        first, _, _ = path.read_text(errors="replace").partition("\n")
        return int(first)
    except (FileNotFoundError, ValueError):
        return None
