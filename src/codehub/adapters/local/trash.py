"""Removes directories in the background, one after another.

What can't be removed is logged and stays: garbage collection lists it, and tries again. So does what a
process leaves that ends meanwhile.
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
        """`after` is called for each path that was removed. It may block."""
        self._after = after
        self._pending: dict[Path, None] = {}
        self._removal: asyncio.Task[None] | None = None

    @property
    def paths(self) -> Collection[Path]:
        """What is being removed, or is still to be."""
        return self._pending.keys()

    def put(self, paths: Iterable[Path]) -> None:
        self._pending |= dict.fromkeys(paths)
        if self._pending and (self._removal is None or self._removal.done()):
            self._removal = asyncio.create_task(self._remove_all())

    async def wait_until_empty(self) -> None:
        """Return when nothing is left to remove."""
        if self._removal is not None:
            await asyncio.wait([self._removal])

    async def _remove_all(self) -> None:
        while self._pending:
            path = next(iter(self._pending))
            try:
                await remove_tree(path)
                await in_thread(self._after, path)
            except (ActionFailed, OSError) as error:
                log.warning("trash_not_removed", path=str(path), reason=str(error))
            finally:
                self._pending.pop(path, None)
