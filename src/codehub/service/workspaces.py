"""Requests on workspaces: who asks for what in, one ruling and the workspace after it out. The API, the dashboard and the proxy ask here.

Who may is decided once, by `core/permissions.py`, on the same row that is ruled on: under its lock where something is asked for.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from codehub.core.access import Person
from codehub.core.ceilings import Ceilings, refuse_one_more_workspace, refuse_spec
from codehub.core.history import Event, EventKind, is_to_be_carried_out, wished
from codehub.core.idle import idle_wish
from codehub.core.limits import Limits, refuse_one_more
from codehub.core.messages import Message
from codehub.core.operations import DesiredState
from codehub.core.permissions import Denial, Requester, deny
from codehub.core.requests import (
    Accepted,
    Refused,
    Ruling,
    Unchanged,
    recorded_wish,
    rule_change,
    rule_deletion,
    rule_forgetting,
    rule_keep_awake,
    rule_recovery,
    rule_undeletion,
    rule_wish,
)
from codehub.core.visit import Visitor
from codehub.core.workspace import RecoverChoice, Spec, Workspace, counts_as_running
from codehub.ports.store import ApiStore, Key, Ruled, RulingRecord, Running, UnknownWorkspace


class NotAllowed(Exception):
    """Whoever asks may not: it is somebody else's workspace, or for admins alone."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial)
        self.denial = denial


@dataclass(frozen=True, slots=True)
class By:
    """Who asks, and why: what decides whether they may, and what the history will say."""

    requester: Requester
    reason: Message
    request_id: str | None = None

    @property
    def actor(self) -> str:
        match self.requester:
            case Person(user=user):
                return user.username
            case Visitor(username=username):
                return username
            case str(name):
                return name


class WorkspaceService:
    def __init__(
        self, store: ApiStore, *, limits: Limits, trash_s: int | None, ceilings: Ceilings | None = None
    ) -> None:
        self._store = store
        self._limits = limits
        self._ceilings = ceilings or Ceilings()
        self._trash_s = trash_s

    async def find(self, person: Person, workspace_id: UUID, *, even_deleted: bool = False) -> Workspace:
        """Return a workspace that this person may see. Raises UnknownWorkspace, or NotAllowed."""
        row = await self._store.get(workspace_id)
        _check(deny(person, row, even_deleted=even_deleted))
        return row

    # Requests. Each raises UnknownWorkspace or NotAllowed, and changes nothing then.

    async def create(
        self, workspace_id: UUID, spec: Spec, by: By, key: Key | None = None
    ) -> Workspace | Refused:
        """Make a workspace with its wish. At a limit or above a ceiling nothing is made. Raises NameTaken, or KeyReused."""
        if (above := refuse_spec(self._ceilings, spec)) is not None:
            return above
        wish = recorded_wish(spec.storage_backend, spec.desired_state)
        spec = replace(spec, desired_state=wish, request_id=by.request_id)
        event = Event(EventKind.WISH, None, wish, by.actor, by.reason, by.request_id)
        admit = partial(_admit_new, limits=self._limits, ceilings=self._ceilings, wish=wish)
        return await self._store.create_counted(workspace_id, spec, [event], admit, key)

    async def change(
        self,
        workspace_id: UUID,
        changes: Callable[[Spec], Mapping[str, Any]],
        wanted: DesiredState | None,
        by: By,
        *,
        revisions: Collection[int] | None = None,
    ) -> Ruled:
        """Set new values and, maybe, a wish: all or nothing. Raises NameTaken, and what `changes` raises."""
        rule = partial(
            _rule_change, changes=changes, wanted=wanted, revisions=revisions, ceilings=self._ceilings
        )
        if wanted is DesiredState.RUNNING:
            return await self._amend_counted(workspace_id, by, rule)
        return await self._amend(workspace_id, by, rule)

    async def set_wish(self, workspace_id: UUID, wanted: DesiredState, by: By) -> Ruled:
        """Record a person's wish, within the limits."""
        rule = partial(rule_wish, wanted=wanted)
        if wanted is DesiredState.RUNNING:
            return await self._amend_counted(workspace_id, by, rule)
        return await self._amend(workspace_id, by, rule)

    async def wake(self, workspace_id: UUID, by: By) -> Ruled:
        """Wish that it runs because somebody visits it, within the limits. Nothing that is under way is given up or hurried."""
        rule = partial(rule_wish, wanted=DesiredState.RUNNING, is_automatic=True)
        return await self._amend_counted(workspace_id, by, rule)

    async def recover(
        self,
        workspace_id: UUID,
        by: By,
        *,
        accept_loss: bool = False,
        choice: RecoverChoice | None = None,
    ) -> Ruled:
        """Ask for a recovery, within the limits: a workspace that wishes to run will take a place again."""
        rule = partial(rule_recovery, accept_loss=accept_loss, choice=choice)
        return await self._amend_counted(workspace_id, by, rule)

    async def delete(self, workspace_id: UUID, by: By, *, purge: bool = False) -> Ruled:
        rule = partial(rule_deletion, trash_s=self._trash_s, purge=purge)
        return await self._amend(workspace_id, by, rule, even_deleted=purge)

    async def undelete(self, workspace_id: UUID, by: By) -> Ruled:
        """Undo a deletion, if its owner may have one more. Raises NameTaken when its name was given away."""
        rule = partial(_rule_undeletion, by=by, ceilings=self._ceilings)
        return await self._store.amend_counted(workspace_id, rule)

    async def forget(self, workspace_id: UUID, by: By) -> Ruled:
        """Give up on a deletion that a dead backend holds up. Only an admin may."""
        return await self._amend(workspace_id, by, rule_forgetting, admins_only=True)

    async def keep_awake(self, workspace_id: UUID, by: By, *, seconds: int) -> Ruled:
        return await self._amend(workspace_id, by, partial(rule_keep_awake, seconds=seconds))

    async def let_sleep(self, workspace_id: UUID, by: By) -> Ruled:
        """Wish what its time to live asks for, if it is still idle now that the row is locked."""
        return await self._amend(workspace_id, by, _rule_idle)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        """Note when workspaces were last used, many at once."""
        if accesses:
            await self._store.touch(accesses)

    async def _amend(
        self,
        workspace_id: UUID,
        by: By,
        rule: "Rule",
        *,
        even_deleted: bool = False,
        admins_only: bool = False,
    ) -> Ruled:
        permitted = partial(
            _rule_permitted, rule=rule, by=by, even_deleted=even_deleted, admins_only=admins_only
        )
        return await self._store.amend(workspace_id, permitted)

    async def _amend_counted(self, workspace_id: UUID, by: By, rule: "Rule") -> Ruled:
        within_limits = partial(_rule_within_limits, rule=rule, by=by, limits=self._limits)
        return await self._store.amend_counted(workspace_id, within_limits)


# Rules: the store applies them to the row that it has locked. They are functions of values, and ask nobody anything.


class Rule(Protocol):
    """A request of the core's, but for the workspace and the time."""

    def __call__(self, workspace: Workspace, /, *, now: datetime) -> Ruling: ...


def _rule_permitted(
    row: Workspace, now: datetime, *, rule: Rule, by: By, even_deleted: bool, admins_only: bool
) -> RulingRecord:
    _check(deny(by.requester, row, even_deleted=even_deleted, admins_only=admins_only))
    return _recorded(row, rule(row, now=now), by)


def _rule_within_limits(
    row: Workspace, now: datetime, others: Running, *, rule: Rule, by: By, limits: Limits
) -> RulingRecord:
    """Rule, and refuse what would take a place beyond the limits."""
    _check(deny(by.requester, row))
    ruling = rule(row, now=now)
    takes_a_place = isinstance(ruling, Accepted) and ruling.spec.desired_state is DesiredState.RUNNING
    if takes_a_place and not counts_as_running(row):
        ruling = refuse_one_more(limits, others.of_owner, others.total) or ruling
    return _recorded(row, ruling, by)


def _rule_undeletion(
    row: Workspace, now: datetime, others: Running, *, by: By, ceilings: Ceilings
) -> RulingRecord:
    _check(deny(by.requester, row, even_deleted=True))
    ruling = rule_undeletion(row, now)
    if isinstance(ruling, Accepted):
        ruling = refuse_one_more_workspace(ceilings, others.owned) or ruling
    return _recorded(row, ruling, by)


def _rule_change(
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


def _rule_idle(row: Workspace, /, *, now: datetime) -> Ruling:
    wish = idle_wish(row, now)
    return Unchanged() if wish is None else rule_wish(row, wish, now, is_automatic=True)


def _admit_new(others: Running, *, limits: Limits, ceilings: Ceilings, wish: DesiredState) -> Refused | None:
    above = refuse_one_more_workspace(ceilings, others.owned)
    if above is None and wish is DesiredState.RUNNING:
        return refuse_one_more(limits, others.of_owner, others.total)
    return above


def _check(denial: Denial | None) -> None:
    if denial is Denial.NOT_FOUND:
        raise UnknownWorkspace(denial)
    if denial is not None:
        raise NotAllowed(denial)


def _recorded(row: Workspace, ruling: Ruling, by: By) -> RulingRecord:
    if not isinstance(ruling, Accepted):
        return RulingRecord(ruling)
    if is_to_be_carried_out(row.spec, ruling.spec):
        ruling = Accepted(replace(ruling.spec, request_id=by.request_id))
    events = wished(row.spec, ruling.spec, actor=by.actor, reason=by.reason, request_id=by.request_id)
    return RulingRecord(ruling, tuple(events))
