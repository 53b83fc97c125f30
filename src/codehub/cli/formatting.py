"""Formats values for people: times as ages, seconds, bytes, and states with their operation. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from codehub.cli.failures import Failed
from codehub.cli.language import doing_text, say, stage_text

_CONTROL = re.compile(rb"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]")
# Unicode's Bidi_Control: an old name that holds one would be displayed in another order.
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

WorkspaceView = Mapping[str, Any]
_THOUSAND = 1000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,12})([smhd]?)")  # a longer number would overflow
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


def state(workspace: WorkspaceView) -> str:
    """Return the state, and the operation in progress: RUNNING, or STANDBY, starting."""
    doing = doing_text(workspace["operation"])
    progress = workspace["progress"]
    if progress is not None and progress["total_bytes"]:
        percent = 100 * progress["done_bytes"] // progress["total_bytes"]
        doing = f"{stage_text(progress['stage'])} {percent} %"
    if workspace["held_up"] is not None:
        doing += f", {say('held_up')}"
    return f"{workspace['display']}, {doing}" if doing else str(workspace["display"])


def actor(event: WorkspaceView) -> str:
    """Return who did it. The name of one of several controllers is only for programs."""
    name = str(event["actor"])
    return "controller" if name.startswith("controller-") else name


def why(event: WorkspaceView) -> str:
    """Return why it was done. An older server has no text but the reason."""
    return str(event.get("message", event["reason"]))


def ago(at: str | None, now: datetime | None) -> str:
    if at is None:
        return say("never")
    if now is None:
        return at
    return say("ago", span=span((now - _time(at)).total_seconds()))


def ahead(at: str | None, now: datetime | None) -> str:
    if at is None:
        return ""
    if now is None:
        return at
    return say("ahead", span=span((_time(at) - now).total_seconds()))


def is_over(at: str, now: datetime | None) -> bool:
    return now is not None and _time(at) <= now


def clock(at: str) -> str:
    """Return a time as this machine's people read it."""
    return f"{_time(at).astimezone():%Y-%m-%d %H:%M:%S}"


def span(seconds: float) -> str:
    total_s = max(0, round(seconds))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if total_s >= 2 * size or (unit == "min" and total_s >= size):
            return f"{total_s // size} {unit}"
    return f"{total_s} s"


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
        raise Failed("USAGE", say("no_time.never" if may_be_never else "no_time", text=text))
    return int(match[1]) * _UNITS[match[2] or "s"]


def harmless_bytes(line: bytes) -> bytes:
    """Remove control sequences, but not colours: output of a workspace must not control the terminal."""
    return _CONTROL.sub(b"", line)


def harmless(value: Any) -> Any:
    """The same, for an object of the API's."""
    if isinstance(value, str):
        text = harmless_bytes(value.encode("utf-8", "replace")).decode("utf-8", "replace")
        return _BIDI.sub("", text).replace("\x1b", "")
    if isinstance(value, Mapping):
        return {key: harmless(item) for key, item in value.items()}
    return [harmless(item) for item in value] if isinstance(value, Sequence) else value


def _time(at: str) -> datetime:
    return datetime.fromisoformat(at)
