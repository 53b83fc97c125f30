"""The order of lists: pinned workspaces first, the newest pin on top, then the others, the newest first."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from codehub.core.workspace import Workspace

# What is not pinned stands in lists as if it had been pinned before all others. The schema has the same time.
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PINNED = re.compile(r"([0-9]{1,17})\.(.+)")


@dataclass(frozen=True, slots=True, order=True)
class ListPosition:
    """Where a workspace stands in a list; lists begin with the greatest."""

    pinned_at: datetime
    workspace_id: UUID


BEFORE_ALL = ListPosition(datetime(9999, 12, 31, tzinfo=UTC), UUID(int=(1 << 128) - 1))


def list_position(workspace: Workspace) -> ListPosition:
    return ListPosition(workspace.spec.pinned_at or _NEVER, workspace.id)


def sort_key(workspace: Workspace) -> str:
    """Return a text that is greater the further up the workspace stands."""
    return f"{_microseconds(list_position(workspace)):017}.{workspace.id}"


def list_cursor(workspace: Workspace) -> str:
    """Return what asks for those after this one: its id and, if it is
    pinned, since when. Pinning others moves no cursor.
    """
    since = _microseconds(list_position(workspace))
    return f"{since}.{workspace.id}" if since else str(workspace.id)


def read_cursor(text: str) -> ListPosition:
    """Raises ValueError."""
    pinned = _PINNED.fullmatch(text)
    if pinned is None:
        return ListPosition(_NEVER, UUID(text))
    return ListPosition(_NEVER + int(pinned[1]) * _MICROSECOND, UUID(pinned[2]))


def _microseconds(position: ListPosition) -> int:
    return (position.pinned_at - _NEVER) // _MICROSECOND
