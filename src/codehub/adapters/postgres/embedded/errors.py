"""OSErrors and log text go in, one line that says what is wrong and what to do comes out.

Guesses nothing it can't read.
"""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USE_ANOTHER = "set CODEHUB_DATABASE_URL to use a PostgreSQL server of your own"

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_SIGNS = ("No space left on device", "Disk quota exceeded")
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_TEMPORARY_SIGNS = (
    "pre-existing shared memory block",  # a dead postmaster's backends are about to notice
    'postmaster.pid" already exists',  # its pid was reused by somebody else, or another start was faster
    '.lock" already exists',
    "was terminated by signal 9",  # somebody killed it; that says nothing about the data
)
_PROBE_SIGNS = ("FATAL:  the database system is ", 'FATAL:  database "codehub" does not exist')
_FREE_BYTES_MIN = 1024 * 1024


class EmbeddedPostgresError(Exception):
    """The message is one line: what is wrong, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class TryAgain(Exception):
    """This start failed for a reason that passes by itself. Never leaves this package."""


@contextmanager
def explain_errors(directory: Path) -> Iterator[None]:
    """Say what an OSError about `directory` means to whoever runs codehub."""
    try:
        yield
    except OSError as error:
        raise EmbeddedPostgresError(_explain_os_error(error, directory)) from error


def explain_failed_start(output: str, *, code: int | None, data: Path, log: Path) -> Exception:
    """Return what to raise for a server that ended before it accepted connections, given what it wrote."""
    line = failure_line(output) or f"ended with code {code} without a word"
    if is_full(output, data):
        return disk_full(data, line)
    if code == -signal.SIGKILL or any(sign in output for sign in _TEMPORARY_SIGNS):
        return TryAgain(line)
    return EmbeddedPostgresError(
        f"the database in {data} does not start: {line}; read {log}, then restore a backup of {data} or "
        "move it away"
    )


def disk_full(directory: Path, line: str) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"the disk that holds {directory} is full ({line}); free some space there and start codehub again"
    )


def is_full(output: str, directory: Path) -> bool:
    """Say whether the disk is the reason.

    On a full disk the log may be empty too, so the disk itself is asked as well.
    """
    lines = (line for line in output.splitlines() if "shared memory" not in line)
    if any(sign in line for line in lines for sign in _FULL_SIGNS):
        return True
    return free_bytes(directory) < _FREE_BYTES_MIN


def free_bytes(directory: Path) -> int:
    """Return what is left for users other than root, who have a reserve."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def failure_line(output: str) -> str:
    """Return the last line that names a failure, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not any(sign in line for sign in _PROBE_SIGNS)]
    failures = [line for line in lines if any(sign in line for sign in ("PANIC:", "FATAL:", "error:"))]
    return (failures or lines or [""])[-1]


def _explain_os_error(error: OSError, directory: Path) -> str:
    description = f"{error.filename or directory}: {error.strerror or error}"
    if error.errno in _FULL:
        return str(disk_full(directory, description))
    if error.errno in _UNWRITABLE:
        return (
            f"codehub cannot write to {directory} ({description}); give it to the user codehub runs as, or "
            "set CODEHUB_DATA_DIR to another directory"
        )
    return (
        f"codehub cannot use {directory} ({description}); repair it, or set CODEHUB_DATA_DIR to another "
        "directory"
    )
