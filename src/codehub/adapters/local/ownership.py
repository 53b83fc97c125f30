"""Changes the owner of a home's files to another uid, and keeps their rights. Follows no links; files of
other owners stay theirs.

The kernel removes setuid bits and capabilities from a file whose owner changes. They are stored beforehand in
an attribute of the file itself, which only root sees, and restored afterwards: after a crash, a repetition
completes it.
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
class FileRights:
    """The mode and capability that a file must have again."""

    mode: int
    capability: bytes

    def note(self) -> bytes:
        return b"%o:%b" % (self.mode, self.capability)

    @classmethod
    def from_note(cls, note: bytes) -> "FileRights":
        mode, _, capability = note.partition(b":")
        return cls(int(mode, 8), capability)


def own_home(home: Path, uid: int) -> None:
    """Give a home to its workspace's uid, its top last, so that a crash repeats it.

    A home is made, or restored from another machine's archive, before anybody knows its uid.
    """
    former = home.stat(follow_symlinks=False).st_uid
    if former == uid:
        return
    for directory, name in _walk(home):
        _change_owner(directory, name, former, uid)
    os.chown(home, uid, uid, follow_symlinks=False)


def _change_owner(directory: int, name: str, former: int, uid: int) -> None:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    path = f"/proc/self/fd/{directory}/{name}"
    rights = _note_rights(path, status, is_owned_by_former=status.st_uid == former)
    if status.st_uid == former:
        os.chown(name, uid, uid, dir_fd=directory, follow_symlinks=False)
    if rights is None:
        return
    Path(path).chmod(rights.mode)
    if rights.capability:
        os.setxattr(path, _CAPABILITY, rights.capability)
    with suppress(OSError):
        os.removexattr(path, _NOTE)


def _note_rights(path: str, status: os.stat_result, *, is_owned_by_former: bool) -> FileRights | None:
    """Return the rights that the file would lose, or has lost already, and store them in its attribute."""
    if not stat.S_ISREG(status.st_mode):
        return None
    attributes: Sequence[str] = ()
    with suppress(OSError):  # a filesystem without attributes
        attributes = os.listxattr(path)
    if _NOTE in attributes:
        return FileRights.from_note(os.getxattr(path, _NOTE))
    has_bits, has_capability = status.st_mode & (stat.S_ISUID | stat.S_ISGID), _CAPABILITY in attributes
    if not is_owned_by_former or not (has_bits or has_capability):
        return None
    capability = os.getxattr(path, _CAPABILITY) if has_capability else b""
    rights = FileRights(stat.S_IMODE(status.st_mode), capability)
    with suppress(OSError):  # without the attribute, only a crash at this very moment loses them
        os.setxattr(path, _NOTE, rights.note())
    return rights


def _walk(home: Path) -> Iterator[tuple[int, str]]:
    """Yield each entry as its directory's descriptor and its name, a directory after its content.

    One directory is open at a time, at any depth.
    """
    directory = os.open(home, _DIRECTORY)
    try:
        names, pending = list[str](), [_entries(directory)]
        while pending:
            if pending[-1]:
                name, is_directory = pending[-1].pop()
                if not is_directory:
                    yield directory, name
                    continue
                directory = _change_directory(directory, name)
                names.append(name)
                pending.append(_entries(directory))
            else:
                pending.pop()
                if names:
                    directory = _change_directory(directory, "..")
                    yield directory, names.pop()
    finally:
        os.close(directory)


def _change_directory(directory: int, name: str) -> int:
    new_directory = os.open(name, _DIRECTORY, dir_fd=directory)
    os.close(directory)
    return new_directory


def _entries(directory: int) -> list[tuple[str, bool]]:
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
