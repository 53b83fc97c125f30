"""Who may enter a port of a workspace, beside its owner (spec §14)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PORT_MAX = 65_535


class Visibility(StrEnum):
    """Who may enter a port, each with those of the one before."""

    PRIVATE = "private"
    """Its owner."""
    SHARED = "shared"
    """Whom the workspace is shared with: nobody, as long as there are no shares."""
    SIGNED_IN = "signed-in"
    """Whoever is signed in."""
    PUBLIC = "public"
    """Anybody, and for a time alone."""


ORDER = tuple(Visibility)


@dataclass(frozen=True, slots=True)
class SharedPort:
    port: int
    visibility: Visibility
    expires_at: datetime | None = None
    """When it is private again. None: when somebody says so."""


def visibility_at(share: SharedPort | None, now: datetime, ceiling: Visibility) -> Visibility:
    """Return who may enter now. The ceiling may have been lowered since: what is above it counts as that."""
    if share is None or (share.expires_at is not None and share.expires_at <= now):
        return Visibility.PRIVATE
    return lowered(share.visibility, ceiling)


def lowered(visibility: Visibility, ceiling: Visibility) -> Visibility:
    return min(visibility, ceiling, key=ORDER.index)
