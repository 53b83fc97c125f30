"""Doors in memory, beside the sessions and workspaces that they are of. Refuses what the schema refuses."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from codehub.adapters.memory.access import MemoryAccess
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.store import MemoryStore
from codehub.core.access import SESSION_LASTS
from codehub.core.operations import Phase
from codehub.core.origins import Door
from codehub.core.visibility import PORT_MAX
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.doors import CODE_LASTS, DOORS_MAX
from codehub.ports.store import Contradiction

_PATH = re.compile(r"/(?:[^/\\].*)?", re.DOTALL)
_PATH_LENGTH_MAX = 4_096
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Code:
    door: Door
    session_sha256: bytes
    challenge: bytes
    path: str
    expires_at: datetime


class MemoryDoors:
    """Nothing is awaited but sessions in memory, so each method is a transaction."""

    def __init__(
        self,
        access: MemoryAccess,
        store: MemoryStore,
        *,
        now: Callable[[], datetime],
        faults: Faults = no_faults,
    ) -> None:
        self._access = access
        self._store = store
        self._now = now
        self._faults = faults
        self._codes: dict[bytes, _Code] = {}
        self._doors: dict[bytes, tuple[Door, bytes]] = {}
        """What each opens and whose child it is, the oldest first."""

    async def workspace_of(self, label: str) -> UUID | None:
        await self._faults("doors.workspace_of")
        rows = self._store.rows.values()
        return next((row.id for row in rows if row.label == label and not _is_gone(row)), None)

    async def issue_code(
        self,
        code_sha256: bytes,
        door: Door,
        *,
        session_sha256: bytes,
        challenge: bytes,
        path: str,
        lasts: timedelta = CODE_LASTS,
    ) -> bool:
        await self._faults("doors.issue_code")
        _check(code_sha256, challenge, door, path)
        if door.workspace_id not in self._store.rows:
            raise Contradiction("a code is of a workspace that is there")
        if not await self._access.users_by_keys([session_sha256]):
            return False
        now = self._now()
        self._codes = {key: code for key, code in self._codes.items() if code.expires_at > now}
        self._codes[code_sha256] = _Code(door, session_sha256, challenge, path, now + lasts)
        return True

    async def open_door(
        self, code_sha256: bytes, door_sha256: bytes, door: Door, *, challenge: bytes
    ) -> str | None:
        await self._faults("doors.open_door")
        code = self._codes.get(code_sha256)
        if code is None or (code.door, code.challenge) != (door, challenge) or code.expires_at <= self._now():
            return None
        row = self._store.rows[door.workspace_id]
        if _is_gone(row) or row.spec.deleted_at is not None:
            return None
        if not await self._access.users_by_keys([code.session_sha256]):
            return None
        del self._codes[code_sha256]
        siblings = [key for key, (_door, session) in self._doors.items() if session == code.session_sha256]
        for oldest in siblings[: max(0, len(siblings) - DOORS_MAX + 1)]:
            del self._doors[oldest]
        self._doors[door_sha256] = (door, code.session_sha256)
        return code.path

    async def people(self, door_hashes: Collection[bytes]) -> Mapping[bytes, Visitor]:
        """Return whom these doors let in, those of them that do."""
        open_doors = {key: self._doors[key] for key in door_hashes if key in self._doors}
        users = await self._access.users_by_keys([session for _door, session in open_doors.values()])
        return {
            key: Visitor(users[session].id, users[session].username, door=door)
            for key, (door, session) in open_doors.items()
            if session in users
        }

    async def note_use(self, door_hashes: Collection[bytes]) -> None:
        for key in door_hashes:
            if key in self._doors:
                await self._access.use_session(self._doors[key][1], lasts=SESSION_LASTS)


def _is_gone(row: Workspace) -> bool:
    return row.status.phase is Phase.DELETED


def _check(code_sha256: bytes, challenge: bytes, door: Door, path: str) -> None:
    if len(code_sha256) != _HASH_BYTES or len(challenge) != _HASH_BYTES:
        raise Contradiction("a code and a challenge are hashed")
    if door.port is not None and not 1 <= door.port <= PORT_MAX:
        raise Contradiction("a port is a number of 16 bits")
    if _PATH.fullmatch(path) is None or len(path) > _PATH_LENGTH_MAX:
        raise Contradiction("a path is one of the origin")
