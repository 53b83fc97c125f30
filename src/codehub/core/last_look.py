"""When a workspace was last looked at. What rests is not written, so
its row alone does not tell: the passes over everybody do.
"""

from collections.abc import Collection
from datetime import datetime

from codehub.core.conditions import unknown_conditions
from codehub.core.workspace import Status


def everybody_looked_at(passes: Collection[datetime | None]) -> datetime | None:
    """Return when everybody has been looked at, given the last pass of each
    live controller over all that it handles. None: not known.

    Each workspace is looked at by one of them, whichever it is: so the one that is furthest behind counts.
    """
    known = [at for at in passes if at is not None]
    return min(known, default=None) if len(known) == len(passes) else None


def last_look(status: Status, everybody_at: datetime | None) -> datetime | None:
    """Return when it was last seen. A pass that could not look at it
    says so in a condition that decides, and does not count.
    """
    own = status.observed_at
    if own is None or everybody_at is None or unknown_conditions(status.conditions, status.operation):
        return own
    return max(own, everybody_at)
