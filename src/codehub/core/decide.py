"""Decide: all that is known of one workspace in, what becomes
of it out. The one entry of a pass into the core.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol
from uuid import UUID

from codehub.core.ceilings import Ceilings, describe_clamp
from codehub.core.history import Event, events_of_pass
from codehub.core.judge import judge
from codehub.core.messages import Message, bare_message
from codehub.core.observation import Observation
from codehub.core.operations import Operation, Phase
from codehub.core.plan import (
    Act,
    Begin,
    Complete,
    EndInError,
    Forget,
    Plan,
    Rest,
    Resume,
    Wait,
    choose_next_operation,
    plan,
)
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.transitions import Outcome, apply_outcome, apply_plan, is_worth_writing
from codehub.core.workspace import Status, Workspace, says_the_same


class NextLook(Enum):
    """When to look at it again."""

    EVERY_PASS = "every_pass"  # noqa: S105  # no password
    """Something is under way, or a time will come: a pass finds out."""
    ON_CHANGE = "on_change"
    """Not before its row changes, or what is seen of it."""


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A step whose actuator has returned, under the op_id that it was begun with."""

    act: Act
    op_id: UUID
    outcome: Outcome


class Chance(Protocol):
    """What is left to chance, given in from outside. Each is read at
    most once in a decision, so that it may be drawn then.
    """

    @property
    def op_id(self) -> UUID:
        """A fresh one, used if an operation begins or is taken over."""

    @property
    def jitter(self) -> float:
        """In [0, 1). Spreads the pause after a failed step."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One workspace as a pass meets it."""

    workspace: Workspace
    observation: Observation
    now: datetime
    chance: Chance
    is_mine: bool = False
    """Whether this process issued the op_id that the row carries."""
    is_acting: bool = False
    """Whether a step of it is in flight: begun, or waiting for its turn, and without an outcome."""
    is_queued: bool = False
    """Whether its step still waits for a place to be done in: its operation's clock stands still."""
    is_starting_up: bool = False
    """Whether this process has not looked at everybody yet: losses found then are no crashes."""
    finished: FinishedStep | None = None
    """The step whose outcome was not recorded yet."""
    ceilings: Ceilings = field(default_factory=Ceilings)
    """What a start gives at most."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one workspace."""

    situation: Situation
    plan: Plan
    status: Status
    """What to record."""
    is_worth_writing: bool
    """Whether anything has changed that is to be recorded."""
    records_outcome: bool
    """Whether the finished step's outcome is in the status. Then it is not done again in this pass."""
    next_look: NextLook
    is_urgent: bool
    """Whether a pass should look at it at once: something was recorded, and there is more to do."""

    @property
    def workspace_id(self) -> UUID:
        return self.situation.workspace.id

    @property
    def depends_on_request(self) -> bool:
        """Whether the write must be refused if the request has changed since it was read.

        What begins, or is tried again, can't be stopped half way; what an admin gave up on may be undeleted
        by now; and an error that is dropped for an older choice leaves the newer one nothing to answer.
        """
        before, after = self.situation.workspace.status, self.status
        is_gone = after.phase is Phase.DELETED and before.phase is not Phase.DELETED
        is_answered = before.phase is Phase.ERROR and after.error_info != before.error_info
        return isinstance(self.plan, Begin | Resume) or is_gone or is_answered

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is written but when it was looked at."""
        return says_the_same(self.situation.workspace.status, self.status)

    def events(self, actor: str) -> Iterator[Event]:
        """Yield the lines of the history."""
        row = self.situation.workspace
        return events_of_pass(
            row.status,
            self.status,
            actor=actor,
            reason=self._less_than_asked or bare_message(self.plan.why),
            request_id=row.spec.request_id,
        )

    @property
    def _less_than_asked(self) -> Message | None:
        """Return with what it starts, if its settings ask for more than an operator allows by now."""
        is_start = isinstance(self.plan, Begin) and self.plan.operation is Operation.STARTING
        if not is_start:
            return None
        return describe_clamp(self.situation.ceilings, self.situation.workspace.spec.resources)


def decide(situation: Situation, rules: Rules = DEFAULT_RULES) -> Decision:
    """Judge, plan, and work out what to record and when to look again."""
    row, observation, now = situation.workspace, situation.observation, situation.now
    verdict = judge(
        row,
        observation,
        now,
        starting_up=situation.is_starting_up,
        is_queued=situation.is_queued,
        rules=rules,
    )
    planned = plan(
        row.spec,
        verdict,
        observation,
        now,
        is_mine=situation.is_mine,
        is_acting=situation.is_acting,
        rules=rules,
    )
    finished = situation.finished
    records_outcome = finished is not None and _is_of(finished, planned, row.status)
    if finished is not None and records_outcome:
        status = apply_outcome(
            verdict.status,
            finished.act,
            finished.op_id,
            finished.outcome,
            now,
            spec=row.spec,
            jitter=situation.chance.jitter,
            rules=rules,
        )
    else:
        status = apply_plan(row.spec, verdict.status, planned, now, op_id=situation.chance.op_id)
    return Decision(
        situation,
        planned,
        status,
        is_worth_writing=is_worth_writing(row.status, status, rules=rules),
        records_outcome=records_outcome,
        next_look=_next_look(planned),
        is_urgent=_has_moved(row.status, status, planned) and not _has_arrived(row, status, planned, now),
    )


def _is_of(finished: FinishedStep, planned: Plan, status: Status) -> bool:
    """Whether it is the very step that is planned, of the operation that the row carries."""
    return finished.act == planned and finished.op_id == status.op_id


def _next_look(planned: Plan) -> NextLook:
    match planned:
        case Rest() | EndInError() | Wait(until=None) | Forget(until=None):
            return NextLook.ON_CHANGE
        case _:
            return NextLook.EVERY_PASS


def _has_moved(before: Status, after: Status, planned: Plan) -> bool:
    """Whether something new was recorded, so that the next pass should follow at once."""
    return (
        before.op_id != after.op_id
        or before.operation is not after.operation
        or before.home_ctx != after.home_ctx
        or before.archive_key != after.archive_key
        or isinstance(planned, Resume)
    )


def _has_arrived(row: Workspace, status: Status, planned: Plan, now: datetime) -> bool:
    """Whether an operation has ended where the wish is: then the next pass would find nothing to do."""
    return isinstance(planned, Complete) and not isinstance(
        choose_next_operation(row.spec, status, now), Begin
    )
