"""Plan: a judged workspace and the time in, one thing to do and why out. No `why` decides anything."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from codehub.core.conditions import NAMES, unknown_conditions
from codehub.core.errors import NOTHING_TO_SAVE, ErrorReason
from codehub.core.judge import MAKES_ANEW, Verdict
from codehub.core.messages import Code, Message
from codehub.core.observation import Observation, Unobserved
from codehub.core.operations import LEVEL, MOVES, NEXT, DesiredState, Operation, Phase, Step
from codehub.core.recoveries import is_answered
from codehub.core.requests import is_purge_due
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import Spec, Status, holdup, is_adopting, is_as_restored, is_condemned


class Why(StrEnum):
    """Why the plan is what it is. The catalogue has each as `reason.` and its value."""

    CONVERGED = "Converged"
    IN_TRASH = "InTrash"
    KEPT_IN_TRASH = "KeptInTrash"
    GONE = "Gone"
    FORGOTTEN = "Forgotten"
    CANNOT_LOOK = "CannotLook"
    NEEDS_A_PERSON = "NeedsAPerson"
    BACKING_OFF = "BackingOff"
    PURGE = "Purge"
    DELETION = "Deletion"
    DELETION_STEPS_DOWN = "DeletionStepsDown"
    NOTHING_TO_SAVE = "NothingToSave"
    STRAY_CONTAINER = "StrayContainer"
    CONDEMNED = "Condemned"
    ADOPTED = "Adopted"
    MOVES_UP = "MovesUp"
    MOVES_DOWN = "MovesDown"
    NOT_SEEN_YET = "NotSeenYet"
    SEEN = "Seen"
    TAKEN_OVER = "TakenOver"
    GIVEN_UP = "GivenUp"
    TRIED_AGAIN = "TriedAgain"
    IMPOSSIBLE = "Impossible"
    TIME_IS_UP = "TimeIsUp"


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is to be done."""

    why: Why


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing can be decided while these are unknown. `is_held_up`: nor does any of its steps move."""

    unknown: tuple[str, ...]
    is_held_up: bool = False
    why: Why = Why.CANNOT_LOOK


@dataclass(frozen=True, slots=True)
class Wait:
    """Until a time, or (None) for a person."""

    until: datetime | None
    why: Why


@dataclass(frozen=True, slots=True)
class Begin:
    """Record the operation under a new op_id. Acting starts in the next pass."""

    operation: Operation
    why: Why
    adopts: bool = False
    """Whether it takes the volume that is there for the home: then what the row knows of the home stays."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Replace an op_id that this process did not issue, so that whoever did can do no more."""

    operation: Operation
    why: Why = Why.TAKEN_OVER


@dataclass(frozen=True, slots=True)
class Resume:
    """Record that what was held up is tried again, so that no wish
    preempts the step. Acting starts in the next pass.
    """

    operation: Operation
    why: Why = Why.TRIED_AGAIN


@dataclass(frozen=True, slots=True)
class Act:
    """Call the actuator of this step."""

    operation: Operation
    step: Step
    why: Why = Why.NOT_SEEN_YET


@dataclass(frozen=True, slots=True)
class Complete:
    """Record that the operation has reached its end."""

    operation: Operation
    why: Why = Why.SEEN


@dataclass(frozen=True, slots=True)
class Abandon:
    """End the operation before its end was seen; what is seen is judged anew."""

    operation: Operation
    why: Why
    forgives: bool = False
    """Whether its failures count no more: something else was asked for."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the operation in ERROR."""

    operation: Operation
    reason: ErrorReason
    message: Message
    why: Why = Why.TIME_IS_UP


@dataclass(frozen=True, slots=True)
class EndInError:
    """End the operation: the workspace was judged to be in ERROR."""

    operation: Operation
    why: Why = Why.NEEDS_A_PERSON


@dataclass(frozen=True, slots=True)
class Forget:
    """Record it as deleted, whatever can't be seen. It is looked at
    again when its time in the trash is over (None: never).
    """

    until: datetime | None
    why: Why


# What makes a volume from here; this time it takes the one that is there.
_ADOPTS = {Phase.PENDING: Operation.PROVISIONING, Phase.ARCHIVED: Operation.RESTORING}

Plan = Rest | Hold | Wait | Begin | TakeOver | Resume | Act | Complete | Abandon | Fail | EndInError | Forget


def plan(
    spec: Spec,
    verdict: Verdict,
    observation: Observation,
    now: datetime,
    *,
    is_mine: bool,
    is_acting: bool = False,
    rules: Rules = DEFAULT_RULES,
) -> Plan:
    """Return the one thing to do next.

    `is_mine`: this process issued the op_id that the row carries. `is_acting`: a step under it is in flight.
    """
    status = verdict.status
    operation = status.operation
    if verdict.is_forgotten:
        return _forget(spec, status)
    if status.phase is Phase.ERROR and operation is not Operation.NONE:
        return EndInError(operation)
    if verdict.unknown and operation is not Operation.NONE and not is_mine:
        return TakeOver(operation)  # so that nobody else's step can begin while it is held up
    if verdict.unknown:
        return Hold(verdict.unknown, is_held_up=operation is not Operation.NONE and not is_acting)
    if operation is not Operation.NONE:
        return _carry_on(spec, status, observation, now, rules, is_mine=is_mine)
    if verdict.is_adopted and not is_purge_due(spec, now):
        return Begin(_ADOPTS[status.phase], Why.ADOPTED, adopts=True)
    chosen = choose_next_operation(spec, status, now)
    if isinstance(chosen, Begin) and _works_on_unknown_archive(chosen.operation, status):
        return Hold((NAMES["archive_ready"],))
    return chosen


def choose_next_operation(spec: Spec, status: Status, now: datetime) -> Rest | Wait | Begin:
    """Return the next operation (spec §2.5): looked at from the top, the first row that fits decides."""
    phase, error = status.phase, status.error_info
    is_deletion = spec.deleted_at is not None
    is_answered_error = error is None or is_answered(spec, error)
    if phase is Phase.DELETED:
        return _choose_in_trash(spec, status, now)
    if is_purge_due(spec, now) and is_answered_error:
        return Begin(Operation.DELETING, Why.PURGE)
    if is_deletion and phase in MOVES[Operation.DELETING].sources:
        # What still writes to a volume that is not known as this home's may
        # make it the only copy: then no mere deletion may go on.
        if status.conditions.container_ready.is_present and status.conditions.volume_ready.is_present:
            return Begin(Operation.STOPPING, Why.STRAY_CONTAINER)
        return Begin(Operation.DELETING, Why.DELETION)
    if phase is Phase.ERROR:
        if is_deletion and is_answered_error and _has_nothing_to_save(status):
            return Begin(Operation.DELETING, Why.NOTHING_TO_SAVE)
        return Wait(None, Why.NEEDS_A_PERSON)
    return _choose_by_wish(
        status, DesiredState.PENDING if is_deletion else spec.desired_state, is_deletion=is_deletion
    )


def holds_only_copy(status: Status) -> bool:
    """Whether a volume is there that may hold what no archive holds."""
    conditions = status.conditions
    is_unsaved = status.home_ctx.dirty or (
        status.archive_key is not None and not conditions.archive_ready.is_true
    )
    return conditions.volume_ready.is_present and is_unsaved


def _choose_in_trash(spec: Spec, status: Status, now: datetime) -> Rest | Wait | Begin:
    if status.archive_key is None:
        return Rest(Why.GONE if spec.forgotten_at is None else Why.FORGOTTEN)
    if is_purge_due(spec, now):
        return Begin(Operation.DELETING, Why.PURGE)
    if spec.deleted_at is None:
        return Rest(Why.IN_TRASH)  # it was undeleted, which the next look will show
    return Wait(spec.purge_at, _why_in_trash(spec))


def _forget(spec: Spec, status: Status) -> Forget:
    """Nothing begins before it is recorded as deleted, though a purge may be due."""
    if status.archive_key is None:
        return Forget(None, Why.FORGOTTEN)
    return Forget(spec.purge_at, _why_in_trash(spec))


def _why_in_trash(spec: Spec) -> Why:
    return Why.KEPT_IN_TRASH if spec.purge_at is None else Why.IN_TRASH


def _has_nothing_to_save(status: Status) -> bool:
    """A volume that is not known as this home's may be somebody's files: that takes a purge."""
    error = status.error_info
    return error is not None and error.reason in NOTHING_TO_SAVE and status.conditions.volume_ready.is_absent


def _choose_by_wish(status: Status, wish: DesiredState, *, is_deletion: bool) -> Rest | Begin:
    phase = status.phase
    may_have_container = _may_have_container(phase, wish) and not is_condemned(status)
    if status.conditions.container_ready.is_present and not may_have_container:
        return Begin(Operation.STOPPING, Why.STRAY_CONTAINER)
    operation = NEXT[phase][wish]
    if operation is Operation.NONE:
        return Rest(Why.CONVERGED)
    if is_deletion:
        return Begin(operation, Why.DELETION_STEPS_DOWN)
    if operation is Operation.STARTING and is_condemned(status):
        return Begin(Operation.ARCHIVING, Why.CONDEMNED)
    return Begin(operation, Why.MOVES_UP if LEVEL[MOVES[operation].target] > LEVEL[phase] else Why.MOVES_DOWN)


def _may_have_container(phase: Phase, wish: DesiredState) -> bool:
    return phase is Phase.RUNNING or (phase is Phase.STANDBY and wish is DesiredState.RUNNING)


def _works_on_unknown_archive(operation: Operation, status: Status) -> bool:
    return bool(unknown_conditions(status.conditions, operation))


def _carry_on(
    spec: Spec, status: Status, observation: Observation, now: datetime, rules: Rules, *, is_mine: bool
) -> Plan:
    operation = status.operation
    if _is_complete(spec, status, observation, now):
        return Complete(operation)
    if (abandoned := _abandon(spec, status, now)) is not None:
        return abandoned
    limit = rules.time_limits[operation]
    if status.op_started_at is not None and now - status.op_started_at > limit:
        return Fail(operation, ErrorReason.TIMEOUT, _took_longer(status, limit))
    if not is_mine:
        return TakeOver(operation)
    if operation in MAKES_ANEW and isinstance(observation.archives, Unobserved):
        return Hold((NAMES["archive_ready"],))
    if (
        status.retry_at is not None
        and rules.is_backing_off(status.retry_at, now)
        and not _is_asked_again(spec, status)
    ):
        return Wait(status.retry_at, Why.BACKING_OFF)
    if holdup(status) is not None:
        return Resume(operation)
    return Act(operation, _first_unfinished_step(status))


def _took_longer(status: Status, limit: timedelta) -> Message:
    seconds = f"{limit.total_seconds():g}"
    if status.error_info is None or status.retry_at is None:
        return Message(Code.TOOK_LONGER, {"operation": status.operation, "seconds": seconds})
    return Message(
        Code.TOOK_LONGER_LAST_TRY,
        {"operation": status.operation, "seconds": seconds, "message": status.error_info.message},
    )


def _abandon(spec: Spec, status: Status, now: datetime) -> Abandon | None:
    operation = status.operation
    if operation is not Operation.DELETING and is_purge_due(spec, now):
        return Abandon(operation, Why.PURGE)
    if not _is_possible(spec, status, now):
        return Abandon(operation, Why.IMPOSSIBLE)
    if holdup(status) is not None and _is_given_up(spec, status, now):
        return Abandon(operation, Why.GIVEN_UP, forgives=True)
    return None


def _is_given_up(spec: Spec, status: Status, now: datetime) -> bool:
    """Whether something else is wanted by now than what the operation leads to. A deletion that
    has come this far goes on, and so does an adoption: no wish led to it.
    """
    if status.operation is Operation.DELETING or is_adopting(status):
        return False
    chosen = choose_next_operation(spec, replace(status, error_info=None), now)
    return not isinstance(chosen, Begin) or chosen.operation is not status.operation


def _is_asked_again(spec: Spec, status: Status) -> bool:
    """Whether a person has asked for another try since the last one."""
    error = status.error_info
    return spec.asked_again_at is not None and error is not None and spec.asked_again_at > error.occurred_at


def _is_complete(spec: Spec, status: Status, observation: Observation, now: datetime) -> bool:
    """Whether the operation's end is observed (spec §2.3). An actuator's word never counts."""
    conditions, home = status.conditions, status.home_ctx
    if is_adopting(status):
        return conditions.volume_ready.is_true
    match status.operation:
        case Operation.PROVISIONING:
            return conditions.volume_ready.is_true
        case Operation.CREATE_EMPTY_ARCHIVE:
            return conditions.archive_ready.is_true
        case Operation.RESTORING:
            return conditions.volume_ready.is_true and home.restore_marker == status.archive_key
        case Operation.STARTING:
            return status.phase is Phase.RUNNING
        case Operation.STOPPING:
            return conditions.container_ready.is_absent
        case Operation.ARCHIVING:
            return conditions.volume_ready.is_absent and conditions.archive_ready.is_true and not home.dirty
        case _:
            is_gone = conditions.container_ready.is_absent and conditions.volume_ready.is_absent
            has_archives = is_purge_due(spec, now) and observation.archives_left is not False
            return spec.deleted_at is not None and is_gone and not has_archives


def _is_possible(spec: Spec, status: Status, now: datetime) -> bool:
    """Whether the operation can still act: it stands where it
    began, and would destroy nothing that it must keep.
    """
    match status.operation:
        case Operation.STOPPING:
            return True
        case Operation.ARCHIVING:
            return status.phase is Phase.STANDBY and status.conditions.container_ready.is_absent
        case Operation.DELETING:
            return spec.deleted_at is not None and (is_purge_due(spec, now) or not holds_only_copy(status))
        case operation:
            return status.phase in MOVES[operation].sources


def _first_unfinished_step(status: Status) -> Step:
    conditions = status.conditions
    if is_adopting(status):
        return Step.ADOPT
    match status.operation:
        case Operation.ARCHIVING:
            is_saved = conditions.archive_ready.is_true and not status.home_ctx.dirty
            # Whether a home is still as it was restored is looked at
            # first: the row may be older than the home.
            return Step.DELETE_VOLUME if is_saved and not is_as_restored(status) else Step.ARCHIVE
        case Operation.DELETING:
            if conditions.container_ready.is_present:
                return Step.DELETE_INSTANCE
            return Step.DELETE_VOLUME if conditions.volume_ready.is_present else Step.PURGE_ARCHIVES
        # What was chosen instead of a newer archive is committed first: from then on it is the newest.
        case Operation.RESTORING if status.home_ctx.given_up_at is not None:
            return Step.COPY_ARCHIVE
        case Operation.PROVISIONING if status.home_ctx.given_up_at is not None:
            return Step.CREATE_EMPTY_ARCHIVE
        case operation:
            return MOVES[operation].steps[0]
