"""The alarm: what wakes the controller before its next tick. Any of it may be missing; the tick comes
anyway.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Wakeup:
    """Whom to look at. `everyone`: it may be anybody."""

    workspaces: frozenset[UUID]
    everyone: bool


class Wakeups:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._workspaces: set[UUID] = set()
        self._everyone = False

    def ring(self, workspaces: Collection[UUID] = (), *, everyone: bool = False) -> None:
        """Ask for a look at these, or at everyone. Whoever's row has changed is looked at anyway: the rows
        themselves tell.
        """
        self._everyone = self._everyone or everyone
        self._workspaces.update(workspaces)
        self._event.set()

    async def wait(self, seconds: float) -> Wakeup:
        """Return when it rings. After that long it rings by itself, for everyone;
        at once if that time is over already, whatever else rings.
        """
        if seconds <= 0:
            self.ring(everyone=True)
        late = asyncio.get_running_loop().call_later(seconds, partial(self.ring, everyone=True))
        try:
            await self._event.wait()
        finally:
            late.cancel()
        wakeup = Wakeup(frozenset(self._workspaces), self._everyone)
        self._event.clear()
        self._workspaces.clear()
        self._everyone = False
        return wakeup
