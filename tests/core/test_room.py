"""Room on a disk: when it is short, who grows, and what is worth a write."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from codehub.core.disk_space import DiskSpace, Usage, grown_mb, is_noticeable
from codehub.core.messages import Code, Message

ONE, OTHER, NEW = UUID(int=1), UUID(int=2), UUID(int=3)
USAGE = Usage(1000, 0.5, 2000, datetime(2026, 11, 18, tzinfo=UTC))


@pytest.mark.parametrize(("free", "is_short"), [(1023, True), (1024, False), (0, True)])
def test_below_the_floor_it_is_short(free: int, is_short: bool) -> None:
    assert DiskSpace(free, 1024).is_short is is_short


def test_a_shortage_says_how_much_is_left() -> None:
    assert DiskSpace(12, 1024).message == Message(Code.NO_ROOM, {"free": 12, "floor": 1024})


def test_what_grows_is_what_is_larger_than_when_it_was_measured_before() -> None:
    before = {ONE: 100, OTHER: 100}
    assert grown_mb(before, {ONE: 116, OTHER: 115, NEW: 900}) == {ONE: 16}


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [
        ({}, False),
        ({"memory_mb": 1040}, False),
        ({"memory_mb": 1060}, True),
        ({"memory_mb": None}, True),
        ({"disk_mb": 1880}, True),
        ({"disk_mb": 2010}, False),
        ({"disk_mb": None}, True),
        ({"cpu": 0.55}, False),
        ({"cpu": 0.7}, True),
        ({"cpu": None}, True),
    ],
)
def test_only_what_people_would_see_is_worth_a_write(change: dict[str, int | None], is_noticed: bool) -> None:
    assert is_noticeable(USAGE, replace(USAGE, **change)) is is_noticed  # type: ignore[arg-type]


def test_the_first_measure_is_always_worth_one() -> None:
    assert is_noticeable(None, USAGE)
