"""Limits: how many workspaces may run, per person and in all. Exact, because whoever asks holds the locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from codehub.core.operations import Phase
from codehub.core.requests import Refusal, Refused


@dataclass(frozen=True, slots=True)
class Limits:
    """How many may run at once."""

    per_user: int = 2
    total: int = 100


def refuse_one_more(
    limits: Limits, of_owner: Sequence[tuple[UUID, str, Phase]], total: int
) -> Refused | None:
    """Say why one more is too many, what runs, and what would free a place; or nothing. Only the owner's own are named."""
    if len(of_owner) >= limits.per_user:
        names = ", ".join(name for _id, name, _phase in of_owner)
        running = [{"id": str(one), "name": name} for one, name, _phase in of_owner]
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            f"{len(of_owner)} of {limits.per_user} workspaces run already: {names}. {_makes_room(of_owner)}",
            {"limit": "per_user", "max": limits.per_user, "running": running},
            in_error=[str(one) for one, _name, phase in of_owner if phase is Phase.ERROR],
        )
    if total >= limits.total:
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            f"All {limits.total} places of this installation are taken. Try again when somebody's workspace has stopped.",
            {"limit": "total", "max": limits.total, "running": []},
        )
    return None


def _makes_room(of_owner: Sequence[tuple[UUID, str, Phase]]) -> str:
    """Say what would free a place. What is in ERROR is not stopped by a wish: somebody has to decide about it."""
    failed = [name for _id, name, phase in of_owner if phase is Phase.ERROR]
    ways = [f"{name} is in ERROR: recover or delete it." for name in failed]
    return " ".join(ways if len(failed) == len(of_owner) else ["Stop one of them first.", *ways])
