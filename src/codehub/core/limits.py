"""Limits: how many workspaces may run, per person and in all. Exact, because whoever asks holds the locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from codehub.core.messages import Code, Message
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
    """Return why one more is too many, what runs, and what would free
    a place; or nothing. Only the owner's own are named.
    """
    if len(of_owner) >= limits.per_user:
        names = [name for _id, name, _phase in of_owner]
        running = [{"id": str(each), "name": name} for each, name, _phase in of_owner]
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            Message(
                Code.OWNER_LIMIT,
                {"count": len(names), "max": limits.per_user, "names": names, "ways": _ways(of_owner)},
            ),
            {"limit": "per_user", "max": limits.per_user, "running": running},
            in_error=[str(each) for each, _name, phase in of_owner if phase is Phase.ERROR],
        )
    if total >= limits.total:
        return Refused(
            Refusal.LIMIT_EXCEEDED,
            Message(Code.TOTAL_LIMIT, {"max": limits.total}),
            {"limit": "total", "max": limits.total, "running": []},
        )
    return None


def _ways(of_owner: Sequence[tuple[UUID, str, Phase]]) -> list[Message]:
    """Return what would free a place. What is in ERROR is not
    stopped by a wish: somebody has to decide about it.
    """
    failed = [name for _id, name, phase in of_owner if phase is Phase.ERROR]
    ways = [Message(Code.RECOVER_OR_DELETE, {"name": name}) for name in failed]
    return ways if len(failed) == len(of_owner) else [Message(Code.STOP_ONE), *ways]
