"""What can go wrong with a workspace, and which of it ends in ERROR."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from codehub.core.messages import Message
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


class Remedy(StrEnum):
    """What a person can do where there is something to choose from; else an error's reason says it."""

    NEWER_ARCHIVE = "NewerArchive"
    KEPT_ARCHIVE = "KeptArchive"


# Of an error's context: the archive that is newer than the row's, and the database's time of its commit.
NEWEST_ARCHIVE = "newest_archive"
NEWEST_ARCHIVE_AT = "newest_archive_at"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong, where and when."""

    reason: ErrorReason
    message: Message
    operation: Operation
    error_count: int
    occurred_at: datetime
    context: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.reason.is_terminal
