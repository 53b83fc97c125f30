"""How things are told: times as ages, seconds and bytes for people, states with what is under way. Pure: the time comes in."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from codehub.cli.failures import Failed
from codehub.cli.language import doing_text, say, stage_text

_CONTROL = re.compile(rb"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]")
# Unicode's Bidi_Control: a name that holds one, from before codehub refused them, would be shown in another order.
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

WorkspaceView = Mapping[str, Any]
_THOUSAND = 1000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,12})([smhd]?)")  # whatever is longer no clock can count with
_COLOURS = {
    "RUNNING": "green",
    "STANDBY": "blue",
    "ARCHIVED": "cyan",
    "PENDING": "white",
    "ERROR": "red",
    "DELETING": "magenta",
    "DELETED": "magenta",
}


def colour_of(display: str) -> str:
    return _COLOURS.get(display, "white")


def state(shown: WorkspaceView) -> str:
    """RUNNING, or what is done about it: STANDBY, starting."""
    doing = doing_text(shown["operation"])
    progress = shown["progress"]
    if progress is not None and progress["total_bytes"]:
        percent = 100 * progress["done_bytes"] // progress["total_bytes"]
        doing = f"{stage_text(progress['stage'])} {percent} %"
    if shown["held_up"] is not None:
        doing += f", {say('held_up')}"
    return f"{shown['display']}, {doing}" if doing else str(shown["display"])


def actor(event: WorkspaceView) -> str:
    """Who did it. Which of several controllers it was, only programs are told."""
    name = str(event["actor"])
    return "controller" if name.startswith("controller-") else name


def ago(at: str | None, now: datetime | None) -> str:
    if at is None:
        return "never"
    if now is None:
        return at
    return f"{span((now - _time(at)).total_seconds())} ago"


def ahead(at: str | None, now: datetime | None) -> str:
    if at is None:
        return ""
    if now is None:
        return at
    return f"in {span((_time(at) - now).total_seconds())}"


def is_over(at: str, now: datetime | None) -> bool:
    return now is not None and _time(at) <= now


def clock(at: str) -> str:
    """Return a time as this machine's people read it."""
    return f"{_time(at).astimezone():%Y-%m-%d %H:%M:%S}"


def span(seconds: float) -> str:
    whole = max(0, round(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if whole >= 2 * size or (unit == "min" and whole >= size):
            return f"{whole // size} {unit}"
    return f"{whole} s"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < _THOUSAND or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _THOUSAND
    raise AssertionError


def seconds(text: str, *, may_be_never: bool) -> int | None:
    """Read 90, 90s, 5m, 2h, 1d; and never, which is None."""
    if may_be_never and text == "never":
        return None
    match = _SPAN.fullmatch(text)
    if match is None:
        never = ", or never" if may_be_never else ""
        raise Failed("USAGE", f"{text!r} is no time: say it as 90s, 5m, 2h or 1d{never}")
    return int(match[1]) * _UNITS[match[2] or "s"]


def harmless_bytes(line: bytes) -> bytes:
    """What comes from a workspace may colour a terminal, not command it."""
    return _CONTROL.sub(b"", line)


def harmless(value: Any) -> Any:
    """The same, for an object of the API's."""
    if isinstance(value, str):
        text = harmless_bytes(value.encode("utf-8", "replace")).decode("utf-8", "replace")
        return _BIDI.sub("", text).replace("\x1b", "")
    if isinstance(value, Mapping):
        return {key: harmless(one) for key, one in value.items()}
    return [harmless(one) for one in value] if isinstance(value, Sequence) else value


def _time(at: str) -> datetime:
    return datetime.fromisoformat(at)
