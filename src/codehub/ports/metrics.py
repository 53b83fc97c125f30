"""Meters: what operators watch. Events go in as they happen; how they are shown is the adapter's."""

from collections.abc import Mapping
from typing import Protocol

from codehub.core.operations import Operation, Phase


class Metrics(Protocol):
    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """An HTTP request was answered."""

    def passed(self, seconds: float, *, written: int, lost: int) -> None:
        """A controller's pass ended, with so many rows written and so many swaps lost."""

    def operated(self, operation: Operation, outcome: str, seconds: float) -> None:
        """An operation ended: completed, failed or abandoned."""

    def hinted(self, count: int) -> None:
        """So many hints were heard."""

    def flying(self, lane: str, count: int) -> None:
        """So many steps are under way in this lane."""

    def moved(self, stage: str, done_bytes: int) -> None:
        """An archive or a restore has moved so many bytes."""

    def room(self, free_mb: int, floor_mb: int) -> None:
        """So much is free on the disk of homes that has least, and below so much nothing starts."""

    def listening(self, count: int) -> None:
        """So many event streams are open."""

    def cut_off(self) -> None:
        """A stream was ended because its reader was too slow."""

    def shown(self, phases: Mapping[Phase, int]) -> bytes:
        """Return everything as text for a scraper, with how many workspaces are in each phase."""


class NoMetrics:
    """Meters that nobody reads."""

    def request(self, method: str, route: str, status: int, seconds: float) -> None: ...

    def passed(self, seconds: float, *, written: int, lost: int) -> None: ...

    def operated(self, operation: Operation, outcome: str, seconds: float) -> None: ...

    def hinted(self, count: int) -> None: ...

    def flying(self, lane: str, count: int) -> None: ...

    def moved(self, stage: str, done_bytes: int) -> None: ...

    def room(self, free_mb: int, floor_mb: int) -> None: ...

    def listening(self, count: int) -> None: ...

    def cut_off(self) -> None: ...

    def shown(self, phases: Mapping[Phase, int]) -> bytes:
        del phases
        return b""
