"""Telling a working person from an open tab: a request or traffic goes in, whether it is use comes out.

The rules belong to the IDE, as data (docs/adr/0018). Time comes in as seconds; nothing here has a clock.
"""

import re
from typing import NamedTuple

from codehub.core.ides import IdeProfile
from codehub.core.visit import Intent, Visit, intent

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FILE_EVENT = b"$onFileEvent"
_PATH = re.compile(rb'"path":"([^"]*)"')
_BUCKET_S = 10
_BUCKETS = 6
# A tab of code-server: one socket for the window, one for its extensions. Each forgotten tab sends a little.
_SOCKETS_PER_TAB = 2
_SPARE_S = 10.0


def counts_as_use(profile: IdeProfile, visit: Visit, path: str) -> bool:
    """Whether a request is somebody's doing. `path` is what follows its mount."""
    kind = intent(visit)
    if kind is not Intent.BACKGROUND:
        return True
    if visit.is_upgrade or visit.method in _SAFE:
        return False
    return profile.writes_under is None or path.startswith(profile.writes_under)


def is_its_own_socket(profile: IdeProfile, path: str) -> bool:
    """Whether the IDE talks of itself over it.

    JupyterLab tells its tab of every file that the tab itself has asked for, every ten seconds.
    """
    return path.startswith(profile.own_sockets)


def is_its_own_doing(profile: IdeProfile, message: bytes) -> bool:
    """Whether a message up only answers that the IDE wrote its own files: an open tab does each second."""
    if profile.own_files is None or _FILE_EVENT not in message:
        return False
    paths = _PATH.findall(message)
    return bool(paths) and all(profile.own_files in path for path in paths)


class Window:
    """How much there was in the last minute, and whether that is more than an idle tab's."""

    __slots__ = ("_bucket", "_per_bucket", "_per_minute", "_sizes", "_total")

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._per_bucket = per_minute / _BUCKETS
        self._bucket = 0
        self._sizes = [0] * _BUCKETS
        self._total = 0

    def add(self, size: int, at_s: float, *, tabs: int = 1) -> bool:
        """Note it, and say whether somebody is at work now.

        That is a busy minute, and a busy moment in it, beside what idle tabs send.
        """
        bucket = int(at_s) // _BUCKET_S
        if bucket != self._bucket:
            passed = bucket - self._bucket
            self._bucket = bucket
            kept = self._sizes[passed:] if passed < _BUCKETS else []
            self._sizes = kept + [0] * (_BUCKETS - len(kept))
            self._total = sum(self._sizes)
        self._sizes[-1] += size
        self._total += size
        return self._total > self._per_minute * tabs and self._sizes[-1] > self._per_bucket * tabs


class Traffic(NamedTuple):
    """What passed over a workspace's sockets since it was looked at last."""

    bytes_up: int = 0
    sockets: int = 0
    """So many send these bytes, of tabs in which no script of ours runs: where one does, it says itself that
    somebody is there, and what else goes up says nothing.
    """
    prints: int = 0
    """Parts of output that went down, whichever tab shows it."""


class WorkRule:
    """Whether traffic is somebody's work, by what the IDE is."""

    def __init__(self, profile: IdeProfile) -> None:
        busy, prints = profile.busy_bytes_per_minute, profile.busy_prints_per_minute
        self._busy = None if busy is None else Window(busy)
        self._printing = None if prints is None else Window(prints)

    def is_typing(self, traffic: Traffic, at_s: float) -> bool:
        tabs = max(1, -(-traffic.sockets // _SOCKETS_PER_TAB))
        return bool(traffic.bytes_up and self._busy and self._busy.add(traffic.bytes_up, at_s, tabs=tabs))

    def is_printing(self, traffic: Traffic, at_s: float) -> bool:
        return bool(traffic.prints and self._printing and self._printing.add(traffic.prints, at_s))


def heard_until(now_s: float, next_s: float) -> float:
    """Return until when a script counts as running that said when it asks again.

    A page that nobody sees may be late by as much.
    """
    return now_s + 2 * next_s + _SPARE_S


def flush_after_s(standby_ttl_s: int | None, longest_s: float) -> float:
    """Return how old an unrecorded use may become: a quarter of a short time to live (spec §5)."""
    return longest_s if standby_ttl_s is None else min(longest_s, standby_ttl_s / 4)
