"""Progress: rate and time left, and nothing where nobody knows."""

import pytest

from codehub.core.progress import Progress, calculate_progress

CASES = [
    # done, total, elapsed, rate, left
    (50, 100, 5.0, 10.0, 5.0),
    (0, 100, 5.0, None, None),
    (50, None, 5.0, 10.0, None),
    (50, 100, 0.0, None, None),
    (120, 100, 6.0, 20.0, 0.0),
]


@pytest.mark.parametrize(("done", "total", "elapsed", "rate", "left"), CASES)
def test_rate_and_time_left_follow_from_what_was_done(
    done: int, total: int | None, elapsed: float, rate: float | None, left: float | None
) -> None:
    assert calculate_progress("archive", done, total, elapsed_s=elapsed) == Progress(
        "archive", done, total, rate, left
    )
