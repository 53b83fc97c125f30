"""Directories and small files that survive a kill and a power cut.

Refuses to hide an error: it is an outage, or a full disk.
"""

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable

# A workspace's own user may enter its home, and can't list the directories above it.
_PASSABLE = 0o711
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def lock_directory(root: Path, directory: Path, *, create: bool = True) -> Iterator[None]:
    """Lock a directory. It may be removed while we wait, so the locked one must still have its name."""
    while True:
        if create:
            make_passable(root, directory)
        try:
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if create:
                continue
            raise
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_same(fd, directory):
                yield
                return
        finally:
            os.close(fd)


def make_passable(root: Path, directory: Path) -> None:
    """Make what is missing so that the workspaces' users may pass, whatever our umask is.

    What exists keeps its mode.
    """
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        with suppress(FileExistsError):
            missing.mkdir()
            missing.chmod(_PASSABLE if missing != root else 0o755)
            flush(missing.parent)


def _is_same(fd: int, path: Path) -> bool:
    try:
        by_path = path.stat()
    except FileNotFoundError:
        return False
    by_fd = os.fstat(fd)
    return (by_fd.st_dev, by_fd.st_ino) == (by_path.st_dev, by_path.st_ino)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens."""
    partial = path.with_name(path.name + ".new")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    flush(path.parent)


def remove_whole(directory: Path) -> None:
    """Remove a directory with everything in it. By rm: Python's own way fails at a thousand levels, which any
    user can make. Blocks.
    """
    remove = ("rm", "-rf", "--one-file-system", "--", str(directory))
    result = subprocess.run(remove, capture_output=True, check=False)  # noqa: S603  # our own arguments, and a path after "--"
    if result.returncode and os.geteuid() != 0:
        # Without root, a directory without permissions is one that its owner has made unremovable.
        make_writable = ("chmod", "-R", "u+rwx", "--", str(directory))
        subprocess.run(make_writable, capture_output=True, check=False)  # noqa: S603
        result = subprocess.run(remove, capture_output=True, check=False)  # noqa: S603
    if result.returncode:
        raise OSError(errno.EIO, result.stderr.decode(errors="replace").strip(), str(directory))


def flush(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def report_outages(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ActionFailed(Message(Code.HOMES_FULL, {"text": str(error)})) from None
        raise BackendUnreachable(
            Message(Code.PATH_UNUSABLE, {"path": str(path), "text": str(error)})
        ) from None
