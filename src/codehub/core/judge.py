"""Judge: a workspace and what was seen of it in, what it is now out.
Begins no operation, and ends none: see transitions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from codehub.core.archives import CommittedArchive, newer_archive, newest_facts
from codehub.core.conditions import HEALTHY, Condition, Conditions, Truth, unknown_conditions
from codehub.core.errors import ErrorInfo, ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import (
    Observation,
    Unmarked,
    Unobserved,
    Volume,
    observed_conditions,
)
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.recoveries import adopt, answer, error_time, is_adopted, is_answered, is_recovered
from codehub.core.requests import is_purge_due
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import (
    Spec,
    Status,
    Workspace,
    is_adopting,
    observed_status,
    start_facts,
)

_MAKES_VOLUME = frozenset({Operation.PROVISIONING, Operation.RESTORING})
# These make a home, or an archive, from what the row names: nothing newer may be there.
MAKES_ANEW = frozenset({Operation.PROVISIONING, Operation.CREATE_EMPTY_ARCHIVE, Operation.RESTORING})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a workspace is, as far as it could be seen."""

    status: Status
    unknown: tuple[str, ...] = ()
    """The conditions that decide and are not known. While there are any, the phase stays."""
    is_forgotten: bool = False
    """Whether an admin gave up on its deletion, and that is not recorded yet."""
    is_adopted: bool = False
    """Whether a person has just said that the volume which is there is the home. What begins with that
    begins in the same write: such a word counts for the error that it answers, and for no later one.
    """


def judge(
    workspace: Workspace,
    observation: Observation,
    now: datetime,
    *,
    starting_up: bool = False,
    is_queued: bool = False,
    rules: Rules = DEFAULT_RULES,
) -> Verdict:
    """Return what the workspace is, given what was seen. Losses found at start-up are no crashes.

    `is_queued`: its step has no place to be done in yet, so that its operation's clock stands still.
    """
    spec, stored = workspace.spec, workspace.status
    conditions = observed_conditions(stored, observation, now, rules, starting_up=starting_up)
    if _is_to_be_forgotten(spec, stored):
        return Verdict(_mark_dirty(replace(stored, conditions=conditions)), is_forgotten=True)
    if unknown := unknown_conditions(conditions, stored.operation):
        return Verdict(_mark_dirty(replace(stored, conditions=conditions)), unknown)
    started_at = _moved_clock(stored, now, rules, is_queued=is_queued)
    status = _mark_dirty(replace(stored, conditions=conditions, observed_at=now, op_started_at=started_at))
    if (error := stored.error_info) is not None and error.is_terminal and is_answered(spec, error):
        status = answer(spec, status, error, observation, now)
    if is_adopted(spec, stored, status):
        return Verdict(enter(adopt(status, observation), resource_phase(conditions), now), is_adopted=True)
    if (broken := check_invariants(spec, stored, status, observation, now)) is not None:
        return Verdict(enter_error(status, broken, now))
    if status.error_info is not None and status.error_info.is_terminal:
        return Verdict(enter_error(status, status.error_info, now))
    if not starting_up and _was_lost(spec, stored, status):
        recent = tuple(at for at in stored.restarts if now - at < rules.restart_window)
        if len(recent) >= rules.restarts_max:
            return Verdict(enter_error(status, _crash_loop(spec, stored, status, now, rules), now))
        status = replace(status, restarts=(*recent, now))
    return Verdict(enter(status, calculate_phase(spec, status), now))


def check_invariants(
    spec: Spec, stored: Status, status: Status, observation: Observation, now: datetime
) -> ErrorInfo | None:
    """Return the broken rule, if any. Of what is being deleted or purged nothing is demanded any more."""
    if (
        status.operation is Operation.DELETING
        or is_purge_due(spec, now)
        or (spec.deleted_at is not None and stored.phase is Phase.DELETED)
        or not status.conditions.volume_ready.is_false
    ):
        return None
    error = stored.error_info
    if status.conditions.container_ready.is_present:
        # What is being stopped, or was recovered in order to be stopped, is on its way out of this.
        was_recovered = (
            error is not None
            and error.reason is ErrorReason.CONTAINER_WITHOUT_VOLUME
            and is_recovered(spec, error)
        )
        if status.operation is Operation.STOPPING or was_recovered:
            return None
        reason, code = ErrorReason.CONTAINER_WITHOUT_VOLUME, Code.WITHOUT_VOLUME
    elif is_adopting(status) and status.conditions.volume_ready.is_present:
        return None
    elif status.home_ctx.dirty:
        is_there = status.conditions.volume_ready.is_unidentified
        reason, code = ErrorReason.DATA_LOST, Code.IDENTITY_LOST if is_there else Code.VOLUME_LOST
    elif status.operation in _MAKES_VOLUME and not may_replace(status, observation.volume):
        reason, code = ErrorReason.DATA_LOST, Code.IDENTITY_LOST
    elif status.archive_key is not None and status.conditions.archive_ready.is_false:
        reason, code = ErrorReason.DATA_LOST, Code.ARCHIVE_LOST
    elif status.operation in MAKES_ANEW and (newer := _newer_archive(status, observation)) is not None:
        return _newer_archive_error(spec, status, newer, now)
    else:
        return None
    if error is not None and error.reason is reason and not is_recovered(spec, error):
        return error
    # What was in ERROR already, and was not answered, enters it no second time.
    count = status.error_count + (status.phase is not Phase.ERROR or status.error_info is None)
    return ErrorInfo(reason, Message(code), status.operation, count, error_time(spec, now))


def calculate_phase(spec: Spec, status: Status) -> Phase:
    """Return the phase of what breaks no rule: DELETED once it was
    deleted and nothing of it is left, else by its resources.
    """
    conditions = status.conditions
    is_done = spec.deleted_at is not None and status.phase is Phase.DELETED
    is_gone = conditions.container_ready.is_absent and conditions.volume_ready.is_absent
    if is_done and (is_gone or spec.forgotten_at is not None):
        return Phase.DELETED
    return resource_phase(conditions)


def resource_phase(conditions: Conditions) -> Phase:
    """Return the phase by resources alone (spec §2.2). An
    archive counts while no ready volume stands before it.
    """
    if conditions.volume_ready.is_true:
        return Phase.RUNNING if conditions.container_ready.is_true else Phase.STANDBY
    return Phase.ARCHIVED if conditions.archive_ready.is_true else Phase.PENDING


def may_replace(status: Status, volume: Volume | Unobserved | Unmarked | None) -> bool:
    """Whether no files are lost with a volume that is not ready: it is not one that was
    complete once and has lost its identity, or a person gave up this very one. What the row
    knows of it decides nothing, for the row may be older than the home (ADR 0030).
    """
    if not isinstance(volume, Volume) or volume.volume_id is not None:
        return True
    return volume.bears in (None, status.home_ctx.replaces)


def holds_lost_archive(status: Status, volume: Volume, archives: Iterable[CommittedArchive]) -> bool:
    """Whether a volume that the row does not name was restored from an archive that is gone: then
    it may be all that is left of that. Not if a person gave up this very one.
    """
    if volume.made_from is None or volume.volume_id in (
        None,
        status.home_ctx.volume_id,
        status.home_ctx.replaces,
    ):
        return False
    return all(archive.key != volume.made_from for archive in archives)


def needs_archive_look(workspace: Workspace) -> bool:
    """Whether this pass must look at the archive itself; the others are swept hourly."""
    spec, status = workspace.spec, workspace.status
    error = status.error_info
    return (
        status.operation in (Operation.ARCHIVING, *MAKES_ANEW)
        or status.conditions.archive_ready.is_unknown
        or (status.phase is Phase.ERROR and error is not None and is_answered(spec, error))
        or (status.phase is Phase.DELETED and spec.deleted_at is None)
    )


def needs_archives_look(workspace: Workspace) -> bool:
    """Whether this pass must look whether any archive is newer than the
    row's. That costs a list, so few are asked about it.
    """
    spec, status = workspace.spec, workspace.status
    error = status.error_info
    return status.operation in MAKES_ANEW or (
        status.phase is Phase.ERROR and error is not None and is_recovered(spec, error)
    )


def enter(status: Status, phase: Phase, now: datetime) -> Status:
    healthy = HEALTHY.following(status.conditions.healthy, now)
    if healthy is not status.conditions.healthy:
        status = replace(status, conditions=replace(status.conditions, healthy=healthy))
    return _at_phase(status, phase, now)


def enter_error(status: Status, error: ErrorInfo, now: datetime) -> Status:
    """Return the status in ERROR. It keeps the container and the volume, and
    counts with the error; its operation is not ended here.
    """
    unhealthy = Condition(Truth.FALSE, error.reason, error.message).following(status.conditions.healthy, now)
    previous = status.previous_status if status.phase is Phase.ERROR else observed_status(status)
    status = replace(
        status,
        conditions=replace(status.conditions, healthy=unhealthy),
        error_info=error,
        error_count=error.error_count,
        previous_status=previous,
    )
    return _at_phase(status, Phase.ERROR, now)


def _mark_dirty(status: Status) -> Status:
    """A container that is seen may write (contract 11). One that
    has lost its volume has nothing left to write to.
    """
    conditions = status.conditions
    may_write = conditions.container_ready.is_present and not conditions.volume_ready.is_absent
    if may_write and not status.home_ctx.dirty:
        return replace(status, home_ctx=replace(status.home_ctx, dirty=True))
    return status


def _moved_clock(stored: Status, now: datetime, rules: Rules, *, is_queued: bool) -> datetime | None:
    """Return the operation's start, moved on by the time in which
    nobody could look (contract 12), or it was not its turn.

    It is never ahead of now: a clock that was set back would make the operation's time too long.
    """
    if stored.op_started_at is None or stored.observed_at is None:
        return stored.op_started_at
    gap = now - stored.observed_at
    if not is_queued and not unknown_conditions(stored.conditions, stored.operation):
        gap -= rules.look_gap_max
    return min(stored.op_started_at + max(gap, timedelta(0)), now)


def _newer_archive(status: Status, observation: Observation) -> CommittedArchive | None:
    return (
        None if isinstance(observation.archives, Unobserved) else newer_archive(status, observation.archives)
    )


def _newer_archive_error(spec: Spec, status: Status, newer: CommittedArchive, now: datetime) -> ErrorInfo:
    at = newer.committed_at
    shown_at = "?" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
    message = Message(Code.NEWER_ARCHIVE, {"at": shown_at})
    return ErrorInfo(
        ErrorReason.DATA_LOST,
        message,
        status.operation,
        status.error_count + 1,
        error_time(spec, now),
        newest_facts(newer),
    )


def _was_lost(spec: Spec, stored: Status, status: Status) -> bool:
    """Whether a running workspace lost its instance though nobody asked for that."""
    return (
        stored.phase is Phase.RUNNING
        and stored.operation is Operation.NONE
        and spec.desired_state is DesiredState.RUNNING
        and resource_phase(status.conditions) is Phase.STANDBY
    )


def _crash_loop(spec: Spec, stored: Status, status: Status, now: datetime, rules: Rules) -> ErrorInfo:
    minutes = rules.restart_window.total_seconds() / 60
    message = Message(Code.DIED_AGAIN, {"restarts": rules.restarts_max, "minutes": f"{minutes:g}"})
    last = status.conditions.container_ready.message
    if last.facts:  # its platform tells what has ended it
        message = Message(Code.SEVERAL, {"messages": [message, last]})
    return ErrorInfo(
        ErrorReason.CRASH_LOOP,
        message,
        Operation.NONE,
        stored.error_count + 1,
        error_time(spec, now),
        start_facts(spec),
    )


def _is_to_be_forgotten(spec: Spec, stored: Status) -> bool:
    """Whether an admin gave up on its deletion, and it is not DELETED yet. Not if the end of the
    trash's time has met something to keep since then: that takes another request.
    """
    if spec.forgotten_at is None or stored.phase is Phase.DELETED:
        return False
    error = stored.error_info
    return (
        error is None or error.reason is not ErrorReason.DATA_LOST or error.occurred_at <= spec.forgotten_at
    )


def _at_phase(status: Status, phase: Phase, now: datetime) -> Status:
    if status.phase is phase:
        return status
    return replace(status, phase=phase, phase_changed_at=now)
