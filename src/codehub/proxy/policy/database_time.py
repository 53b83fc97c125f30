"""The database's time: what a look read goes in, what its clock showed at another moment comes out."""

from datetime import datetime, timedelta


class DatabaseTime:
    """Kept current by whoever looks at the database, read by whoever records when something was used."""

    def __init__(self) -> None:
        self._last_look: tuple[datetime, float] | None = None

    def note(self, now: datetime, monotonic_s: float) -> None:
        self._last_look = (now, monotonic_s)

    def at(self, monotonic_s: float) -> datetime | None:
        """Return what the database's clock showed at that moment of ours; None before the first look."""
        if self._last_look is None:
            return None
        now, then = self._last_look
        return now + timedelta(seconds=monotonic_s - then)
