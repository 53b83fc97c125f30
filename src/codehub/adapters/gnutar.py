"""How GNU tar is called for a home, and what its words mean. The same for every platform, so that each restores the other's archives."""

from collections.abc import Sequence

from codehub.core.errors import ErrorReason
from codehub.ports.backends import ActionFailed

_XATTRS = ("--xattrs", "--xattrs-include=user.*")
PACK = (
    *("tar", "--create", "--file=-", "--format=posix", "--sparse", "--numeric-owner", "--one-file-system"),
    # Times that reading changes, and a process id in every header, would make each archive of a home another one.
    *(
        *_XATTRS,
        "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f",
        "--blocking-factor=256",
    ),
    *("--no-wildcards", "--anchored"),
)
UNPACK = (
    *("tar", "--extract", "--file=-", "--same-permissions", "--numeric-owner", "--delay-directory-restore"),
    *(*_XATTRS, "--blocking-factor=256"),
)
# What root's tar needs to give files their owners and modes; making a device node is not among it.
CAPABILITIES: Sequence[str] = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID")
# What an ordinary user's tar needs, in a user namespace where they hold for that user's own files and no others: it makes a file with its
# last mode first, and can give it attributes, or open it at all, only by these.
OWN_CAPABILITIES: Sequence[str] = ("DAC_OVERRIDE", "FOWNER")
FULL = ("No space left on device", "Disk quota exceeded")
_CHANGED = ("file changed as we read it", "File removed before we read it", "File shrank by")
_SENSELESS = (
    "does not look like a tar archive",
    "Unexpected EOF",
    "Cannot hard link",
    "Skipping to next header",
    "alformed",
)


def complaint(told: bytes) -> str:
    """Return the last line that says something."""
    lines = [line for line in told.decode(errors="backslashreplace").splitlines() if line.strip()]
    telling = [line for line in lines if "exit" not in line.lower()]
    return (telling or lines or ["it said nothing"])[-1]


def elsewhere(path: str) -> ActionFailed:
    """Return why a home with another filesystem in it is not packed: tar leaves that out, and says nothing."""
    return ActionFailed(
        f"{path!r} is another filesystem; its files would not be archived: move them into the home or unmount it"
    )


def unreadable(code: int, told: bytes) -> ActionFailed:
    """Return why a home was not packed."""
    if any(sign.encode() in told for sign in _CHANGED):
        return ActionFailed(f"the home changed while it was archived: {complaint(told)}")
    return ActionFailed(f"the home can't be read whole (tar ended with {code}): {complaint(told)}")


def not_written(code: int, told: bytes) -> ActionFailed:
    """Return why a home was not unpacked."""
    if any(sign.encode() in told for sign in FULL):
        return ActionFailed(f"no space left to restore the home: {complaint(told)}")
    is_senseless = any(sign.encode() in told for sign in _SENSELESS)
    return ActionFailed(
        f"the home can't be written (tar ended with {code}): {complaint(told)}",
        reason=ErrorReason.ARCHIVE_CORRUPTED if is_senseless else ErrorReason.ACTION_FAILED,
    )
