"""Activity: what connections tell goes in, and when each workspace was last used is recorded, many at once and seldom.

Nothing is written per request. A use is recorded at most `flush_s` after it, a quarter of the time to live where that is shorter.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog

from codehub.core.activity import (
    IdeProfile,
    Window,
    counts_as_use,
    flush_after_s,
    is_its_own_doing,
    profile_of,
)
from codehub.core.workspace import Workspace
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock
from codehub.proxy.frames import FrameReader
from codehub.proxy.requests import RequestHead
from codehub.proxy.visits import visit_of

log = structlog.get_logger()
_TICK_S = 1.0
_ID_END = 39
_HEADER_BYTES = 6


class Uses(Protocol):
    """Where uses are recorded: the service."""

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None: ...


class DatabaseTime(Protocol):
    """What the database's clock shows at a moment of ours."""

    def at(self, monotonic_s: float) -> datetime | None: ...


class WorkspaceWatch:
    """One workspace's traffic, all its connections together."""

    def __init__(self, workspace: Workspace, clock: Clock, flush_s: float) -> None:
        self.used_at = 0.0
        self.recorded_at = 0.0
        self.flush_s = flush_after_s(workspace.spec.standby_ttl_seconds, flush_s)
        self._clock = clock
        self._profile: IdeProfile = profile_of(workspace.spec.ide)
        busy, prints = self._profile.busy_bytes_per_minute, self._profile.busy_frames_down_per_minute
        self._busy = None if busy is None else Window(busy)
        self._printing = None if prints is None else Window(prints)
        self.bytes_up = 0
        self.frames_down = 0
        """What went over its sockets since it was last judged."""

    def requested(self, head: RequestHead) -> None:
        if self._clock.monotonic() - self.used_at < _TICK_S:
            return
        path = head.target[_ID_END:].decode("ascii")
        if counts_as_use(self._profile, visit_of(head), path):
            self.used()

    def opened(self, _head: RequestHead) -> "SocketEar":
        return SocketEar(self, self._profile)

    def used(self) -> None:
        self.used_at = self._clock.monotonic()

    def judge(self) -> None:
        """Say whether what was counted since the last time is somebody's work. Frames are counted when they pass and judged here, once a tick."""
        now = self._clock.monotonic()
        went_up, self.bytes_up = self.bytes_up, 0
        came_down, self.frames_down = self.frames_down, 0
        is_busy = went_up and self._busy is not None and self._busy.add(went_up, now)
        prints = came_down and self._printing is not None and self._printing.add(came_down, now)
        if is_busy or prints:
            self.used()


class SocketEar:
    """What one WebSocket tells."""

    __slots__ = ("_counts_bytes", "_down", "_profile", "_up", "_watch", "hears_down")

    def __init__(self, watch: WorkspaceWatch, profile: IdeProfile) -> None:
        self._watch = watch
        self._profile = profile
        self._counts_bytes = not profile.counts_frames_up
        self._up = FrameReader()
        self.hears_down = profile.busy_frames_down_per_minute is not None
        self._down = FrameReader() if self.hears_down else None

    def up(self, data: bytes) -> None:
        if self._counts_bytes and self._up.is_one_tiny(data):
            self._watch.bytes_up += len(data)
            return
        for size, message in self._up.feed(data):
            if self._profile.counts_frames_up:
                self._watch.used()
            elif not is_its_own_doing(self._profile, message):
                self._watch.bytes_up += size + _HEADER_BYTES

    def down(self, data: bytes) -> None:
        if self._down is not None:
            self._watch.frames_down += len(self._down.feed(data))

    def closed(self) -> None:
        """Nothing to do: a closed socket is no use."""


class Activity:
    """The watches of all workspaces that were visited here."""

    def __init__(self, uses: Uses, *, clock: Clock, flush_s: float) -> None:
        self._uses = uses
        self._clock = clock
        self._flush_s = flush_s
        self._watches: dict[UUID, WorkspaceWatch] = {}
        self.time: DatabaseTime | None = None

    def watch(self, workspace: Workspace) -> WorkspaceWatch:
        """Return the watch of this workspace; one that exists is told of its time to live, which may have changed."""
        known = self._watches.get(workspace.id)
        if known is None:
            known = self._watches[workspace.id] = WorkspaceWatch(workspace, self._clock, self._flush_s)
        known.flush_s = flush_after_s(workspace.spec.standby_ttl_seconds, self._flush_s)
        return known

    async def run(self) -> None:
        """Record uses until cancelled; the last ones are recorded then."""
        try:
            while True:
                await self._clock.sleep(_TICK_S)
                await self.flush()
        finally:
            await self.flush(everything=True)

    async def flush(self, *, everything: bool = False) -> None:
        """Record what is due. What can't be recorded now is due again."""
        now = self._clock.monotonic()
        due: dict[UUID, tuple[WorkspaceWatch, float]] = {}
        for workspace_id, watch in self._watches.items():
            watch.judge()
            is_due = everything or now - watch.recorded_at >= watch.flush_s
            if watch.used_at > watch.recorded_at and is_due:
                due[workspace_id] = (watch, watch.used_at)
        if not due or self.time is None:
            return
        accesses = {key: at for key, (_, used) in due.items() if (at := self.time.at(used)) is not None}
        try:
            await self._uses.touch(accesses)
        except StoreUnavailable as error:
            log.warning("activity_not_recorded", reason=str(error))
            return
        for watch, used in due.values():
            watch.recorded_at = used

    def forget(self, workspace_id: UUID) -> None:
        """Let go of a workspace that nobody visits any more, unless a use of it is still to be recorded."""
        watch = self._watches.get(workspace_id)
        if watch is not None and watch.used_at <= watch.recorded_at:
            del self._watches[workspace_id]
