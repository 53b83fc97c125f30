"""How GNU tar is called for a home, and what its messages mean.

The same for every platform, so that each restores the other's archives.
"""

import re
from collections.abc import Sequence

from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

_XATTRS = ("--xattrs", "--xattrs-include=user.*")
_CAPABILITIES = "--xattrs-include=security.capability"
ACLS = "--acls"
PACK = (
    *("tar", "--create", "--file=-", "--format=posix", "--sparse", "--numeric-owner", "--one-file-system"),
    # Times that reading changes, and a process id in every header, would make each archive of a home another
    # one.
    *(
        *(*_XATTRS, _CAPABILITIES, ACLS),
        "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f",
        "--blocking-factor=256",
    ),
    *("--no-wildcards", "--anchored"),
    "--warning=no-file-ignored",  # a thousand sockets must not hide its other messages
)
# What an ordinary user's tar does. Capabilities, like owners, are root's to give.
OWN_UNPACK = (
    *("tar", "--extract", "--file=-", "--same-permissions", "--numeric-owner", "--delay-directory-restore"),
    *(*_XATTRS, "--warning=no-timestamp", "--blocking-factor=256"),
)
UNPACK = (*OWN_UNPACK, _CAPABILITIES)
# What root's tar needs to give files their owners, modes and capabilities; making a device node is not among
# it.
CAPABILITIES: Sequence[str] = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP")
# What an ordinary user's tar needs, in a user namespace where they hold for that user's own files and no
# others: it makes a file with its last mode first, and can give it attributes, or open it at all, only by
# these.
OWN_CAPABILITIES: Sequence[str] = ("DAC_OVERRIDE", "FOWNER")
# The last one is how tar says that only a part of a block fitted.
FULL = ("No space left on device", "Disk quota exceeded", "Wrote only")
_CHANGED = ("file changed as we read it", "File removed before we read it", "File shrank by")
_CORRUPTED = (
    "does not look like a tar archive",
    "Unexpected EOF",
    "Cannot hard link",
    "Skipping to next header",
    "alformed",
)
# tar only warns of these, and ends well.
_NOT_READ = re.compile(rb"[^\n]*: Warning: Cannot [^\n]*|[^\n]*support is not available[^\n]*")
_NOT_SET = re.compile(rb"[^\n]*: Cannot (?:set|drop) [^\n]*")
_NO_ACLS = re.compile(rb"POSIX ACLs for file [^\n]*: Operation not supported")


class KeepsNoAcls(ActionFailed):
    """Where the home was unpacked to, no file can have an ACL.

    What has none can be unpacked there without.
    """


def complaint(stderr: bytes) -> str:
    """Return the last line that gives a reason; a dash if there is none."""
    lines = [line for line in stderr.decode(errors="backslashreplace").splitlines() if line.strip()]
    informative = [line for line in lines if "exit" not in line.lower()]
    return (informative or lines or ["-"])[-1]


def other_filesystem(path: str) -> ActionFailed:
    """Return why a home with another filesystem in it is not packed: tar leaves that out without
    a message.
    """
    return ActionFailed(Message(Code.OTHER_FILESYSTEM, {"path": repr(path)}))


def check_packed(code: int, stderr: bytes) -> None:
    """Refuse a home that was not packed whole, its files' attributes included."""
    if code:
        raise _pack_failure(code, stderr)
    if match := _NOT_READ.search(stderr):
        raise ActionFailed(Message(Code.HOME_UNREADABLE, {"text": _text(match[0])}))


def check_unpacked(code: int, stderr: bytes) -> None:
    """Refuse a home that was not unpacked whole, its files' attributes included: without its ACL a file is
    open to more people.
    """
    if code:
        raise unpack_failure(code, stderr)
    if _NO_ACLS.search(stderr):
        raise KeepsNoAcls(Message(Code.NO_ACLS, {"text": complaint(stderr)}))
    if match := _NOT_SET.search(stderr):
        raise ActionFailed(Message(Code.HOME_NOT_RESTORED, {"text": _text(match[0])}))


def _text(stderr: bytes) -> str:
    return stderr.decode(errors="backslashreplace").removeprefix("tar: ")


def _end_text(code: int, stderr: bytes) -> str:
    return f"{complaint(stderr)} (tar: exit {code})"


def _pack_failure(code: int, stderr: bytes) -> ActionFailed:
    """Return why a home was not packed."""
    if any(sign.encode() in stderr for sign in _CHANGED):
        return ActionFailed(Message(Code.HOME_CHANGED, {"text": complaint(stderr)}))
    return ActionFailed(Message(Code.HOME_UNREADABLE, {"text": _end_text(code, stderr)}))


def unpack_failure(code: int, stderr: bytes) -> ActionFailed:
    """Return why a home was not unpacked."""
    if any(sign.encode() in stderr for sign in FULL):
        return ActionFailed(Message(Code.HOMES_FULL, {"text": complaint(stderr)}))
    is_corrupted = any(sign.encode() in stderr for sign in _CORRUPTED)
    return ActionFailed(
        Message(Code.HOME_UNWRITABLE, {"text": _end_text(code, stderr)}),
        reason=ErrorReason.ARCHIVE_CORRUPTED if is_corrupted else ErrorReason.ACTION_FAILED,
    )
