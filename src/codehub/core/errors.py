"""What can go wrong with a workspace, which of it ends in ERROR, and what a person can do about each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from codehub.core.operations import Operation


class ErrorReason(StrEnum):
    TIMEOUT = "Timeout"
    RETRY_EXCEEDED = "RetryExceeded"
    ACTION_FAILED = "ActionFailed"
    DATA_LOST = "DataLost"
    UNREACHABLE = "Unreachable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
    ARCHIVE_CORRUPTED = "ArchiveCorrupted"
    CRASH_LOOP = "CrashLoop"

    @property
    def is_terminal(self) -> bool:
        """Only a person restarts what a terminal error has stopped."""
        return self not in (ErrorReason.ACTION_FAILED, ErrorReason.UNREACHABLE)


# After these there is nothing that a last archive could save.
NOTHING_TO_SAVE = frozenset({ErrorReason.DATA_LOST, ErrorReason.CONTAINER_WITHOUT_VOLUME})

REMEDY: Mapping[ErrorReason, str] = {
    ErrorReason.TIMEOUT: "Look at the logs, then recover it: the step is tried again from where it stands.",
    ErrorReason.RETRY_EXCEEDED: "Remove the cause that the message names, then recover it.",
    ErrorReason.ACTION_FAILED: "Nothing: it is tried again by itself.",
    ErrorReason.DATA_LOST: (
        "Put the volume or the archive back in place and recover it; adopt the volume, if it is only its identity that is gone; or accept the loss, "
        "and go on without what is gone."
    ),
    ErrorReason.UNREACHABLE: "Nothing: it goes on when the backend answers again.",
    ErrorReason.IMAGE_PULL_FAILED: "Correct the image's name or the registry's access, then recover it.",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "Recover it: the instance is stopped first. Then it is judged anew.",
    ErrorReason.ARCHIVE_CORRUPTED: (
        "Put a good copy of the archive in place and recover it; or accept the loss, and begin with an empty home."
    ),
    ErrorReason.CRASH_LOOP: "Look at the logs, mend what makes it die (the image, a start-up file, its memory), then recover it.",
}


NEWER_REMEDY = "Take the newest archive, which holds the latest work; or accept its loss, and go on with what the database names."
KEPT_REMEDY = "Undelete it and recover it with the newest archive; or purge it, which keeps nothing."
# What a step refuses to destroy, because it is newer than the database.
NOT_REPLACED = (
    "A home is there that the database does not know of, and somebody worked in it: it is not replaced by the older archive, "
    "unless its loss is accepted."
)
NOT_DELETED = "A home is there that the database does not know of, and somebody worked in it: only a purge deletes it, unless its loss is accepted."
LAST_COPY = (
    "A home is there that the database does not know of, and the archive that it was restored from is gone: it is neither replaced nor "
    "deleted, unless its loss is accepted."
)
_TRASH_OVER = "Its time in the trash is over, but somebody worked on it after its deletion{what}: the database is older than the home. Undelete it to go on with it, or purge it."
WORKED_ON_SINCE = _TRASH_OVER.format(what="")
ARCHIVED_SINCE = _TRASH_OVER.format(what=", and archived it at {at}")

# Of an error's context: the archive that is newer than the row's, and the database's time of its commit.
NEWEST_ARCHIVE = "newest_archive"
NEWEST_ARCHIVE_AT = "newest_archive_at"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong, where and when."""

    reason: ErrorReason
    message: str
    operation: Operation
    error_count: int
    occurred_at: datetime
    context: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.reason.is_terminal
