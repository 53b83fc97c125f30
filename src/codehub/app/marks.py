"""The marks by which codehub knows where homes are: whether each is there, what lies where one is missing, and making it again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codehub.app.archives import holds_home
from codehub.app.database import database_beside, stores
from codehub.app.platform import Place, platform
from codehub.core.workspace import StorageBackend, Workspace
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable, MarkMissing
from codehub.ports.system import Clock
from codehub.settings import Settings
from codehub.web.dependencies import Check, NotReady

_FRESH_S = 5.0
_LOOK_S_MAX = 3.0


@dataclass(frozen=True, slots=True)
class LostMark:
    """A place without its mark: what the database expects there, and how much of that is."""

    backend: StorageBackend
    mark: str
    present: tuple[str, ...]
    """Workspaces whose home is there."""
    absent: tuple[str, ...]
    """Workspaces whose home is not."""

    @property
    def description(self) -> str:
        """Say what is missing, and what making it again would mean."""
        lines = [f"{self.mark} is missing: it marks where this installation's homes are.", ""]
        if self.present or self.absent:
            homes = len(self.present) + len(self.absent)
            lines.append(f"The database knows of {homes} homes there. Here now: {len(self.present)}.")
        lines += [f"  not here: {name}" for name in self.absent]
        return "\n".join(
            [
                *lines,
                "If this is another engine or directory, or its disk is not mounted, correct that instead.",
                "If it is the right one, codehub makes the mark again, and nothing else: it goes on with the homes that are here, and says of",
                "those that are not that they are lost. Nothing is deleted.",
            ]
        )


def mark_checks(places: Mapping[StorageBackend, Place], clock: Clock) -> Mapping[str, Check]:
    """Return a check of each place's mark. Other outages are not its matter."""
    return {name: _MarkCheck(place, clock) for name, place in places.items()}


async def adopt(settings: Settings, system: System, *, is_sure: bool) -> Sequence[LostMark]:
    """Return the places without their mark, beside a codehub that may run; made again, if `is_sure`."""
    async with (
        database_beside(settings, system) as connect_args,
        stores(connect_args, system, settings.redis_url) as stored,
        platform(settings, stored, system, stops=False) as found,
    ):
        rows = (await stored.controller.changes(None)).workspaces
        lost = []
        for backend, place in found.places.items():
            served = {name for name, one in found.backends.storage.items() if one is place}
            expected = [row for row in rows if row.spec.storage_backend in served and holds_home(row)]
            if (one := await _lost(backend, place, expected)) is not None:
                lost.append(one)
        for one in lost if is_sure else ():
            await found.places[one.backend].prepare()
        return lost


async def _lost(backend: StorageBackend, place: Place, expected: Sequence[Workspace]) -> LostMark | None:
    try:
        await place.list_volumes()
    except MarkMissing as missing:
        there = await place.list_unmarked()
        present = tuple(_named(row) for row in expected if row.id in there)
        absent = tuple(_named(row) for row in expected if row.id not in there)
        return LostMark(backend, missing.mark, present, absent)
    return None


def _named(row: Workspace) -> str:
    return f"{row.spec.name} ({row.id})"


class _MarkCheck:
    """Looks once in a few seconds, however many ask: strangers may."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._turn = asyncio.Lock()
        self._looked_at: float | None = None
        self._missing: MarkMissing | None = None

    async def __call__(self) -> None:
        async with self._turn:
            if self._looked_at is None or self._clock.monotonic() - self._looked_at >= _FRESH_S:
                self._missing = await self._look()
                self._looked_at = self._clock.monotonic()
        if self._missing is not None:
            raise NotReady(str(self._missing))

    async def _look(self) -> MarkMissing | None:
        try:
            async with asyncio.timeout(_LOOK_S_MAX):
                await self._place.list_volumes()
        except MarkMissing as missing:
            return missing
        except (ActionFailed, BackendUnreachable, TimeoutError):
            return None
        return None
