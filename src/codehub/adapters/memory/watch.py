"""What one process knows of things in memory by a watch: all of them, as they were when it last heard. It may
be behind without knowing, but never behind the process's own writes.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Generic, TypeVar
from uuid import UUID

from codehub.core.messages import Code, Message, bare_message
from codehub.ports.backends import BackendUnreachable

T = TypeVar("T")

_PATIENCE_S = 30.0


class Watch(Generic[T]):
    """`current` returns what there is. As of docs/adr/0034: what was deleted is shown until the watch tells
    of that, and whoever has deleted it waits so long.
    """

    def __init__(self, current: Callable[[], Mapping[UUID, T]]) -> None:
        self._current = current
        self._known: dict[UUID, T] | None = None
        self._is_broken = False
        self._caught_up = asyncio.Event()

    def fall_behind(self) -> None:
        """Hear nothing from now on, and not know it."""
        if self._known is None:
            self._known = dict(self._current())
            self._caught_up.clear()

    def break_off(self) -> None:
        """Hear nothing from now on, and know it."""
        self._is_broken = True

    def catch_up(self) -> None:
        """Know again what there is."""
        self._known, self._is_broken = None, False
        self._caught_up.set()

    @property
    def is_behind(self) -> bool:
        return self._known is not None

    def known(self) -> Mapping[UUID, T]:
        if self._is_broken:
            facts = {"kind": "things", "reason": bare_message(Code.KUBERNETES_NOT_LISTED)}
            raise BackendUnreachable(Message(Code.KUBERNETES_UNSEEN, facts))
        return self._current() if self._known is None else self._known

    def learn(self, workspace_id: UUID) -> None:
        """Take in what a write of this process has made or changed."""
        if self._known is not None and (thing := self._current().get(workspace_id)) is not None:
            self._known[workspace_id] = thing

    async def hear_of_deletion(self) -> None:
        """Wait until the watch has told of what was deleted. Raises BackendUnreachable if it does not."""
        if self._known is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._caught_up.wait()
        if self._known is not None:
            raise BackendUnreachable(Message(Code.NO_ANSWER))
