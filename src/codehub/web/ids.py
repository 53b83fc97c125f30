"""Ids as they are written in addresses: text in, an id out.

Every form but the one with four dashes is refused: one thing, one address.
"""

import re
from uuid import UUID

from codehub.core.route import WRITTEN_ID
from codehub.ports.store import UnknownWorkspace

_WRITTEN = re.compile(WRITTEN_ID)


def to_id(text: str) -> UUID | None:
    """Return the id, in either case; None if it is none."""
    return UUID(text) if _WRITTEN.fullmatch(text.lower()) else None


def to_workspace_id(text: str) -> UUID:
    """Return the id. Raises UnknownWorkspace: what can't be an id names no workspace."""
    workspace_id = to_id(text)
    if workspace_id is None:
        raise UnknownWorkspace(text)
    return workspace_id
