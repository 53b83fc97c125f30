"""The two works of a Job: what the other backends do with a home,
without any credential, and with what an ordinary user may.

Refuses to restore over a home that holds anything.
"""

import errno
import os
import tempfile
from collections.abc import Collection
from contextlib import aclosing, suppress
from pathlib import Path

from codehub.adapters.gnutar import KeepsNoAcls
from codehub.adapters.local.tar import Tar, remove_tree, write_out
from codehub.adapters.objectstore.granted import ArchiveGone, GrantedArchive, open_archive
from codehub.adapters.objectstore.grants import Grants
from codehub.adapters.objectstore.outcome import Archived, Restored
from codehub.adapters.objectstore.streams import open_packer, pack, unpack, verify_stored
from codehub.adapters.threads import in_thread
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.archives import Attribute
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Report

_STAGING = ".codehub-restoring-"
_PRIVATE = 0o700
# Each takes some megabytes, whatever share of the cores a container has.
_THREADS_MAX = 8


async def archive(grants: Grants, archives: Path, home: Path, report: Report) -> Archived:
    """Archive the home, and read the archive back. It does not count before the controller commits it."""
    stored = open_archive(grants, archives)
    tar = Tar(is_confined=True)
    threads = min(len(os.sched_getaffinity(0)), _THREADS_MAX)
    async with (
        open_packer(_not_restorable(), threads=threads) as packer,
        aclosing(tar.pack(home, report)) as stream,
        aclosing(pack(stream, packer)) as parts,
    ):
        await stored.upload(parts)
    await verify_stored(grants.key, stored.download(), packer.content, report)
    return Archived(packer.content, stored.version)


async def restore(grants: Grants, archives: Path, home: Path, report: Report) -> Restored:
    """Unpack the archive beside the home, and put it in its place when it is whole and on the disk."""
    await in_thread(_refuse_files, home)
    for staging in home.parent.glob(f"{_STAGING}*"):
        await remove_tree(staging)  # of a job that was killed
    stored = open_archive(grants, archives)
    try:
        staging = await _unpack(grants, stored, home, report, acls=True)
    except KeepsNoAcls:
        staging = await _unpack(grants, stored, home, report, acls=False)
    except ArchiveGone as error:
        raise ActionFailed(error.message, reason=ErrorReason.DATA_LOST) from None
    await write_out(home.parent)
    await in_thread(_put_in_place, staging, home)
    await write_out(home.parent)
    return Restored()


async def _unpack(grants: Grants, stored: GrantedArchive, home: Path, report: Report, *, acls: bool) -> Path:
    """Return the directory that it was unpacked into. Of one that failed nothing is left."""
    if grants.content is None:
        raise ActionFailed(Message(Code.GRANTS_UNREADABLE, {"text": "no content"}))
    staging = await in_thread(_make_staging, home.parent)
    refused = () if acls else (Attribute.ACL,)
    try:
        content = unpack(grants.key, stored.download(), grants.content, report, refused)
        async with aclosing(content) as parts:
            await Tar(is_confined=True).unpack(parts, staging, acls=acls)
    except BaseException:
        await remove_tree(staging)
        raise
    return staging


def _not_restorable() -> Collection[Attribute]:
    return () if os.geteuid() == 0 else (Attribute.CAPABILITY,)


def _make_staging(claim: Path) -> Path:
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=claim))
    staging.chmod(_PRIVATE)  # without the set-group-id bit that it has from the claim
    return staging


def _refuse_files(home: Path) -> None:
    with suppress(FileNotFoundError):
        if home.is_symlink() or any(home.iterdir()):
            raise ActionFailed(Message(Code.HOME_NOT_EMPTY, {"path": str(home)}))


def _put_in_place(staging: Path, home: Path) -> None:
    try:
        staging.rename(home)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise ActionFailed(Message(Code.HOME_NOT_EMPTY, {"path": str(home)})) from None
        raise
