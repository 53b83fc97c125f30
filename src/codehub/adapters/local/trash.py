"""Directories that count for nobody go in; they are removed in the background, one after another, and nobody waits for it.

What can't be removed is told and stays: garbage collection lists it, and tries again. So does what a process leaves that ends meanwhile.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import structlog

from codehub.adapters.local.tar import remove_tree
from codehub.adapters.threads import in_thread
from codehub.ports.backends import ActionFailed

log = structlog.get_logger()


class Trash:
    def __init__(self, after: Callable[[Path], None]) -> None:
        """`after` is told of each that was removed. It may block."""
        self._after = after
        self._waiting: dict[Path, None] = {}
        self._removing: asyncio.Task[None] | None = None

    @property
    def known(self) -> Collection[Path]:
        """What is being removed, or waits for it."""
        return self._waiting.keys()

    def put(self, paths: Iterable[Path]) -> None:
        self._waiting |= dict.fromkeys(paths)
        if self._waiting and (self._removing is None or self._removing.done()):
            self._removing = asyncio.create_task(self._remove_all())

    async def emptied(self) -> None:
        """Return when nothing waits any more."""
        if self._removing is not None:
            await asyncio.wait([self._removing])

    async def _remove_all(self) -> None:
        while self._waiting:
            path = next(iter(self._waiting))
            try:
                await remove_tree(path)
                await in_thread(self._after, path)
            except (ActionFailed, OSError) as error:
                log.warning("trash_not_removed", path=str(path), reason=str(error))
            finally:
                self._waiting.pop(path, None)
