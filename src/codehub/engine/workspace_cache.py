"""The roster: every workspace this controller handles, kept current by reading only the rows that changed since the last look."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from codehub.core.workspace import Status, Workspace
from codehub.ports.store import ControllerStore


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The database's time, and the rows that are not as this controller knew them."""

    now: datetime
    changed: frozenset[UUID]


class WorkspaceCache:
    def __init__(self, store: ControllerStore) -> None:
        self._store = store
        self._rows: dict[UUID, Workspace] = {}
        self._cursor: str | None = None

    async def refresh(self) -> Refreshed:
        """Take in what changed. What this controller wrote itself comes back here too, and is no news."""
        changes = await self._store.changes(self._cursor)
        news = [row for row in changes.workspaces if self._is_news(row)]
        self._rows.update((row.id, row) for row in news)
        self._cursor = changes.cursor
        return Refreshed(changes.now, frozenset(row.id for row in news))

    def note(self, workspace_id: UUID, status: Status) -> None:
        """Take in what this controller has just written, without waiting to read it back."""
        row = self._rows[workspace_id]
        self._rows[workspace_id] = replace(row, status=replace(status, version=status.version + 1))

    def _is_news(self, row: Workspace) -> bool:
        known = self._rows.get(row.id)
        if known is None or known.status.version < row.status.version:
            return True
        return known.status.version == row.status.version and known.spec != row.spec

    def get(self, workspace_id: UUID) -> Workspace | None:
        return self._rows.get(workspace_id)

    def __iter__(self) -> Iterator[Workspace]:
        return iter(self._rows.values())
