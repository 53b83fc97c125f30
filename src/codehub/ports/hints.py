"""Hints: "look at these workspaces soon". They carry no truth; losing any of them only costs time."""

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID


class Hints(Protocol):
    async def send(self, workspace_ids: Collection[UUID]) -> None:
        """Notify all listeners. Never raises: a hint that can't be sent is logged and lost."""

    def listen(self) -> AbstractAsyncContextManager[AsyncIterator[frozenset[UUID]]]:
        """Receive hints from the moment the context is entered.

        An empty set means "something may have been missed: look at all".
        """
