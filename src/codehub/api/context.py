"""Where a request finds what it needs: the application's parts, its door, and who asks."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from codehub.api.errors import NO_WORKSPACE, ApiError
from codehub.api.feed import LiveFeed
from codehub.api.guard import Guard
from codehub.api.view import View
from codehub.core.access import Person, may_manage
from codehub.core.workspace import Workspace, is_deleted
from codehub.error_codes import ErrorCode
from codehub.ports.store import UnknownWorkspace
from codehub.service.workspaces import By
from codehub.web.dependencies import Dependencies
from codehub.web.ids import to_id


@dataclass(frozen=True, slots=True)
class Context:
    parts: Dependencies
    guard: Guard
    view: View
    feed: LiveFeed

    async def find(self, person: Person, workspace_id: str, *, even_deleted: bool = False) -> Workspace:
        """Find a workspace for whoever asks: a foreign one is 403, one that is not there or deleted 404."""
        found = to_id(workspace_id)
        if found is None:
            raise NO_WORKSPACE
        try:
            row = await self.parts.store.get(found)
        except UnknownWorkspace:
            raise NO_WORKSPACE from None
        if is_deleted(row) and not even_deleted:
            raise NO_WORKSPACE
        if not may_manage(person, row.spec.owner_user_id):
            raise ApiError(ErrorCode.FORBIDDEN, "This is somebody else's workspace.")
        return row


def desk(request: Request) -> Context:
    found: Context = request.app.state.desk
    return found


async def _person(request: Request) -> Person:
    return await desk(request).guard.person(request)


async def _admin(request: Request) -> Person:
    return await desk(request).guard.admin(request)


Asking = Annotated[Person, Depends(_person)]
Admin = Annotated[Person, Depends(_admin)]


def by(request: Request, person: Person, reason: str) -> By:
    """Say for the history who asks, why, and in which request."""
    return By(person.user.username, reason, request.state.request_id)
