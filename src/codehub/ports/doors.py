"""Doors into a workspace's own origin (spec §14): codes and doors are passed as hashes only."""

from datetime import timedelta
from typing import Protocol
from uuid import UUID

from codehub.core.origins import Door

CODE_LASTS = timedelta(seconds=30)
DOORS_MAX = 256
"""Of one session: the oldest makes room, and whoever had it enters anew."""


class DoorStore(Protocol):
    """A door is the child of a session: it opens nothing once that has ended."""

    async def workspace_of(self, label: str) -> UUID | None:
        """Return the workspace that this label is of. None: of none, or of one that is deleted for good."""

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
        """Store a code by which one browser may open this door, once. False, and nothing, if the session has
        ended.

        `challenge` is the hash of what that browser keeps for the origin, `path` where it goes then. The
        session's codes that are over go with it: nobody else looks for them.
        """

    async def open_door(
        self, code_sha256: bytes, door_sha256: bytes, door: Door, *, challenge: bytes
    ) -> str | None:
        """Use up a code and store the door's secret in one go; return the path to go on to.

        None, and nothing, if there is no such code for this door and this challenge, if it is over, if its
        session has ended, or if its workspace is deleted.
        """
