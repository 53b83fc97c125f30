"""Leaving in order: SIGTERM goes in; then this process is not ready, takes nobody new, and ends what it has
begun, in that order and in bounded time.
"""

import asyncio
from dataclasses import dataclass, field

from codehub.settings import Settings
from codehub.web.dependencies import NotReady


@dataclass(frozen=True, slots=True)
class Drain:
    """Whether this process was told to leave, and how long it may take."""

    notice_s: float
    """For so long it takes newcomers all the same: balancers have to hear of it first."""
    rest_s: float
    """For so long what is under way may then go on."""
    _serves: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def allow(self) -> None:
        """Note that this process serves: until then there is nothing to end in order."""
        self._serves.set()

    @property
    def may_begin(self) -> bool:
        return self._serves.is_set() and not self.has_begun

    def begin(self) -> None:
        self._asked.set()

    @property
    def has_begun(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        """Return when this process is to leave."""
        await self._asked.wait()

    async def check(self) -> None:
        if self.has_begun:
            raise NotReady("this process is about to end")


def drain_of(settings: Settings) -> Drain:
    return Drain(settings.drain_notice_seconds, settings.drain_seconds)
