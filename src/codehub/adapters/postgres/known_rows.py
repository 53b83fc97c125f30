"""Rows that were read before, by the transaction that wrote each last: a row that has not changed is not read
and built again.
"""

from collections.abc import Iterable
from uuid import UUID

from codehub.adapters.postgres.lineage import Lineage
from codehub.adapters.postgres.rows import Row, to_workspace
from codehub.core.workspace import Workspace

_ROWS_MAX = 10_000


# Which history of the database, and which of its transactions.
Writer = tuple[int, int]


class KnownRows:
    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._known: dict[UUID, tuple[Writer, Workspace]] = {}

    def take(self, row: Row) -> Workspace:
        """Return the row as a workspace: the very same object, if it has not changed since it was
        last taken.
        """
        workspace_id, written_by = row["id"], (self._lineage.number, row["changed_xid"])
        known = self._known.get(workspace_id)
        if known is not None and known[0] == written_by:
            return known[1]
        workspace = to_workspace(row)
        if len(self._known) >= _ROWS_MAX:
            del self._known[next(iter(self._known))]
        self._known[workspace_id] = (written_by, workspace)
        return workspace

    def compare(self, stamps: Iterable[Row]) -> tuple[dict[UUID, Workspace], list[UUID]]:
        """Return which of these rows are known as they are, and which have to be read."""
        current: dict[UUID, Workspace] = {}
        missing: list[UUID] = []
        for stamp in stamps:
            workspace_id = stamp["id"]
            known = self._known.get(workspace_id)
            if known is not None and known[0] == (self._lineage.number, stamp["changed_xid"]):
                current[workspace_id] = known[1]
            else:
                missing.append(workspace_id)
        return current, missing
