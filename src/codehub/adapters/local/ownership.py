"""A home and a uid in: what its former owner had in it has that uid, and loses nothing by it. Links are not followed, others' files stay theirs.

The kernel takes setuid bits and capabilities from a file whose owner changes. They are noted beforehand in an attribute of the file
itself, which root alone sees, and given back afterwards: whatever a crash leaves is made good when it is repeated.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CAPABILITY = "security.capability"
_NOTE = "trusted.codehub.kept"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file must have again."""

    mode: int
    capability: bytes

    def note(self) -> bytes:
        return b"%o:%b" % (self.mode, self.capability)

    @classmethod
    def noted(cls, note: bytes) -> "Kept":
        mode, _, capability = note.partition(b":")
        return cls(int(mode, 8), capability)


def own_home(home: Path, uid: int) -> None:
    """Give a home to its workspace's uid, its top last, so that a crash repeats it.

    A home is made, or restored from another machine's archive, before anybody knows its uid.
    """
    former = home.stat(follow_symlinks=False).st_uid
    if former == uid:
        return
    for directory, name in _everything_in(home):
        _give(directory, name, former, uid)
    os.chown(home, uid, uid, follow_symlinks=False)


def _give(directory: int, name: str, former: int, uid: int) -> None:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    path = f"/proc/self/fd/{directory}/{name}"
    kept = _kept(path, found, is_formers=found.st_uid == former)
    if found.st_uid == former:
        os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)
    if kept is None:
        return
    Path(path).chmod(kept.mode)
    if kept.capability:
        os.setxattr(path, _CAPABILITY, kept.capability)
    with suppress(OSError):
        os.removexattr(path, _NOTE)


def _kept(path: str, found: os.stat_result, *, is_formers: bool) -> Kept | None:
    """Return what the file would lose, or has lost already, having noted it."""
    if not stat.S_ISREG(found.st_mode):
        return None
    attributes: Sequence[str] = ()
    with suppress(OSError):  # of a filesystem that has none
        attributes = os.listxattr(path)
    if _NOTE in attributes:
        return Kept.noted(os.getxattr(path, _NOTE))
    has_bits, has_capability = found.st_mode & (stat.S_ISUID | stat.S_ISGID), _CAPABILITY in attributes
    if not is_formers or not (has_bits or has_capability):
        return None
    capability = os.getxattr(path, _CAPABILITY) if has_capability else b""
    kept = Kept(stat.S_IMODE(found.st_mode), capability)
    with suppress(OSError):  # where there can be no note, only a crash in this very moment loses it
        os.setxattr(path, _NOTE, kept.note())
    return kept


def _everything_in(home: Path) -> Iterator[tuple[int, str]]:
    """Yield all that is in it, as its directory's descriptor and its name, a directory after what it holds. One is open at a time,
    however deep it goes."""
    here = os.open(home, _DIRECTORY)
    try:
        names, left = list[str](), [_entries(here)]
        while left:
            if left[-1]:
                name, is_directory = left[-1].pop()
                if not is_directory:
                    yield here, name
                    continue
                here = _moved(here, name)
                names.append(name)
                left.append(_entries(here))
            else:
                left.pop()
                if names:
                    here = _moved(here, "..")
                    yield here, names.pop()
    finally:
        os.close(here)


def _moved(here: int, name: str) -> int:
    there = os.open(name, _DIRECTORY, dir_fd=here)
    os.close(here)
    return there


def _entries(directory: int) -> list[tuple[str, bool]]:
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
