"""What people are told: a code and the facts of the case. Its text stands in the catalogue of each language."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """What may be told, beside a plan's `Why`. The catalogue has each under `reason.` and its value."""

    VERBATIM = "Verbatim"
    """A text of somebody else: a backend's, an exception's, or an older codehub's. It has no translation."""
    SEVERAL = "Several"

    NOTHING_YET = "NothingYet"
    VOLUME_ABSENT = "VolumeAbsent"
    VOLUME_INCOMPLETE = "VolumeIncomplete"
    VOLUME_UNIDENTIFIED = "VolumeUnidentified"
    VOLUME_READY = "VolumeReady"
    VOLUME_FOREIGN = "VolumeForeign"
    VOLUME_UNKNOWN = "VolumeUnknown"
    MARK_MISSING = "MarkMissing"
    NO_ARCHIVE = "NoArchive"
    ARCHIVE_GONE = "ArchiveGone"
    ARCHIVE_READY = "ArchiveReady"
    ARCHIVE_INCOMPLETE = "ArchiveIncomplete"
    ARCHIVE_UNKNOWN = "ArchiveUnknown"
    ARCHIVE_UNSEEN = "ArchiveUnseen"
    INSTANCE_ABSENT = "InstanceAbsent"
    INSTANCE_STOPPED = "InstanceStopped"
    INSTANCE_READY = "InstanceReady"
    INSTANCE_UNHEALTHY = "InstanceUnhealthy"
    INSTANCE_UNKNOWN = "InstanceUnknown"
    HEALTHY = "Healthy"

    WITHOUT_VOLUME = "WithoutVolume"
    IDENTITY_LOST = "IdentityLost"
    VOLUME_LOST = "VolumeLost"
    ARCHIVE_LOST = "ArchiveLost"
    NEWER_ARCHIVE = "NewerArchive"
    NOT_REPLACED = "NotReplaced"
    NOT_DELETED = "NotDeleted"
    LAST_COPY = "LastCopy"
    WORKED_ON_SINCE = "WorkedOnSince"
    ARCHIVED_SINCE = "ArchivedSince"
    DIED_AGAIN = "DiedAgain"
    TOOK_LONGER = "TookLonger"
    TOOK_LONGER_LAST_TRY = "TookLongerLastTry"
    ENDED_EARLY = "EndedEarly"
    ENDED_SAYING = "EndedSaying"
    FAILED_AGAIN = "FailedAgain"
    IMAGE_NOT_ALLOWED = "ImageNotAllowed"
    CLAMPED = "Clamped"
    NO_ANSWER = "NoAnswer"
    NO_ROOM = "NoRoom"

    GREW = "Grew"
    UNUSED = "Unused"
    VISITED = "Visited"
    ASKED_ON_A_PAGE = "AskedOnAPage"
    ASKED_TO_CREATE = "AskedToCreate"
    ASKED_TO_CHANGE = "AskedToChange"
    ASKED_TO_START = "AskedToStart"
    ASKED_TO_STOP = "AskedToStop"
    ASKED_TO_ARCHIVE = "AskedToArchive"
    ASKED_TO_RECOVER = "AskedToRecover"
    ASKED_TO_ACCEPT_LOSS = "AskedToAcceptLoss"
    ASKED_TO_TAKE_NEWEST = "AskedToTakeNewest"
    ASKED_TO_ADOPT = "AskedToAdopt"
    ASKED_TO_KEEP_AWAKE = "AskedToKeepAwake"
    ASKED_TO_PIN = "AskedToPin"
    ASKED_TO_UNPIN = "AskedToUnpin"
    ASKED_TO_DELETE = "AskedToDelete"
    ASKED_TO_PURGE = "AskedToPurge"
    ASKED_TO_UNDELETE = "AskedToUndelete"
    ASKED_TO_FORGET = "AskedToForget"

    OPERATION_UNDER_WAY = "OperationUnderWay"
    DELETE_AFTER_OPERATION = "DeleteAfterOperation"
    UNDELETE_AFTER_DELETING = "UndeleteAfterDeleting"
    RECOVERY_REQUIRED = "RecoveryRequired"
    REVISION_CHANGED = "RevisionChanged"
    DELETED = "Deleted"
    BEING_DELETED = "BeingDeleted"
    DELETION_WAS_ASKED_FOR = "DeletionWasAskedFor"
    TRASH_TIME_OVER = "TrashTimeOver"
    NOT_BEING_DELETED = "NotBeingDeleted"
    DELETION_NOT_HELD_UP = "DeletionNotHeldUp"
    OWNER_LIMIT = "OwnerLimit"
    STOP_ONE = "StopOne"
    RECOVER_OR_DELETE = "RecoverOrDelete"
    TOTAL_LIMIT = "TotalLimit"
    ABOVE_CEILING = "AboveCeiling"
    TOO_MANY_WORKSPACES = "TooManyWorkspaces"
    IMAGE_NOT_LISTED = "ImageNotListed"
    OF_FIELD = "OfField"
    NO_SUCH_WORKSPACE = "NoSuchWorkspace"
    FOREIGN_WORKSPACE = "ForeignWorkspace"
    ADMINS_ONLY = "AdminsOnly"
    OWNER_ONLY = "OwnerOnly"
    READ_ONLY_TOKEN = "ReadOnlyToken"  # noqa: S105  # no password


@dataclass(frozen=True, slots=True)
class Message:
    """What is told, in no language."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Values of JSON, other messages, and lists of either."""

    def __str__(self) -> str:
        """Return it for logs, which are for operators: the code with its facts."""
        if self.code == Code.VERBATIM:
            return str(self.facts["text"])
        return " ".join((self.code, *(f"{name}={_plain(value)}" for name, value in self.facts.items())))


_BARE: Mapping[str, Message] = {code: Message(code) for code in Code}


def bare_message(code: str) -> Message:
    """Return a message without facts: the same each time, so that it costs little to keep and to compare."""
    return _BARE.get(code) or Message(code)


def verbatim(text: str) -> Message:
    """Return a text that is shown as it is, in any language."""
    return Message(Code.VERBATIM, {"text": text})


def to_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them, as they are stored and shown."""
    return {name: _to_json(value) for name, value in facts.items()}


def from_json(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that `to_json` was given."""
    return {name: _from_json(value) for name, value in stored.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "facts": to_json(value.facts)}
    return [_to_json(each) for each in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Message(value["code"], from_json(value["facts"]))
    return [_from_json(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> str:
    return ", ".join(_plain(each) for each in value) if isinstance(value, list) else str(value)
