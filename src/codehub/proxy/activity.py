"""Activity: what connections tell goes in; when each workspace was last used, and by which keys, is recorded, many at once and seldom.

Nothing is written per request. A use is recorded at most `flush_s` after it, a quarter of the time to live where that is shorter; a key
that is in use is noted within a minute.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog

from codehub.core.activity import (
    Window,
    counts_as_use,
    flush_after_s,
    is_its_own_doing,
    is_its_own_socket,
)
from codehub.core.ides import IdeProfile, ide_profile
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock
from codehub.proxy.requests import ID_END, RequestHead
from codehub.proxy.targets import Write
from codehub.proxy.visits import visit_of
from codehub.proxy.websocket import CONTROL, MASKED, MASKED_HEADER, FrameReader

log = structlog.get_logger()
_TICK_S = 1.0
_KEYS_S = 30.0
_TINY = 106
# A tab of code-server: one socket for the window, one for its extensions. Each forgotten tab chats a little for itself.
_SOCKETS_PER_TAB = 2


class Uses(Protocol):
    """Where uses are recorded: the service."""

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None: ...


class Keys(Protocol):
    """Where it is noted that keys are in use, so that a session lasts while its owner works: the doorkeeper."""

    async def note_use(self, credentials: Collection[Credential]) -> None: ...


class UseTime(Protocol):
    """What the database's clock shows at a moment of ours."""

    def at(self, monotonic_s: float) -> datetime | None: ...


class WorkspaceWatch:
    """One workspace's traffic, all its connections together."""

    def __init__(self, workspace: Workspace, clock: Clock, flush_s: float) -> None:
        self.used_at = 0.0
        self.recorded_at = 0.0
        self.flush_s = flush_after_s(workspace.spec.standby_ttl_seconds, flush_s)
        self._clock = clock
        self._profile: IdeProfile = ide_profile(workspace.spec.ide)
        busy, prints = self._profile.busy_bytes_per_minute, self._profile.busy_frames_down_per_minute
        self._busy = None if busy is None else Window(busy)
        self._printing = None if prints is None else Window(prints)
        self._ears: set[SocketEar] = set()
        self._used_by: set[Credential] = set()
        self.bytes_up = 0
        self.frames_down = 0
        """What went over its sockets since it was last judged."""

    def requested(self, head: RequestHead) -> None:
        credential = head.block.credential
        if credential is not None and credential.kind == "token":
            self._used_by.add(
                credential
            )  # whatever it asks for: a program keeps nothing awake by it, but it was used
        if self._clock.monotonic() - self.used_at < _TICK_S:
            return
        if counts_as_use(self._profile, visit_of(head), _path(head)):
            self.used(head.block.credential)

    def opened(self, head: RequestHead) -> "SocketEar | None":
        if is_its_own_socket(self._profile, _path(head)):
            return None
        return self.listen(head.block.credential)

    def listen(self, credential: Credential | None) -> "SocketEar":
        ear = SocketEar(self, self._profile, credential)
        self._ears.add(ear)
        return ear

    def closed(self, ear: "SocketEar") -> None:
        self._ears.discard(ear)

    def used(self, *credentials: Credential | None) -> None:
        self.used_at = self._clock.monotonic()
        self._used_by.update(one for one in credentials if one is not None)

    def judge(self) -> None:
        """Say whether what was counted since the last time is somebody's work. Frames are counted when they pass and judged here, once a tick."""
        now = self._clock.monotonic()
        went_up, self.bytes_up = self.bytes_up, 0
        came_down, self.frames_down = self.frames_down, 0
        tabs = max(1, -(-len(self._ears) // _SOCKETS_PER_TAB))
        is_busy = went_up and self._busy is not None and self._busy.add(went_up, now, tabs=tabs)
        prints = came_down and self._printing is not None and self._printing.add(came_down, now)
        spoke = [ear for ear in self._ears if ear.has_spoken]
        for ear in spoke:
            ear.has_spoken = False
        if is_busy or prints:
            self.used(*(ear.credential for ear in spoke))

    def take_keys(self) -> set[Credential]:
        """Return the keys that it was used by since this was last asked."""
        keys, self._used_by = self._used_by, set()
        return keys


class SocketEar:
    """What one WebSocket tells."""

    __slots__ = (
        "_down",
        "_profile",
        "_up",
        "_watch",
        "credential",
        "has_spoken",
    )

    def __init__(self, watch: WorkspaceWatch, profile: IdeProfile, credential: Credential | None) -> None:
        self._watch = watch
        self._profile = profile
        self._up = FrameReader()
        self._down = FrameReader()
        self.credential = credential
        self.has_spoken = False

    def going_up(self, write: Write) -> Write:
        """Most of it are whole data frames too short to be worth reading, a key, an acknowledgement: they are known by two bytes, and
        counted without a step more."""
        watch, reader, hear, counts_bytes = (
            self._watch,
            self._up,
            self._hear_up,
            not self._profile.counts_frames_up,
        )

        def write_and_count(data: bytes) -> None:
            write(data)
            self.has_spoken = True
            size = len(data)
            if (
                counts_bytes
                and MASKED_HEADER < size <= _TINY
                and data[1] == MASKED + size - MASKED_HEADER
                and not (data[0] & CONTROL or reader.is_within)
            ):
                watch.bytes_up += size
            else:
                hear(data)

        return write_and_count

    def going_down(self, write: Write) -> Write:
        if self._profile.busy_frames_down_per_minute is None:
            return write

        def write_and_count(data: bytes) -> None:
            write(data)
            if frames := len(self._down.feed(data)):
                self.has_spoken = True
                self._watch.frames_down += frames

        return write_and_count

    def _hear_up(self, data: bytes) -> None:
        for size, message in self._up.feed(data):
            if self._profile.counts_frames_up:
                self._watch.used(self.credential)
            elif not is_its_own_doing(self._profile, message):
                self._watch.bytes_up += size + MASKED_HEADER

    def closed(self) -> None:
        self._watch.closed(self)


class Activity:
    """The watches of all workspaces that were visited here."""

    def __init__(self, uses: Uses, keys: Keys, time: UseTime, *, clock: Clock, flush_s: float) -> None:
        self._uses = uses
        self._time = time
        self._keys = keys
        self._clock = clock
        self._flush_s = flush_s
        self._watches: dict[UUID, WorkspaceWatch] = {}
        self._keys_in_use: set[Credential] = set()
        self._keys_noted_at = clock.monotonic()

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
        try:
            await self._record_uses(everything=everything)
            await self._note_keys(everything=everything)
        except StoreUnavailable as error:
            log.warning("activity_not_recorded", reason=str(error))
        except Exception:  # if nothing were recorded any more, everybody would be put to sleep at work
            log.exception("activity_failed")

    async def _record_uses(self, *, everything: bool) -> None:
        now = self._clock.monotonic()
        due: dict[UUID, tuple[WorkspaceWatch, float]] = {}
        for workspace_id, watch in self._watches.items():
            watch.judge()
            is_due = everything or now - watch.recorded_at >= watch.flush_s
            if watch.used_at > watch.recorded_at and is_due:
                due[workspace_id] = (watch, watch.used_at)
        if not due:
            return
        accesses = {key: at for key, (_, used) in due.items() if (at := self._time.at(used)) is not None}
        await self._uses.touch(accesses)
        for watch, used in due.values():
            watch.recorded_at = used

    async def _note_keys(self, *, everything: bool) -> None:
        for watch in self._watches.values():
            self._keys_in_use |= watch.take_keys()
        now = self._clock.monotonic()
        if not self._keys_in_use or (now - self._keys_noted_at < _KEYS_S and not everything):
            return
        await self._keys.note_use(self._keys_in_use)
        self._keys_in_use = set()
        self._keys_noted_at = now

    def forget(self, workspace_id: UUID) -> None:
        """Let go of a workspace that nobody visits any more, unless a use of it is still to be recorded."""
        watch = self._watches.get(workspace_id)
        if watch is not None and watch.used_at <= watch.recorded_at:
            del self._watches[workspace_id]


def _path(head: RequestHead) -> str:
    """Return what follows /w/{id}."""
    return head.target[ID_END:].decode("ascii")
