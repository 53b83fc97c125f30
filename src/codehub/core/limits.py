"""Limits: how many workspaces may run, per person and in all. Exact, because whoever asks holds the locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from codehub.core.wishes import Refusal, Refused


@dataclass(frozen=True, slots=True)
class Limits:
    """How many may run at once."""

    per_user: int = 2
    total: int = 100


def refuse_one_more(limits: Limits, of_owner: Sequence[tuple[UUID, str]], total: int) -> Refused | None:
    """Say why one more is too many, what runs, and what would free a place; or nothing. Only the owner's own are named."""
    if len(of_owner) >= limits.per_user:
        names = ", ".join(name for _id, name in of_owner)
        running = [{"id": str(workspace_id), "name": name} for workspace_id, name in of_owner]
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            f"{len(of_owner)} of {limits.per_user} workspaces run already: {names}. Stop one of them first.",
            {"limit": "per_user", "max": limits.per_user, "running": running},
        )
    if total >= limits.total:
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            f"All {limits.total} places of this installation are taken. Try again when somebody's workspace has stopped.",
            {"limit": "total", "max": limits.total, "running": []},
        )
    return None
