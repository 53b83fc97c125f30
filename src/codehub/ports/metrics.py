"""Metrics for operators. Events go in as they happen; the adapter decides the format."""

from collections.abc import Mapping
from typing import Protocol

from codehub.core.operations import Operation, Phase


class Metrics(Protocol):
    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """An HTTP request was answered."""

    def record_pass(self, seconds: float, *, written: int, lost: int) -> None:
        """A controller's pass ended, with so many rows written and so many swaps lost."""

    def record_operation(self, operation: Operation, outcome: str, seconds: float) -> None:
        """An operation ended: completed, failed or abandoned."""

    def count_hints(self, count: int) -> None:
        """So many hints were heard."""

    def set_running_steps(self, lane: str, count: int) -> None:
        """So many steps are under way in this lane."""

    def count_bytes(self, stage: str, done_bytes: int) -> None:
        """An archive or a restore has moved so many bytes."""

    def set_disk_space(self, free_mb: int, floor_mb: int) -> None:
        """So much is free on the disk of homes that has least, and below so much nothing starts."""

    def set_streams(self, count: int) -> None:
        """So many event streams are open."""

    def count_cut_off_stream(self) -> None:
        """A stream was ended because its reader was too slow."""

    def count_page(self, outcome: str) -> None:
        """A page of an IDE went by: the script is in it (`inserted`), or why not."""

    def render(self, phases: Mapping[Phase, int]) -> bytes:
        """Return everything as text for a scraper, with how many workspaces are in each phase."""


class NoMetrics:
    """Metrics that are dropped."""

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None: ...

    def record_pass(self, seconds: float, *, written: int, lost: int) -> None: ...

    def record_operation(self, operation: Operation, outcome: str, seconds: float) -> None: ...

    def count_hints(self, count: int) -> None: ...

    def set_running_steps(self, lane: str, count: int) -> None: ...

    def count_bytes(self, stage: str, done_bytes: int) -> None: ...

    def set_disk_space(self, free_mb: int, floor_mb: int) -> None: ...

    def set_streams(self, count: int) -> None: ...

    def count_cut_off_stream(self) -> None: ...

    def count_page(self, outcome: str) -> None: ...

    def render(self, phases: Mapping[Phase, int]) -> bytes:
        del phases
        return b""
