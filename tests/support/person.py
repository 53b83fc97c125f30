"""This process as an ordinary user for a while. Its children can't become root again; it can."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PERSON = 65_000


@contextmanager
def as_person(uid: int = PERSON) -> Iterator[None]:
    """Be an ordinary user, unless we are one anyway. Programs
    that are started meanwhile are that user's for good.
    """
    if os.geteuid() != 0:
        yield
        return
    group, groups = os.getgid(), os.getgroups()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(group, group, group)
        os.setgroups(groups)


@contextmanager
def persons_directory() -> Iterator[Path]:
    """A directory of theirs, below none that they may not enter."""
    path = Path(tempfile.mkdtemp(prefix="codehub-person-"))
    try:
        if os.geteuid() == 0:
            os.chown(path, PERSON, PERSON)
        yield path
    finally:
        shutil.rmtree(path, onerror=_pass_over_gone)


def _pass_over_gone(_function: object, _path: str, failure: tuple[Any, BaseException, Any]) -> None:
    """A trash that codehub is still emptying may go while it is removed here."""
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]
