"""How fast one person asks: who, and when, in; how long to wait, or nothing,
out. Of this process alone; people it does not know cost nothing.
"""

from uuid import UUID

MINUTE_S = 60.0


class RequestRate:
    """So many requests at once, and so many a minute from then on."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left: dict[UUID, tuple[float, float]] = {}

    def wait_s(self, user_id: UUID, now_s: float) -> float:
        """Count one request of somebody who has signed in, and return 0;
        or count nothing, and return how long it is too early.
        """
        left, at = self._left.get(user_id, (float(self.per_minute), now_s))
        left = min(float(self.per_minute), left + (now_s - at) * self.per_minute / MINUTE_S)
        if left < 1.0:
            return (1.0 - left) * MINUTE_S / self.per_minute
        self._left[user_id] = (left - 1.0, now_s)
        return 0.0
