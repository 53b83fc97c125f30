"""A browser that signed in before is known by a word that nobody else can write, for one account, for a
time.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from codehub.core.access import DEVICE, login_throttles
from codehub.core.devices import DEVICE_LASTS, Device, read_device, written_device

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
KEY = b"k" * 32
DEVICE_OF_ANN = Device(UUID(int=7), NOW)
WORD = written_device(DEVICE_OF_ANN, "Ann", KEY)


@pytest.mark.parametrize("username", ["Ann", "ann", "ANN"])
def test_a_device_is_known_to_the_account_it_signed_in_to(username: str) -> None:
    assert read_device(WORD, username, KEY) == DEVICE_OF_ANN


@pytest.mark.parametrize(
    ("word", "username", "key"),
    [
        (WORD, "bob", KEY),
        (WORD, "Ann ", KEY),
        (WORD, "Ann", b"x" * 32),
        (WORD[:-1] + ("0" if WORD[-1] != "0" else "1"), "Ann", KEY),
        (WORD.replace(UUID(int=7).hex, UUID(int=8).hex), "Ann", KEY),
        (WORD.replace(f".{int(NOW.timestamp())}.", f".{int(NOW.timestamp()) + 1}."), "Ann", KEY),
        ("", "Ann", KEY),
        (WORD + "\n", "Ann", KEY),
        ("\ud800", "\ud800", KEY),
    ],
)
def test_no_other_word_is_one(word: str, username: str, key: bytes) -> None:
    assert read_device(word, username, key) is None


@pytest.mark.parametrize(
    ("after", "is_known"),
    [
        (timedelta(0), True),
        (DEVICE_LASTS - timedelta(seconds=1), True),
        (DEVICE_LASTS, False),
        (timedelta(seconds=-1), False),
    ],
)
def test_a_device_is_known_for_a_time(after: timedelta, is_known: bool) -> None:
    assert DEVICE_OF_ANN.is_known(NOW + after) is is_known


def test_what_a_known_device_tries_counts_against_itself_alone() -> None:
    assert login_throttles("ann", "10.0.0.1", UUID(int=7)) == {f"device {UUID(int=7)}": DEVICE}
    strangers = login_throttles("ann", "10.0.0.1")
    assert not strangers.keys() & login_throttles("ann", "10.0.0.1", UUID(int=7)).keys()
