"""The history: what changed between two states of a workspace, as
events. Derived, so that no change can be forgotten.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from codehub.core.messages import Message
from codehub.core.operations import Phase
from codehub.core.requests import is_purge_asked
from codehub.core.workspace import SETTINGS, RecoverChoice, Spec, Status, holdup


class EventKind(StrEnum):
    WISH = "wish"
    OPERATION = "operation"
    PHASE = "phase"
    ERROR = "error"
    RECOVERY = "recovery"
    DELETION = "deletion"


_CHOSEN: Mapping[RecoverChoice, str] = {RecoverChoice.NEWEST: "take_newest", RecoverChoice.ADOPT: "adopt"}
_CARRIED_OUT = ("desired_state", "deleted_at", "purge_at", "forgotten_at", "recover_at", "asked_again_at")
# A change of these is a line of the history too, from a wish to the same wish.
_settings = attrgetter(*SETTINGS)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history: what became of what, by whom and why."""

    kind: EventKind
    before: str | None
    after: str | None
    actor: str
    reason: Message
    request_id: str | None = None


def is_to_be_carried_out(before: Spec, after: Spec) -> bool:
    """Whether a controller will do something because of this request, and should then say which it was."""
    return any(getattr(before, name) != getattr(after, name) for name in _CARRIED_OUT)


def events_of_request(
    before: Spec, after: Spec, *, actor: str, reason: Message, request_id: str | None = None
) -> Iterator[Event]:
    """Yield what a person's (or the TTL's) request changed."""
    if before.deleted_at != after.deleted_at or before.purge_at != after.purge_at:
        yield Event(EventKind.DELETION, _deletion(before), _deletion(after), actor, reason, request_id)
    if before.forgotten_at is None and after.forgotten_at is not None:
        yield Event(EventKind.DELETION, _deletion(before), "forgotten", actor, reason, request_id)
    if before.recover_at != after.recover_at:
        yield Event(EventKind.RECOVERY, None, _recovery(after), actor, reason, request_id)
    if before.desired_state is not after.desired_state or _settings(before) != _settings(after):
        yield Event(EventKind.WISH, before.desired_state, after.desired_state, actor, reason, request_id)


def events_of_pass(
    before: Status, after: Status, *, actor: str, reason: Message, request_id: str | None = None
) -> Iterator[Event]:
    """Yield what a controller's pass changed. `request_id`: of the request that it carries out."""
    if before.operation is not after.operation or before.op_id != after.op_id:
        yield Event(EventKind.OPERATION, before.operation, after.operation, actor, reason, request_id)
    held = holdup(after)
    if held is not None and holdup(before) is None and before.error_info == after.error_info:
        yield Event(EventKind.OPERATION, before.operation, after.operation, actor, held.message, request_id)
    if before.error_info != after.error_info:
        yield Event(
            EventKind.ERROR,
            _error(before),
            _error(after),
            actor,
            after.error_info.message if after.error_info else reason,
            request_id,
        )
    if before.phase is not after.phase:
        seen = _what_was_seen(before.phase, after) or reason
        yield Event(EventKind.PHASE, before.phase, after.phase, actor, seen, request_id)


def _what_was_seen(before: Phase, after: Status) -> Message | None:
    """Return what makes the phase what it is, where that is
    something seen: a plan's reason is about what comes next.
    """
    conditions = after.conditions
    match after.phase:
        case Phase.RUNNING:
            return conditions.container_ready.message
        case Phase.STANDBY:
            lost = conditions.container_ready if before is Phase.RUNNING else conditions.volume_ready
            return lost.message
        case Phase.ARCHIVED:
            return conditions.archive_ready.message
        case Phase.PENDING:
            return conditions.volume_ready.message
        case _:
            return None


def _recovery(spec: Spec) -> str:
    if spec.recover_accepts_loss:
        return "accept_loss"
    return "recover" if spec.recover_choice is None else _CHOSEN[spec.recover_choice]


def _deletion(spec: Spec) -> str | None:
    if spec.deleted_at is None:
        return None
    return "purge" if is_purge_asked(spec) else "trash"


def _error(status: Status) -> str | None:
    return status.error_info.reason if status.error_info else None
