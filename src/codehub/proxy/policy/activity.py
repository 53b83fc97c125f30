"""Activity: traffic goes in; when each workspace was last used, and by which credentials, is recorded.

Nothing is written per request. A use is recorded at most `flush_s` after it, a quarter of the time to live
where that is shorter; a credential that is in use is noted within a minute.
"""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog

from codehub.core.activity import (
    Traffic,
    WorkRule,
    counts_as_use,
    flush_after_s,
    heard_until,
    is_its_own_doing,
    is_its_own_socket,
)
from codehub.core.ides import IdeProfile, ide_profile
from codehub.core.route import Route, mount_of
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.tunnel import Write
from codehub.proxy.engine.websocket import CONTROL, MASKED, MASKED_HEADER, FrameReader
from codehub.proxy.policy.visits import visit_of

log = structlog.get_logger()
_TICK_S = 1.0
_ANY_SERVER = ide_profile("http")
_KEYS_S = 30.0
_TINY_BYTES_MAX = 106


class Uses(Protocol):
    """Where uses are recorded: the service."""

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None: ...


class Keys(Protocol):
    """Where it is noted that credentials are in use, so that a session lasts while its owner works."""

    async def note_use(self, credentials: Collection[Credential]) -> None: ...


class UseTime(Protocol):
    """What the database's clock shows at a moment of ours."""

    def at(self, monotonic_s: float) -> datetime | None: ...


class WorkspaceMonitor:
    """One workspace's traffic, all its connections together."""

    def __init__(self, workspace: Workspace, clock: Clock, flush_s: float) -> None:
        self.used_at = 0.0
        self.recorded_at = 0.0
        self.flush_s = flush_after_s(workspace.spec.standby_ttl_seconds, flush_s)
        self._clock = clock
        self._profile: IdeProfile = ide_profile(workspace.spec.ide)
        self._mount = mount_of(workspace.id)
        self._rule = WorkRule(self._profile)
        self._heard: dict[Credential, float] = {}
        """In whose tabs our script runs, and until when that may be believed."""
        self._sockets: set[SocketTraffic] = set()
        self._used_by: set[Credential] = set()
        self._left_bytes = 0
        """Of sockets that were closed since it was last evaluated."""
        self.prints = 0
        """Parts of output that went down its sockets since it was last evaluated."""

    def note_request(self, head: RequestHead) -> None:
        credential: Credential | None = head.block.identity
        if credential is not None and credential.kind == "token":
            # Whatever it asks for: a program keeps nothing awake by it, but it was used.
            self._used_by.add(credential)
        if self._clock.monotonic() - self.used_at < _TICK_S:
            return
        if counts_as_use(self._profile, visit_of(head), self._path(head.route)):
            self.note_use(credential)

    def open_socket(self, head: RequestHead) -> "SocketTraffic | None":
        if is_its_own_socket(self._profile, self._path(head.route)):
            return None
        return self.add_socket(head.block.identity)

    def _path(self, route: Route) -> str:
        """Return the path below the mount, which an IDE that keeps its prefix has at its origin, too."""
        return route.rest.removeprefix(self._mount) if self._profile.keeps_prefix else route.rest

    def add_socket(self, credential: Credential | None) -> "SocketTraffic":
        socket = SocketTraffic(self, self._profile, credential)
        self._sockets.add(socket)
        return socket

    def remove_socket(self, socket: "SocketTraffic") -> None:
        self._sockets.discard(socket)
        if not self.is_heard(socket.credential):
            self._left_bytes += socket.bytes_up

    def note_use(self, *credentials: Credential | None) -> None:
        self.used_at = self._clock.monotonic()
        self._used_by.update(credential for credential in credentials if credential is not None)

    def note_script(self, credential: Credential, for_s: float) -> None:
        """Note that our script runs in tabs of theirs, and is silent for so long."""
        until = heard_until(self._clock.monotonic(), for_s)
        self._heard[credential] = max(until, self._heard.get(credential, until))

    def is_heard(self, credential: Credential | None) -> bool:
        """Whether whoever shows this says by a script that they are there."""
        return credential in self._heard

    def evaluate_traffic(self) -> None:
        """Decide whether what was counted since the last time is somebody's work.

        Frames are counted when they pass, and evaluated here, once a tick.
        """
        now = self._clock.monotonic()
        for credential in [key for key, until in self._heard.items() if until < now]:
            del self._heard[credential]
        unheard = [socket for socket in self._sockets if socket.credential not in self._heard]
        bytes_up = self._left_bytes + sum(socket.bytes_up for socket in unheard)
        traffic = Traffic(bytes_up, len(unheard), self.prints)
        is_typing, is_printing = self._rule.is_typing(traffic, now), self._rule.is_printing(traffic, now)
        if is_typing or is_printing:
            users = self._sockets if is_printing else unheard
            self.note_use(*(socket.credential for socket in users if socket.has_sent))
        self.prints = self._left_bytes = 0
        for socket in self._sockets:
            socket.begin_anew()

    def take_keys(self) -> set[Credential]:
        """Return the credentials that it was used by since this was last asked."""
        keys, self._used_by = self._used_by, set()
        return keys


class PortMonitor:
    """The owner's traffic to one workspace's ports: what they ask for is use, an open page is not."""

    def __init__(self, monitor: WorkspaceMonitor) -> None:
        self._monitor = monitor

    def note_request(self, head: RequestHead) -> None:
        if counts_as_use(_ANY_SERVER, visit_of(head), head.route.rest):
            self._monitor.note_use(head.block.identity)

    def open_socket(self, head: RequestHead) -> None:
        del head


class SocketTraffic:
    """What goes over one WebSocket."""

    __slots__ = (
        "_down",
        "_monitor",
        "_profile",
        "_up",
        "bytes_up",
        "credential",
        "has_sent",
    )

    def __init__(self, monitor: WorkspaceMonitor, profile: IdeProfile, credential: Credential | None) -> None:
        self._monitor = monitor
        self._profile = profile
        self._up = FrameReader()
        self._down = FrameReader()
        self.credential = credential
        self.bytes_up = 0
        self.has_sent = False
        """What went over it since it was last evaluated."""

    def begin_anew(self) -> None:
        self.bytes_up = 0
        self.has_sent = False

    def count_up(self, write: Write) -> Write:
        """Count what goes up.

        Most of it are whole data frames too short to be worth reading, a key, an acknowledgement: they are
        known by two bytes, and counted without a step more.
        """
        reader, read_frames, counts_bytes = self._up, self._read_frames, not self._profile.counts_frames_up

        def write_and_count(data: bytes) -> None:
            write(data)
            self.has_sent = True
            size = len(data)
            if (
                counts_bytes
                and MASKED_HEADER < size <= _TINY_BYTES_MAX
                and data[1] == MASKED + size - MASKED_HEADER
                and not (data[0] & CONTROL or reader.is_within)
            ):
                self.bytes_up += size
            else:
                read_frames(data)

        return write_and_count

    def count_down(self, write: Write) -> Write:
        """Count what goes down: where output has a mark, what has one is a part of it."""
        mark = self._profile.output_mark
        if self._profile.busy_prints_per_minute is None:
            return write

        def write_and_search(data: bytes) -> None:
            write(data)
            if data.find(mark) >= 0:  # type: ignore[arg-type]  # else the other one counts
                self.has_sent = True
                self._monitor.prints += 1

        def write_and_count(data: bytes) -> None:
            write(data)
            if frames := len(self._down.feed(data)):
                self.has_sent = True
                self._monitor.prints += frames

        return write_and_count if mark is None else write_and_search

    def _read_frames(self, data: bytes) -> None:
        for size, message in self._up.feed(data):
            if not self._profile.counts_frames_up:
                if not is_its_own_doing(self._profile, message):
                    self.bytes_up += size + MASKED_HEADER
            elif not self._monitor.is_heard(self.credential):
                self._monitor.note_use(self.credential)

    def close(self) -> None:
        self._monitor.remove_socket(self)


class Activity:
    """The monitors of all workspaces that were visited here."""

    def __init__(self, uses: Uses, keys: Keys, time: UseTime, *, clock: Clock, flush_s: float) -> None:
        self._uses = uses
        self._time = time
        self._keys = keys
        self._clock = clock
        self._flush_s = flush_s
        self._monitors: dict[UUID, WorkspaceMonitor] = {}
        self._is_used = asyncio.Event()
        self._keys_in_use: set[Credential] = set()
        self._keys_noted_at = clock.monotonic()

    def monitor(self, workspace: Workspace) -> WorkspaceMonitor:
        """Return this workspace's monitor, told of its time to live, which may have changed."""
        known = self._monitors.get(workspace.id)
        if known is None:
            known = self._monitors[workspace.id] = WorkspaceMonitor(workspace, self._clock, self._flush_s)
            self._is_used.set()
        known.flush_s = flush_after_s(workspace.spec.standby_ttl_seconds, self._flush_s)
        return known

    def port_monitor(self, workspace: Workspace) -> PortMonitor:
        return PortMonitor(self.monitor(workspace))

    async def run(self) -> None:
        """Record uses until cancelled; the last ones are recorded then."""
        try:
            while True:
                await self._is_used.wait()
                await self._clock.sleep(_TICK_S)
                await self.flush()
                if not (self._monitors or self._keys_in_use):
                    self._is_used.clear()
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
        due: dict[UUID, tuple[WorkspaceMonitor, float]] = {}
        for workspace_id, monitor in self._monitors.items():
            monitor.evaluate_traffic()
            is_due = everything or now - monitor.recorded_at >= monitor.flush_s
            if monitor.used_at > monitor.recorded_at and is_due:
                due[workspace_id] = (monitor, monitor.used_at)
        accesses = {key: at for key, (_, used) in due.items() if (at := self._time.at(used)) is not None}
        if not accesses:
            return
        await self._uses.touch(accesses)
        for workspace_id in accesses:
            monitor, used = due[workspace_id]
            monitor.recorded_at = used

    async def _note_keys(self, *, everything: bool) -> None:
        for monitor in self._monitors.values():
            self._keys_in_use |= monitor.take_keys()
        now = self._clock.monotonic()
        if not self._keys_in_use or (now - self._keys_noted_at < _KEYS_S and not everything):
            return
        await self._keys.note_use(self._keys_in_use)
        self._keys_in_use = set()
        self._keys_noted_at = now

    def forget(self, workspace_id: UUID) -> None:
        """Let go of a workspace that nobody visits any more, unless a use of it is still to be recorded."""
        monitor = self._monitors.get(workspace_id)
        if monitor is not None and monitor.used_at <= monitor.recorded_at:
            del self._monitors[workspace_id]
