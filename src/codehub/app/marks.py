"""The marks by which codehub recognises its home stores: checks them, and makes a lost one again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codehub.app.archives import holds_home
from codehub.app.database import database_beside, stores
from codehub.app.language import say
from codehub.app.open_platform import open_platform
from codehub.app.platform import HomeStore
from codehub.core.workspace import StorageBackend, Workspace
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable, MarkMissing
from codehub.ports.system import Clock
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.dependencies import Check, NotReady
from codehub.web.domain_text import failure_text, message_text

_FRESH_S = 5.0
_LOOK_S_MAX = 3.0


@dataclass(frozen=True, slots=True)
class LostMark:
    """A home store without its mark: which homes the database expects there, and which are there."""

    backend: StorageBackend
    mark: str
    present: tuple[str, ...]
    """Workspaces whose home is there."""
    absent: tuple[str, ...]
    """Workspaces whose home is not."""

    @property
    def description(self) -> str:
        """What is missing, and the effect of making it again."""
        lines = [say("mark.missing", mark=self.mark), ""]
        if self.present or self.absent:
            homes = len(self.present) + len(self.absent)
            lines.append(say("mark.homes", known=homes, present=len(self.present)))
        lines += [say("mark.absent", name=name) for name in self.absent]
        return "\n".join([*lines, say("mark.effect")])


def mark_checks(home_stores: Mapping[StorageBackend, HomeStore], clock: Clock) -> Mapping[str, Check]:
    """Return a check of each home store's mark. It ignores other outages."""
    return {name: _MarkCheck(home_store, clock) for name, home_store in home_stores.items()}


async def adopt(settings: Settings, system: System, *, is_sure: bool) -> Sequence[LostMark]:
    """Return the home stores without their mark, and make them again if `is_sure`.

    Beside a running codehub.
    """
    async with (
        database_beside(settings, system) as connect_args,
        stores(connect_args, system, settings.redis_url) as all_stores,
        open_platform(settings, all_stores, system, stops=False) as platform,
    ):
        rows = (await all_stores.controller.changes(None)).workspaces
        lost = []
        for backend, home_store in platform.home_stores.items():
            backends = {name for name, store in platform.backends.storage.items() if store is home_store}
            expected = [row for row in rows if row.spec.storage_backend in backends and holds_home(row)]
            if (lost_mark := await _check_mark(backend, home_store, expected)) is not None:
                lost.append(lost_mark)
        for lost_mark in lost if is_sure else ():
            await platform.home_stores[lost_mark.backend].prepare()
        return lost


async def _check_mark(
    backend: StorageBackend, home_store: HomeStore, expected: Sequence[Workspace]
) -> LostMark | None:
    try:
        await home_store.list_volumes()
    except MarkMissing as error:
        volumes = await home_store.list_unmarked()
        present = tuple(_describe(row) for row in expected if row.id in volumes)
        absent = tuple(_describe(row) for row in expected if row.id not in volumes)
        return LostMark(backend, message_text(error.mark, terminal_language()), present, absent)
    return None


def _describe(row: Workspace) -> str:
    return f"{row.spec.name} ({row.id})"


class _MarkCheck:
    """Checks at most once in a few seconds, since anybody may ask."""

    def __init__(self, home_store: HomeStore, clock: Clock) -> None:
        self._home_store = home_store
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checked_at: float | None = None
        self._missing: MarkMissing | None = None

    async def __call__(self) -> None:
        async with self._lock:
            if self._checked_at is None or self._clock.monotonic() - self._checked_at >= _FRESH_S:
                self._missing = await self._find_missing()
                self._checked_at = self._clock.monotonic()
        if self._missing is not None:
            raise NotReady(failure_text(self._missing, terminal_language()))

    async def _find_missing(self) -> MarkMissing | None:
        try:
            async with asyncio.timeout(_LOOK_S_MAX):
                await self._home_store.list_volumes()
        except MarkMissing as error:
            return error
        except (ActionFailed, BackendUnreachable, TimeoutError):
            return None
        return None
