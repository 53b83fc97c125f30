"""Transitions: a judged status and a plan, or an actuator's outcome, in; the
status to persist out. Only here an operation begins or ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from codehub.core.conditions import NAMES, Condition, Conditions, Reason, Truth
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.judge import enter, enter_error, resource_phase
from codehub.core.messages import Code, Message, bare_message
from codehub.core.operations import Operation, Phase
from codehub.core.plan import (
    Abandon,
    Act,
    Begin,
    Complete,
    EndInError,
    Fail,
    Forget,
    Hold,
    Plan,
    Resume,
    TakeOver,
)
from codehub.core.recoveries import error_time
from codehub.core.requests import is_purge_due
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import HeldUp, HomeCtx, Spec, Status, holdup, says_the_same, start_facts

NEW_ARCHIVE = Condition(Truth.UNKNOWN, Reason.NOT_LOOKED, bare_message(Code.ARCHIVE_UNSEEN))


@dataclass(frozen=True, slots=True)
class Done:
    """The actuator returned. That finishes nothing, but what it made has a name."""

    volume_id: str | None = None
    restore_marker: str | None = None
    archive_key: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The actuator refused, or gave up."""

    reason: ErrorReason
    message: Message
    context: Mapping[str, str] = field(default_factory=dict)
    is_engines_own: bool = False
    """Whether the engine itself failed. Then only the operation's time ends the retries."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """The backend could not be reached since then: an outage, not a failure."""

    message: Message
    since: datetime
    context: Mapping[str, str] = field(default_factory=dict)


Outcome = Done | Failed | Unreached


def apply_plan(spec: Spec, status: Status, planned: Plan, now: datetime, *, op_id: UUID) -> Status:
    """Return the status that records the plan. `op_id` is a fresh one, used if the plan needs one."""
    match planned:
        case Begin(operation=operation, adopts=adopts):
            begun = _begin(status, operation, now, op_id)
            if not adopts:
                return begun
            # Nothing may tell which volume it was: then it gets an id that no other has.
            volume_id = status.home_ctx.volume_id or str(op_id)
            return replace(begun, home_ctx=replace(status.home_ctx, volume_id=volume_id))
        case TakeOver():
            return replace(status, op_id=op_id)
        case Hold(is_held_up=True) if holdup(status) is None:
            return _hold_up(status, ErrorReason.UNREACHABLE, _blindness(status.conditions), now)
        case Resume():
            assert status.held_up is not None
            return replace(status, held_up=replace(status.held_up, is_trying=True), retry_at=None)
        case _:
            return _apply_end(spec, status, planned, now)


def apply_outcome(
    status: Status,
    act: Act,
    op_id: UUID,
    outcome: Outcome,
    now: datetime,
    *,
    spec: Spec,
    jitter: float,
    rules: Rules = DEFAULT_RULES,
) -> Status:
    """Return the status after an actuator's call. The outcome of an
    operation that is no longer this one changes nothing.
    """
    if status.operation is not act.operation or status.op_id != op_id:
        return status
    if isinstance(outcome, Done):
        return _note(replace(status, retry_at=None, held_up=None), outcome, now)
    if isinstance(outcome, Failed):
        error = ErrorInfo(
            outcome.reason,
            outcome.message,
            act.operation,
            status.error_count + 1,
            error_time(spec, now),
            outcome.context,
        )
        retries_max = None if outcome.is_engines_own else rules.retries_max
        return _count_failure(status, act, error, now, jitter, rules, retries_max)
    return _wait_out(status, act, outcome, now, rules)


def is_worth_writing(before: Status, after: Status, *, rules: Rules = DEFAULT_RULES) -> bool:
    """Whether a pass has anything to persist: what has converged is not written again (contract 14).

    While an operation runs, that somebody looks is worth a write now
    and then: its clock stands still without (contract 12).
    """
    if not says_the_same(before, after):
        return True
    if after.operation is Operation.NONE or after.observed_at is None:
        return False
    return before.observed_at is None or after.observed_at - before.observed_at >= rules.look_gap_max / 2


def _apply_end(spec: Spec, status: Status, planned: Plan, now: datetime) -> Status:
    """Record the end of an operation, if the plan is one."""
    match planned:
        case Complete(operation=operation):
            return _complete(spec, status, operation, now)
        case Abandon(forgives=forgives):
            return replace(_end(status), error_info=None, error_count=0 if forgives else status.error_count)
        case Fail(operation=operation, reason=reason, message=message):
            context = start_facts(spec) if operation is Operation.STARTING else {}
            error = ErrorInfo(
                reason, message, operation, status.error_count + 1, error_time(spec, now), context
            )
            return _end_in_error(status, error, now)
        case EndInError():
            return _end(status)
        case Forget():
            # It keeps op_id, the container, the volume and the archive, and the names of all of them.
            return enter(replace(_end(status), error_info=None, error_count=0), Phase.DELETED, now)
        case _:
            return status


def _begin(status: Status, operation: Operation, now: datetime, op_id: UUID) -> Status:
    if status.phase is Phase.ERROR:
        # A deletion answers the error: what was counted towards it is no failure of what begins now.
        answered = replace(status, error_info=None, error_count=0)
        status = enter(answered, resource_phase(status.conditions), now)
    home = status.home_ctx
    if operation in (Operation.PROVISIONING, Operation.RESTORING):
        home = HomeCtx(dirty=home.dirty, given_up_at=home.given_up_at, replaces=home.replaces)
    elif operation is Operation.STARTING:
        home = replace(home, dirty=True)
    return replace(
        status,
        operation=operation,
        op_id=op_id,
        op_started_at=now,
        retry_at=None,
        held_up=None,
        home_ctx=home,
    )


def _complete(spec: Spec, status: Status, operation: Operation, now: datetime) -> Status:
    status = replace(_end(status), error_info=None, error_count=0)
    match operation:
        case Operation.ARCHIVING:
            return replace(status, home_ctx=replace(status.home_ctx, volume_id=None))
        case Operation.DELETING:
            status = replace(status, home_ctx=replace(status.home_ctx, volume_id=None))
            if is_purge_due(spec, now):
                status = replace(status, archive_key=None)
            return enter(status, Phase.DELETED, now)
        case _:
            return status


def _end(status: Status) -> Status:
    return replace(status, operation=Operation.NONE, op_started_at=None, retry_at=None, held_up=None)


def _end_in_error(status: Status, error: ErrorInfo, now: datetime) -> Status:
    """Entering ERROR and ending the operation are one write."""
    return _end(enter_error(status, error, now))


def _hold_up(status: Status, reason: ErrorReason, message: Message, now: datetime) -> Status:
    """Note what holds the operation up. It has been so since the
    first time, though it was tried again meanwhile.
    """
    since = now if status.held_up is None else status.held_up.since
    return replace(status, held_up=HeldUp(reason, message, since))


def _blindness(conditions: Conditions) -> Message:
    """Return what could not be looked at."""
    every = (getattr(conditions, name) for name in NAMES)
    unknown = [condition.message for condition in every if condition.is_unknown]
    return unknown[0] if len(unknown) == 1 else Message(Code.SEVERAL, {"messages": unknown})


def _note(status: Status, done: Done, now: datetime) -> Status:
    """Remember what was made. Storing archive_key and clearing dirty, after which the volume
    may go, are one write; whether the archive is there is yet to be seen.
    """
    home = status.home_ctx
    if done.volume_id is not None:
        home = replace(home, volume_id=done.volume_id, restore_marker=done.restore_marker, replaces=None)
    if done.archive_key is None:
        return replace(status, home_ctx=home)
    conditions = replace(
        status.conditions, archive_ready=NEW_ARCHIVE.following(status.conditions.archive_ready, now)
    )
    saved = replace(home, dirty=False, restore_marker=None, given_up_at=None)
    return replace(status, archive_key=done.archive_key, home_ctx=saved, conditions=conditions)


def _count_failure(
    status: Status,
    act: Act,
    error: ErrorInfo,
    now: datetime,
    jitter: float,
    rules: Rules,
    retries_max: int | None,
) -> Status:
    count = error.error_count
    status = replace(status, error_count=count)
    if error.is_terminal:
        return _end_in_error(status, error, now)
    if retries_max is not None and count > retries_max:
        message = Message(Code.FAILED_AGAIN, {"step": act.step, "count": count, "message": error.message})
        error = replace(error, reason=ErrorReason.RETRY_EXCEEDED, message=message)
        return _end_in_error(status, error, now)
    status = _hold_up(status, error.reason, error.message, now)
    return replace(status, error_info=error, retry_at=now + rules.backoff(count, jitter))


def _wait_out(status: Status, act: Act, outage: Unreached, now: datetime, rules: Rules) -> Status:
    """Try again later. Neither the outage nor the pause counts towards the operation's time (contract 12)."""
    status = _hold_up(status, ErrorReason.UNREACHABLE, outage.message, now)
    retry_at = now + rules.pause(now - outage.since)
    error = ErrorInfo(
        ErrorReason.UNREACHABLE, outage.message, act.operation, status.error_count, now, outage.context
    )
    started = None if status.op_started_at is None else status.op_started_at + (retry_at - outage.since)
    return replace(status, error_info=error, retry_at=retry_at, op_started_at=started)
