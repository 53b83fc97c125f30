"""Progress of long work: how far, how fast, how long still."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """What people are shown while bytes move. Unknown is None."""

    stage: str
    done_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None
    eta_seconds: float | None


def calculate_progress(stage: str, done: int, total: int | None, *, elapsed_s: float) -> Progress:
    """Return the progress of a stage that has moved `done` bytes in that time."""
    rate = done / elapsed_s if elapsed_s > 0 and done else None
    left_s = (total - done) / rate if total is not None and rate else None
    return Progress(stage, done, total, rate, None if left_s is None else max(left_s, 0.0))
