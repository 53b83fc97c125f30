"""Membership: says again and again that this controller lives,
knows who else does, and so which workspaces are its own.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import structlog

from codehub.core.membership import Member, Members, handler_of
from codehub.core.workspace import Workspace
from codehub.ports.store import ControllerStore, StoreUnavailable
from codehub.ports.system import Clock

log = structlog.get_logger()

# Whoever was not heard of for so long is dead: with a beat before and
# one after, a take-over comes within 15 s (spec §5).
ALIVE_S = 9.0
BEAT_S = 3.0
_DOUBT_S_MIN = 0.5


class Membership:
    """Until the first beat this controller believes that it is alone: then everything is its own."""

    def __init__(
        self, me: Member, store: ControllerStore, clock: Clock, *, changed: Callable[[], None]
    ) -> None:
        self.me = me
        self._store = store
        self._clock = clock
        self._changed = changed
        self._members: Members = {}
        self._handled = dict[UUID, bool]()
        self._looked_at: datetime | None = None
        self._is_due = asyncio.Event()
        self._doubts = False
        self._has_left = False
        # A beat that is under way must not come after the end.
        self._telling = asyncio.Lock()

    @property
    def current(self) -> Members:
        return self._members

    @property
    def others(self) -> list[Member]:
        return [member for member in self._members.values() if member.id != self.me.id]

    async def run(self) -> None:
        """Beat until cancelled. While the store is away the last view stays: compare-and-swap keeps it
        right.
        """
        while True:
            late = asyncio.get_running_loop().call_later(BEAT_S, self._is_due.set)
            try:
                await self._is_due.wait()
            finally:
                late.cancel()
            if self._doubts:
                await self._clock.sleep(_DOUBT_S_MIN)  # doubts come in crowds
            self._is_due.clear()
            self._doubts = False
            try:
                await self.beat()
            except StoreUnavailable as error:
                log.warning("beat_failed", reason=str(error))
            except Exception:  # whoever beats no more is taken for dead, and goes on all the same
                log.exception("beat_failed_unexpectedly")

    async def beat(self) -> None:
        async with self._telling:
            if self._has_left:
                return
            members = await self._store.beat(self.me, alive_s=ALIVE_S, looked_at=self._looked_at)
        if members != self._members:
            self._members = members
            self._handled.clear()
            self._looked_at = None
            self._changed()
            log.info("members", members=len(members))

    def note_pass(self, began_at: datetime, members: Members) -> None:
        """Let the next beat say that all of this controller's own was looked
        at, unless its own is not what it was among these members.
        """
        if members is self._members:
            self._looked_at = began_at

    async def leave(self) -> None:
        """Go: nothing is its own any more, and the others need not wait until this controller is missed."""
        self._has_left = True
        async with self._telling:
            await self._store.leave(self.me.id)

    def doubt(self) -> None:
        """Look again soon: somebody else's workspace was heard of, so perhaps somebody has gone."""
        self._doubts = True
        self._is_due.set()

    def handles(self, workspace: Workspace) -> bool:
        if self._has_left:
            return False
        if len(self._members) <= 1:
            return True
        handled = self._handled.get(workspace.id)
        if handled is None:
            handled = handler_of(workspace, self._members) in (self.me.id, None)
            self._handled[workspace.id] = handled
        return handled
