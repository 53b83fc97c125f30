"""Four conditions, as in Kubernetes: what was seen, each True, False or Unknown, with a reason."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from codehub.core.messages import Code, Message, bare_message
from codehub.core.operations import Operation


class Truth(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a resource's condition has its status. False is Absent or NotReady; "no X" always means Absent."""

    READY = "Ready"
    ABSENT = "Absent"
    NOT_READY = "NotReady"
    UNIDENTIFIED = "Unidentified"
    """Not ready either: it was whole once, and what says which volume it is, is gone."""
    UNREACHABLE = "Unreachable"
    MARK_MISSING = "MarkMissing"
    NOT_LOOKED = "NotLooked"
    HEALTHY = "Healthy"


@dataclass(frozen=True, slots=True)
class Condition:
    """One fact about reality."""

    status: Truth
    reason: str
    message: Message
    last_transition_time: datetime | None = None

    @property
    def is_true(self) -> bool:
        return self.status is Truth.TRUE

    @property
    def is_false(self) -> bool:
        return self.status is Truth.FALSE

    @property
    def is_unknown(self) -> bool:
        return self.status is Truth.UNKNOWN

    @property
    def is_absent(self) -> bool:
        return self.is_false and self.reason == Reason.ABSENT

    @property
    def is_present(self) -> bool:
        """Something is there, ready or not."""
        return self.is_true or (self.is_false and self.reason in (Reason.NOT_READY, Reason.UNIDENTIFIED))

    @property
    def is_unidentified(self) -> bool:
        return self.is_false and self.reason == Reason.UNIDENTIFIED

    def following(self, earlier: "Condition", now: datetime) -> "Condition":
        """Return this condition with the time at which its status last
        changed; the earlier one itself, if it says the same.
        """
        if earlier.status is not self.status:
            return replace(self, last_transition_time=now)
        if earlier.reason == self.reason and earlier.message == self.message:
            return earlier
        return replace(self, last_transition_time=earlier.last_transition_time)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The four facts that everything is judged by."""

    volume_ready: Condition
    archive_ready: Condition
    container_ready: Condition
    healthy: Condition


# The names under which the conditions are stored and shown.
NAMES: Mapping[str, str] = {
    "volume_ready": "storage.volume_ready",
    "archive_ready": "storage.archive_ready",
    "container_ready": "infra.container_ready",
    "healthy": "policy.healthy",
}

# These operations read or write the archive: for them its condition decides as well.
_ARCHIVE_OPERATIONS = frozenset(
    {Operation.CREATE_EMPTY_ARCHIVE, Operation.RESTORING, Operation.ARCHIVING, Operation.DELETING}
)

NOTHING_YET = Condition(Truth.FALSE, Reason.ABSENT, bare_message(Code.NOTHING_YET))
NO_ARCHIVE = Condition(Truth.FALSE, Reason.ABSENT, bare_message(Code.NO_ARCHIVE))
HEALTHY = Condition(Truth.TRUE, Reason.HEALTHY, bare_message(Code.HEALTHY))
INITIAL = Conditions(NOTHING_YET, NOTHING_YET, NOTHING_YET, HEALTHY)


def unknown_conditions(conditions: Conditions, operation: Operation) -> tuple[str, ...]:
    """Return which conditions decide and are not known. An archive
    decides where there is no volume, or where it is worked on.
    """
    names = []
    if conditions.volume_ready.is_unknown:
        names.append("volume_ready")
    if conditions.container_ready.is_unknown:
        names.append("container_ready")
    decides = not conditions.volume_ready.is_true or operation in _ARCHIVE_OPERATIONS
    if decides and conditions.archive_ready.is_unknown:
        names.append("archive_ready")
    return tuple(NAMES[name] for name in names)


def lost_host(conditions: Conditions) -> Message | None:
    """Return what to do about the host of an instance, if that has fallen silent."""
    container = conditions.container_ready
    return container.message if container.is_unknown and container.message.code == Code.NODE_LOST else None
