"""Directories and small files that survive a kill and a power cut. Refuses to hide an error: it is an outage, or a full disk."""

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codehub.ports.backends import ActionFailed, BackendUnreachable

# A workspace's own user may pass to its home, and sees nothing of what lies beside.
_PASSABLE = 0o711
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def locked(root: Path, directory: Path, *, create: bool = True) -> Iterator[None]:
    """Hold a directory. It may be removed while we wait for it, so what is locked must still have its name."""
    while True:
        if create:
            make_passable(root, directory)
        try:
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if create:
                continue
            raise
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_same(handle, directory):
                yield
                return
        finally:
            os.close(handle)


def make_passable(root: Path, directory: Path) -> None:
    """Make what is missing so that the workspaces' users may pass, whatever our umask is. What exists keeps its mode."""
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        with suppress(FileExistsError):
            missing.mkdir()
            missing.chmod(_PASSABLE if missing != root else 0o755)
            flush(missing.parent)


def _is_same(handle: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(handle)
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


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
    """Remove a directory with everything in it. By rm: Python's own way ends at a thousand levels, which anybody can make. Blocks."""
    remove = ("rm", "-rf", "--one-file-system", "--", str(directory))
    done = subprocess.run(remove, capture_output=True, check=False)  # noqa: S603  # our own words, and a path after "--"
    if done.returncode and os.geteuid() != 0:
        # Without root, a directory without permissions is one that its owner has made unremovable.
        opening = ("chmod", "-R", "u+rwx", "--", str(directory))
        subprocess.run(opening, capture_output=True, check=False)  # noqa: S603
        done = subprocess.run(remove, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip(), str(directory))


def flush(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def reachable(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ActionFailed(f"no space left for homes: {error}") from None
        raise BackendUnreachable(f"{place} can't be used: {error}") from None
