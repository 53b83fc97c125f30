"""Lengths of time and amounts of bytes as people write them, in each language that codehub speaks."""

from datetime import datetime, timedelta

from codehub.core.progress import Progress
from codehub.text import section

# A page's own clock goes on with the same texts: static/codehub.js of the dashboard has the same rules.
_SECTION = "measure"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_UNITS = (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S), ("s", 1))
_SIZES = ("B", "KB", "MB", "GB", "TB")
_STEP, _WHOLE_FROM, _PERCENT_MAX = 1000, 100, 100
_NOW = timedelta(seconds=5)


def span(seconds: float, language: str) -> str:
    """Return a length of time by its largest unit."""
    unit, length = next((each for each in _UNITS if abs(seconds) >= each[1]), _UNITS[-1])
    count = int(abs(seconds) // length)
    texts = section(language, _SECTION)
    return texts["unit.d.1"] if (unit, count) == ("d", 1) else texts[f"unit.{unit}"].format(n=count)


def left(at: datetime, now: datetime, language: str) -> str:
    """Return how long it is until then. One unit would hide much of a
    day or an hour, so these come with the next smaller one.
    """
    seconds = max((at - now).total_seconds(), 0)
    length, least = (_DAY_S, _HOUR_S) if seconds >= _DAY_S else (_HOUR_S, _MINUTE_S)
    rest = seconds % length
    has_more = seconds >= length and rest >= least
    return f"{span(seconds, language)} {span(rest, language)}" if has_more else span(seconds, language)


def relative(at: datetime, now: datetime, language: str) -> str:
    """Return how far a time lies from now."""
    distance = at - now
    if abs(distance) < _NOW:
        return section(language, _SECTION)["now"]
    if distance < timedelta():
        return section(language, _SECTION)["ago"].format(t=span(distance.total_seconds(), language))
    return section(language, _SECTION)["in"].format(t=span(_nearest(distance.total_seconds()), language))


def _nearest(seconds: float) -> float:
    """Return a length of time as so many of its largest unit as it is
    nearest to: a week that began a second ago still is a week.
    """
    smaller = (_HOUR_S, _MINUTE_S, 1, 1)
    for (_unit, length), less in zip(_UNITS, smaller, strict=True):
        if seconds + less / 2 >= length:
            return (seconds + length / 2) // length * length
    return seconds


def size(amount: float) -> str:
    power = 0
    while amount >= _STEP and power < len(_SIZES) - 1:
        amount /= _STEP
        power += 1
    is_whole = power == 0 or amount >= _WHOLE_FROM
    return f"{amount:.0f} {_SIZES[power]}" if is_whole else f"{amount:.1f} {_SIZES[power]}"


def percent(progress: Progress) -> int | None:
    """Return how much of it is done; None where nobody knows how much there is."""
    if not progress.total_bytes:
        return None
    return min(_PERCENT_MAX, progress.done_bytes * _PERCENT_MAX // progress.total_bytes)


def progress_text(progress: Progress, language: str, *, saying: bool = True) -> str:
    """Return how far, how fast and how long still, as far as each is known. `saying`: what is done, too."""
    texts = section(language, _SECTION)
    parts = [texts[f"stage.{progress.stage}"]] if saying else []
    if progress.total_bytes:
        done, total = size(progress.done_bytes), size(progress.total_bytes)
        parts.append(texts["of"].format(done=done, total=total))
    elif progress.done_bytes:
        parts.append(size(progress.done_bytes))
    if progress.bytes_per_second:
        parts.append(f"{size(progress.bytes_per_second)}/s")
    if progress.eta_seconds is not None and progress.eta_seconds >= 1:
        parts.append(texts["left"].format(t=span(progress.eta_seconds, language)))
    return " · ".join(parts)
