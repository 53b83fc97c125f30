"""Amendments: a workspace, who asks for what, and what else
runs in; a ruling with its lines of the history out.

The store applies these to the row that it has locked. They are functions of values, and ask nobody anything.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from codehub.core.access import Person
from codehub.core.ceilings import Ceilings, refuse_one_more_workspace, refuse_spec
from codehub.core.history import Event, events_of_request, is_to_be_carried_out
from codehub.core.idle import idle_wish
from codehub.core.limits import Limits, refuse_one_more
from codehub.core.messages import Message
from codehub.core.operations import DesiredState, Phase
from codehub.core.permissions import Denial, Requester, deny
from codehub.core.requests import (
    Accepted,
    Refused,
    Ruling,
    Unchanged,
    rule_change,
    rule_undeletion,
    rule_wish,
)
from codehub.core.visit import Visitor
from codehub.core.workspace import Spec, Workspace, counts_as_running


@dataclass(frozen=True, slots=True)
class By:
    """Who asks, and why: what decides whether they may, and what the history will say."""

    requester: Requester
    reason: Message
    request_id: str | None = None

    @property
    def actor(self) -> str:
        if isinstance(self.requester, Person):
            return self.requester.user.username
        return self.requester.username if isinstance(self.requester, Visitor) else self.requester


@dataclass(frozen=True, slots=True)
class RulingRecord:
    """A ruling made under the row's lock, with the events to record if it is accepted."""

    ruling: Ruling
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """What takes a place, beside the workspace that is asked about:
    its owner's by id, name and phase, and how many in all.
    """

    of_owner: Sequence[tuple[UUID, str, Phase]]
    total: int
    owned: int = 0
    """How many the owner has, running or not, that nobody deleted."""


class Denied(Exception):
    """They may not ask: nothing is ruled, and nothing changes."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial)
        self.denial = denial


class Rule(Protocol):
    """A request, but for the workspace and the time."""

    def __call__(self, workspace: Workspace, /, *, now: datetime) -> Ruling: ...


def amend(
    row: Workspace,
    now: datetime,
    *,
    rule: Rule,
    by: By,
    even_deleted: bool = False,
    admins_only: bool = False,
) -> RulingRecord:
    """Rule. Raises Denied."""
    _require(deny(by.requester, row, even_deleted=even_deleted, admins_only=admins_only))
    return _record(row, rule(row, now=now), by)


def amend_within_limits(
    row: Workspace, now: datetime, others: Running, *, rule: Rule, by: By, limits: Limits
) -> RulingRecord:
    """Rule, and refuse what would take a place beyond the limits. Raises Denied."""
    _require(deny(by.requester, row))
    ruling = rule(row, now=now)
    takes_a_place = isinstance(ruling, Accepted) and ruling.spec.desired_state is DesiredState.RUNNING
    if takes_a_place and not counts_as_running(row):
        ruling = refuse_one_more(limits, others.of_owner, others.total) or ruling
    return _record(row, ruling, by)


def undelete_within_ceilings(
    row: Workspace, now: datetime, others: Running, *, by: By, ceilings: Ceilings
) -> RulingRecord:
    """Rule on the end of a deletion, and refuse one workspace too many. Raises Denied."""
    _require(deny(by.requester, row, even_deleted=True))
    ruling = rule_undeletion(row, now)
    if isinstance(ruling, Accepted):
        ruling = refuse_one_more_workspace(ceilings, others.owned) or ruling
    return _record(row, ruling, by)


def change_within_ceilings(
    row: Workspace,
    /,
    *,
    now: datetime,
    changes: Callable[[Spec], Mapping[str, Any]],
    wanted: DesiredState | None,
    revisions: Collection[int] | None,
    ceilings: Ceilings,
) -> Ruling:
    ruling = rule_change(row, changes(row.spec), wanted, now=now, revisions=revisions)
    if isinstance(ruling, Accepted):
        return refuse_spec(ceilings, ruling.spec, row.spec) or ruling
    return ruling


def let_sleep(row: Workspace, /, *, now: datetime) -> Ruling:
    """Wish what its time to live asks for, if it is idle."""
    wish = idle_wish(row, now)
    return Unchanged() if wish is None else rule_wish(row, wish, now, is_automatic=True)


def admit_new(others: Running, *, limits: Limits, ceilings: Ceilings, wish: DesiredState) -> Refused | None:
    """Refuse one workspace too many, or one that would take a place beyond the limits."""
    above = refuse_one_more_workspace(ceilings, others.owned)
    if above is None and wish is DesiredState.RUNNING:
        return refuse_one_more(limits, others.of_owner, others.total)
    return above


def _require(denial: Denial | None) -> None:
    if denial is not None:
        raise Denied(denial)


def _record(row: Workspace, ruling: Ruling, by: By) -> RulingRecord:
    if not isinstance(ruling, Accepted):
        return RulingRecord(ruling)
    if is_to_be_carried_out(row.spec, ruling.spec):
        ruling = Accepted(replace(ruling.spec, request_id=by.request_id))
    events = events_of_request(
        row.spec, ruling.spec, actor=by.actor, reason=by.reason, request_id=by.request_id
    )
    return RulingRecord(ruling, tuple(events))
