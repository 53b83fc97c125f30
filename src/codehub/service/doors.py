"""Doors into workspaces' own origins: whoever is signed in at the hub gets a code by which their browser
enters one place. The row says who may, and its label is what the address is made of.
"""

from uuid import UUID

from codehub.core.access import Person, Scope
from codehub.core.entering import OPENING_PATH
from codehub.core.messages import Code
from codehub.core.origins import Door, Place, WorkspaceOrigins
from codehub.core.visibility import Visibility, lowered
from codehub.core.visit import Forbidden, Visitor, refuse_entry
from codehub.ports.access import KeyEnded
from codehub.ports.doors import DoorStore
from codehub.ports.shared_ports import SharedPorts
from codehub.ports.store import ApiStore, UnknownWorkspace
from codehub.ports.system import Randomness
from codehub.service.access import sha256


class EntryRefused(Exception):
    """There is such a workspace, and whoever asks may not enter it."""

    def __init__(self, why: Code) -> None:
        super().__init__(why)
        self.why = why


class DoorService:
    def __init__(
        self,
        doors: DoorStore,
        workspaces: ApiStore,
        shared: SharedPorts,
        origins: WorkspaceOrigins,
        *,
        ceiling: Visibility,
        randomness: Randomness,
    ) -> None:
        self._doors = doors
        self._workspaces = workspaces
        self._shared = shared
        self._ceiling = ceiling
        self._origins = origins
        self._randomness = randomness

    async def issue_code(self, person: Person, place: Place, *, challenge: bytes, path: str) -> str:
        """Return the address at the place's origin that lets the browser in which made the challenge, once.

        `path`: where it goes on there. Raises UnknownWorkspace, EntryRefused, or KeyEnded if this is no
        session, or none any more.
        """
        workspace_id = await self._doors.workspace_of(place.label)
        if workspace_id is None:
            raise UnknownWorkspace(place.label)
        workspace = await self._workspaces.get(workspace_id)
        visitor = Visitor(person.id, person.user.username, may_write=person.scope is Scope.WRITE)
        visibility = await self._visibility(workspace.id, place.port)
        refused = refuse_entry(visitor, workspace, place.port, visibility)
        if isinstance(refused, Forbidden):
            raise EntryRefused(refused.why)
        if refused is not None:
            raise UnknownWorkspace(place.label)
        code = self._randomness.token()
        is_issued = await self._doors.issue_code(
            sha256(code),
            Door(workspace.id, place.port),
            session_sha256=person.key_sha256,
            challenge=challenge,
            path=path,
        )
        if not is_issued:
            raise KeyEnded
        return f"{self._origins.origin_of(workspace.label, place.port)}{OPENING_PATH}?code={code}"

    async def _visibility(self, workspace_id: UUID, port: int | None) -> Visibility:
        if port is None:
            return Visibility.PRIVATE
        share = (await self._shared.shared([workspace_id])).get(workspace_id, {}).get(port)
        return Visibility.PRIVATE if share is None else lowered(share.visibility, self._ceiling)
