"""The dashboard's words: a language in, something that says things in it out."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from codehub.dashboard.words import en, ko

WORDS: Mapping[str, Mapping[str, str]] = {"en": en.WORDS, "ko": ko.WORDS}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SIZES = ("B", "KB", "MB", "GB", "TB")
_STEP, _WHOLE_FROM = 1000, 100

Say = Callable[..., str]


def speaker(language: str) -> Say:
    """Return what says a thing by its key. A key that is not there is a mistake of ours, and raises."""
    words = WORDS[language]

    def say(key: str, **facts: object) -> str:
        return words[key].format(**facts) if facts else words[key]

    return say


def span(seconds: float, say: Say) -> str:
    """Return a length of time by its largest unit: what the browser's clock goes on with (static/codehub.js has the same rule)."""
    seconds = abs(seconds)
    for unit, size in _UNITS:
        if seconds >= size or unit == "s":
            return say(f"unit.{unit}", n=int(seconds // size))
    raise AssertionError


def relative(at: datetime, now: datetime, say: Say) -> str:
    distance = at - now
    if abs(distance) < timedelta(seconds=5):
        return say("now")
    return say("in" if distance > timedelta() else "ago", t=span(distance.total_seconds(), say))


def size(amount: int) -> str:
    """Return bytes as people write them."""
    value = float(amount)
    for unit in _SIZES:
        if value < _STEP or unit == _SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= _WHOLE_FROM else f"{value:.1f} {unit}"
        value /= _STEP
    raise AssertionError
