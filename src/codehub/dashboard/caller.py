"""A request as a page needs it: who asks, in which language, at which time."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from starlette.requests import Request

from codehub.core.access import Person
from codehub.core.amendments import By
from codehub.core.disk_space import DiskSpace
from codehub.core.messages import Message
from codehub.text import Say
from codehub.web.ids import to_workspace_id


@dataclass(frozen=True, slots=True)
class Caller:
    """`known` is None only where anybody may come in."""

    request: Request
    known: Person | None
    language: str
    say: Say
    now: datetime
    shortage: DiskSpace | None = None
    """How little room is left, if nothing starts because of it."""

    @property
    def person(self) -> Person:
        assert self.known is not None
        return self.known

    @property
    def is_partial(self) -> bool:
        """Whether a script asks for a part of the page it is on."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def target(self) -> str:
        return self.request.headers.get("hx-target", "")

    @property
    def workspace_id(self) -> UUID:
        """The workspace that the path names. Raises UnknownWorkspace if it can't be one."""
        return to_workspace_id(self.request.path_params["workspace_id"])

    def by(self, reason: Message) -> By:
        return By(self.person, reason, self.request.state.request_id)
