"""Shared ports in memory, beside a store in memory, whose rows and history they are of."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from uuid import UUID

from codehub.adapters.memory.store import MemoryStore
from codehub.core.amendments import RulingRecord
from codehub.core.requests import Accepted, Refused, Unchanged
from codehub.core.visibility import SharedPort, Visibility
from codehub.core.workspace import Workspace
from codehub.ports.shared_ports import ShareRule, ShareRuled


class MemorySharedPorts:
    def __init__(self, store: MemoryStore, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._shares: dict[UUID, dict[int, SharedPort]] = {}

    async def shared(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Mapping[int, SharedPort]]:
        current = {workspace_id: self._current(workspace_id) for workspace_id in workspace_ids}
        return {workspace_id: shares for workspace_id, shares in current.items() if shares}

    async def amend(self, workspace_id: UUID, rule: ShareRule) -> ShareRuled:
        ruling: SharedPort | Refused

        def store(row: Workspace, now: datetime) -> RulingRecord:
            nonlocal ruling
            shares = self._current(workspace_id)
            record = rule(row, shares, now)
            ruling = record.ruling
            if isinstance(ruling, Refused) or not record.events:
                return RulingRecord(Unchanged())
            shares.pop(ruling.port, None)
            if ruling.visibility is not Visibility.PRIVATE:
                shares[ruling.port] = ruling
            self._shares[workspace_id] = shares
            return RulingRecord(Accepted(row.spec), record.events)

        ruled = await self._store.amend(workspace_id, store)
        return ShareRuled(ruling, ruled.workspace)

    def _current(self, workspace_id: UUID) -> dict[int, SharedPort]:
        now = self._now()
        return {
            port: share
            for port, share in sorted(self._shares.get(workspace_id, {}).items())
            if share.expires_at is None or share.expires_at > now
        }
