"""Requests on workspaces: who asks for what in, one ruling and the workspace after it out. Every face goes through here."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.core.ceilings import Ceilings, refuse_one_more_workspace, refuse_spec
from codehub.core.history import Event, EventKind, is_to_be_carried_out, wished
from codehub.core.idle import idle_wish
from codehub.core.limits import Limits, refuse_one_more
from codehub.core.operations import DesiredState
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
from codehub.core.workspace import RecoverChoice, Spec, Workspace, counts_as_running
from codehub.ports.store import ApiStore, Judgement, Key, Ruled, Running


@dataclass(frozen=True, slots=True)
class By:
    """Who asks, and why: what the history will say."""

    actor: str
    reason: str
    request_id: str | None = None


class WorkspaceService:
    def __init__(
        self, store: ApiStore, *, limits: Limits, trash_s: int, ceilings: Ceilings | None = None
    ) -> None:
        self._store = store
        self._limits = limits
        self._ceilings = ceilings or Ceilings()
        self._trash_s = trash_s

    async def create(
        self, workspace_id: UUID, spec: Spec, by: By, key: Key | None = None
    ) -> Workspace | Refused:
        """Make a workspace with its wish. At a limit or above a ceiling nothing is made. Raises NameTaken, or KeyReused."""
        if (above := refuse_spec(self._ceilings, spec)) is not None:
            return above
        wish = recorded_wish(spec.storage_backend, spec.desired_state)
        spec = replace(spec, desired_state=wish, request_id=by.request_id)
        made = Event(EventKind.WISH, None, wish, by.actor, by.reason, by.request_id)

        def admit(others: Running) -> Refused | None:
            above = refuse_one_more_workspace(self._ceilings, others.owned)
            return self._admit(others) if above is None and wish is DesiredState.RUNNING else above

        return await self._store.create_counted(workspace_id, spec, [made], admit, key)

    async def change(
        self,
        workspace_id: UUID,
        changes: Callable[[Spec], Mapping[str, Any]],
        wanted: DesiredState | None,
        by: By,
        *,
        revisions: Collection[int] | None = None,
    ) -> Ruled:
        """Set new values and, maybe, a wish: all or nothing. Raises NameTaken."""

        def rule(row: Workspace, now: datetime) -> Ruling:
            ruling = rule_change(row, changes(row.spec), wanted, now=now, revisions=revisions)
            if isinstance(ruling, Accepted):
                return refuse_spec(self._ceilings, ruling.spec, row.spec) or ruling
            return ruling

        if wanted is DesiredState.RUNNING:
            return await self._amend_counted(workspace_id, by, rule)
        return await self._amend(workspace_id, by, rule)

    async def set_wish(self, workspace_id: UUID, wanted: DesiredState, by: By) -> Ruled:
        """Record a person's wish, within the limits."""
        if wanted is not DesiredState.RUNNING:
            return await self._amend(workspace_id, by, lambda row, now: rule_wish(row, wanted, now))
        return await self._amend_counted(workspace_id, by, lambda row, now: rule_wish(row, wanted, now))

    async def wake(self, workspace_id: UUID, by: By) -> Ruled:
        """Wish that it runs because somebody visits it, within the limits. Nothing that is under way is given up or hurried by that."""
        return await self._amend_counted(
            workspace_id,
            by,
            lambda row, now: rule_wish(row, DesiredState.RUNNING, now, is_automatic=True),
        )

    async def recover(
        self,
        workspace_id: UUID,
        by: By,
        *,
        accept_loss: bool = False,
        choice: RecoverChoice | None = None,
    ) -> Ruled:
        """Ask for a recovery, within the limits: a workspace that wishes to run will take a place again."""
        return await self._amend_counted(
            workspace_id,
            by,
            lambda row, now: rule_recovery(row, now, accept_loss=accept_loss, choice=choice),
        )

    async def delete(self, workspace_id: UUID, by: By, *, purge: bool = False) -> Ruled:
        return await self._amend(
            workspace_id, by, lambda row, now: rule_deletion(row, now, trash_s=self._trash_s, purge=purge)
        )

    async def undelete(self, workspace_id: UUID, by: By) -> Ruled:
        """Undo a deletion, if its owner may have one more. Raises NameTaken when its name was given away."""

        def judge(row: Workspace, now: datetime, others: Running) -> Judgement:
            ruling = rule_undeletion(row, now)
            if isinstance(ruling, Accepted):
                ruling = refuse_one_more_workspace(self._ceilings, others.owned) or ruling
            return _judgement(row, ruling, by)

        return await self._store.amend_counted(workspace_id, judge)

    async def forget(self, workspace_id: UUID, by: By) -> Ruled:
        """Give up on a deletion that a dead backend holds up. Whether whoever asks may is for the face to say: only an admin may."""
        return await self._amend(workspace_id, by, rule_forgetting)

    async def keep_awake(self, workspace_id: UUID, by: By, *, seconds: int) -> Ruled:
        return await self._amend(
            workspace_id, by, lambda row, now: rule_keep_awake(row, now, seconds=seconds)
        )

    async def let_sleep(self, workspace_id: UUID, by: By) -> Ruled:
        """Wish what its time to live asks for, if it is still idle now that the row is locked."""

        def rule(row: Workspace, now: datetime) -> Ruling:
            wish = idle_wish(row, now)
            return Unchanged() if wish is None else rule_wish(row, wish, now, is_automatic=True)

        return await self._amend(workspace_id, by, rule)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        """Note when workspaces were last used, many at once."""
        if accesses:
            await self._store.touch(accesses)

    async def _amend(
        self, workspace_id: UUID, by: By, rule: Callable[[Workspace, datetime], Ruling]
    ) -> Ruled:
        return await self._store.amend(workspace_id, lambda row, now: _judgement(row, rule(row, now), by))

    async def _amend_counted(
        self, workspace_id: UUID, by: By, rule: Callable[[Workspace, datetime], Ruling]
    ) -> Ruled:
        def judge(row: Workspace, now: datetime, running: Running) -> Judgement:
            ruling = rule(row, now)
            takes_a_place = isinstance(ruling, Accepted) and ruling.spec.desired_state is DesiredState.RUNNING
            if takes_a_place and not counts_as_running(row) and (refused := self._admit(running)) is not None:
                ruling = refused
            return _judgement(row, ruling, by)

        return await self._store.amend_counted(workspace_id, judge)

    def _admit(self, running: Running) -> Refused | None:
        return refuse_one_more(self._limits, running.of_owner, running.total)


def _judgement(row: Workspace, ruling: Ruling, by: By) -> Judgement:
    if not isinstance(ruling, Accepted):
        return Judgement(ruling)
    if is_to_be_carried_out(row.spec, ruling.spec):
        ruling = Accepted(replace(ruling.spec, request_id=by.request_id))
    events = wished(row.spec, ruling.spec, actor=by.actor, reason=by.reason, request_id=by.request_id)
    return Judgement(ruling, tuple(events))
