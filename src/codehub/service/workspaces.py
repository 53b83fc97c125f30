"""Requests on workspaces: who asks for what in, one ruling and the workspace
after it out. The API, the dashboard and the proxy ask here.

Who may is decided once, by `core/permissions.py`, on the same row that
is ruled on: under its lock where something is asked for.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from codehub.core.access import Person
from codehub.core.amendments import (
    By,
    Denied,
    Rule,
    admit_new,
    amend,
    amend_within_limits,
    change_within_ceilings,
    let_sleep,
    undelete_within_ceilings,
)
from codehub.core.ceilings import Ceilings, refuse_spec
from codehub.core.history import Event, EventKind
from codehub.core.limits import Limits
from codehub.core.operations import DesiredState
from codehub.core.permissions import Denial, deny
from codehub.core.requests import (
    Refused,
    recorded_wish,
    rule_deletion,
    rule_forgetting,
    rule_keep_awake,
    rule_recovery,
    rule_wish,
)
from codehub.core.workspace import RecoverChoice, Spec, Workspace
from codehub.ports.store import ApiStore, Key, Ruled, UnknownWorkspace


class NotAllowed(Exception):
    """Whoever asks may not: it is somebody else's workspace, or for admins alone."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial)
        self.denial = denial


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
        if (denial := deny(person, row, even_deleted=even_deleted)) is not None:
            raise _error(denial)
        return row

    # Requests. Each raises UnknownWorkspace or NotAllowed, and changes nothing then.

    async def create(
        self, workspace_id: UUID, spec: Spec, by: By, key: Key | None = None
    ) -> Workspace | Refused:
        """Make a workspace with its wish. At a limit or above a
        ceiling nothing is made. Raises NameTaken, or KeyReused.
        """
        if (above := refuse_spec(self._ceilings, spec)) is not None:
            return above
        wish = recorded_wish(spec.storage_backend, spec.desired_state)
        spec = replace(spec, desired_state=wish, request_id=by.request_id)
        event = Event(EventKind.WISH, None, wish, by.actor, by.reason, by.request_id)
        admit = partial(admit_new, limits=self._limits, ceilings=self._ceilings, wish=wish)
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
            change_within_ceilings,
            changes=changes,
            wanted=wanted,
            revisions=revisions,
            ceilings=self._ceilings,
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
        """Wish that it runs because somebody visits it, within the
        limits. Nothing that is under way is given up or hurried.
        """
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
        amendment = partial(undelete_within_ceilings, by=by, ceilings=self._ceilings)
        with denials():
            return await self._store.amend_counted(workspace_id, amendment)

    async def forget(self, workspace_id: UUID, by: By) -> Ruled:
        """Give up on a deletion that a dead backend holds up. Only an admin may."""
        return await self._amend(workspace_id, by, rule_forgetting, admins_only=True)

    async def keep_awake(self, workspace_id: UUID, by: By, *, seconds: int) -> Ruled:
        return await self._amend(workspace_id, by, partial(rule_keep_awake, seconds=seconds))

    async def let_sleep(self, workspace_id: UUID, by: By) -> Ruled:
        """Wish what its time to live asks for, if it is still idle now that the row is locked."""
        return await self._amend(workspace_id, by, let_sleep)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        """Note when workspaces were last used, many at once."""
        if accesses:
            await self._store.touch(accesses)

    async def _amend(
        self,
        workspace_id: UUID,
        by: By,
        rule: Rule,
        *,
        even_deleted: bool = False,
        admins_only: bool = False,
    ) -> Ruled:
        amendment = partial(amend, rule=rule, by=by, even_deleted=even_deleted, admins_only=admins_only)
        with denials():
            return await self._store.amend(workspace_id, amendment)

    async def _amend_counted(self, workspace_id: UUID, by: By, rule: Rule) -> Ruled:
        amendment = partial(amend_within_limits, rule=rule, by=by, limits=self._limits)
        with denials():
            return await self._store.amend_counted(workspace_id, amendment)


@contextmanager
def denials() -> Iterator[None]:
    """Raise what a denial means to whoever asks."""
    try:
        yield
    except Denied as denied:
        raise _error(denied.denial) from None


def _error(denial: Denial) -> UnknownWorkspace | NotAllowed:
    return UnknownWorkspace(denial) if denial is Denial.NOT_FOUND else NotAllowed(denial)
