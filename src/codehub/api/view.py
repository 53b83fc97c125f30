"""What people are shown of workspaces: rows in, JSON out, with owners' names and progress where there is
any.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from fastapi import Response

from codehub.api.render import Renderer
from codehub.core.addresses import WorkspaceAddresses
from codehub.core.last_look import everybody_looked_at, last_look
from codehub.core.operations import Operation
from codehub.core.workspace import Workspace
from codehub.ports.store import ApiStore
from codehub.ports.system import Clock

_MOVES_BYTES = frozenset({Operation.ARCHIVING, Operation.RESTORING, Operation.STARTING})
JSON = "application/json"
# A controller that died counts until the others have missed it (12
# s) and have had time to look at what was its own.
_HEARD_OF_S = 20.0
_LOOKS_S = 1.0  # they are told every three seconds


class View:
    def __init__(self, store: ApiStore, addresses: WorkspaceAddresses, clock: Clock) -> None:
        self._store = store
        self._renderer = Renderer(addresses)
        self._clock = clock
        self._names: dict[UUID, str] = {}
        self._everybody_at: datetime | None = None
        self._ask_again_at = clock.monotonic()

    async def render(self, rows: Sequence[Workspace], language: str) -> list[bytes]:
        await self._learn_names({row.spec.owner_user_id for row in rows})
        moving = [row.id for row in rows if row.status.operation in _MOVES_BYTES]
        progress = await self._store.progress(moving) if moving else {}
        usages = await self._store.usages([row.id for row in rows]) if rows else {}
        everybody_at = await self._everybody_looked_at() if rows else None
        return [
            self._renderer.workspace(
                row,
                self._names.get(row.spec.owner_user_id, ""),
                last_look(row.status, everybody_at),
                progress.get(row.id),
                usages.get(row.id),
                language=language,
            )
            for row in rows
        ]

    async def workspace(
        self, row: Workspace, language: str, *, status: int = 200, location: str | None = None
    ) -> Response:
        (body,) = await self.render([row], language)
        headers = {"ETag": f'"{row.spec.revision}"'}
        if location is not None:
            headers["Location"] = location
        return Response(body, status, headers, JSON)

    async def page(self, rows: Sequence[Workspace], next_cursor: str | None, language: str) -> Response:
        items = b",".join(await self.render(rows, language))
        end = b"null" if next_cursor is None else f'"{next_cursor}"'.encode()
        return Response(b'{"items":[%b],"next_cursor":%b}' % (items, end), media_type=JSON)

    async def _learn_names(self, user_ids: Collection[UUID]) -> None:
        """A name never changes, so it is asked for once."""
        unknown = [user_id for user_id in user_ids if user_id not in self._names]
        if unknown:
            self._names.update(await self._store.usernames(unknown))

    async def _everybody_looked_at(self) -> datetime | None:
        """Ask the database once a second at most, however much is
        shown: what is older than it could be is still true.
        """
        now = self._clock.monotonic()
        if now >= self._ask_again_at:
            heard = await self._store.members(within_s=_HEARD_OF_S)
            self._everybody_at = everybody_looked_at([member.looked_at for member in heard])
            self._ask_again_at = now + _LOOKS_S
        return self._everybody_at
