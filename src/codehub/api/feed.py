"""The live feed of one process: events of the history in, one message to each stream they concern out.

One reader follows the history for all streams. A hint wakes it, and a tick, should every hint be lost.
Whoever reads too slowly is cut off, and comes back with Last-Event-ID: nothing is kept for them here.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from codehub.api import render
from codehub.api.errors import field_error
from codehub.api.view import View
from codehub.core.access import Person
from codehub.core.idle import sleeps_at
from codehub.core.listing import BEFORE_ALL, list_position
from codehub.core.messages import Code, Message
from codehub.ports.store import FeedEvent, PageQuery, Position, StoreUnavailable
from codehub.text import DEFAULT
from codehub.web.dependencies import Dependencies

if TYPE_CHECKING:
    from codehub.core.progress import Progress

log = structlog.get_logger()

ANSWER_S_MAX = 3600.0  # then its reader comes back, and shows the key again
_BATCH = 500
_TICK_S = 1.0
_HELD_BACK_S = 0.02
BACKLOG_MAX = 512
_EVERYTHING_PAGE = 200
NO_EVENT = 0  # the history counts from 1: who comes back with this gets everything anew


@dataclass(eq=False, slots=True, kw_only=True)
class Held:
    """An answer that goes on: whose key it hangs on, and for how long it may."""

    reader: Person
    seconds: float
    is_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Its key has ended or changed."""
    leaves: asyncio.Event
    """Whether this process ends: its reader comes back to another. All of them share it."""


@dataclass(eq=False, slots=True, kw_only=True)
class Stream(Held):
    """What one reader has still to be sent. `owner_id` None: everybody's workspaces."""

    owner_id: UUID | None
    begins_after: Position
    language: str = DEFAULT
    waiting: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(BACKLOG_MAX))

    def wants(self, owner_id: UUID) -> bool:
        return self.owner_id in (None, owner_id)


class LiveFeed:
    def __init__(self, parts: Dependencies, view: View) -> None:
        self._parts = parts
        self._store = parts.store
        self._view = view
        self._held: set[Held] = set()
        self._streams: set[Stream] = set()
        self._position: Position | None = None
        self._warned: dict[UUID, datetime] = {}
        self._moved: dict[UUID, Progress] = {}
        self._woken = asyncio.Event()
        self._leaves = asyncio.Event()

    async def run(self) -> None:
        """Follow the history until cancelled. While the database is away nothing is lost: it is read
        later.
        """
        async with AsyncExitStack() as stack:
            hints = await stack.enter_async_context(self._parts.hints.listen())
            people = await stack.enter_async_context(self._parts.people_hints.listen())
            for name, work in (
                ("wake", self._wake(hints)),
                ("revoke", self._revoke(people)),
                ("tick", self._tick()),
            ):
                task = self._parts.tasks.spawn(work, name=f"feed {name}")
                stack.callback(task.cancel)
            while True:
                await self._woken.wait()
                self._woken.clear()
                try:
                    await self._catch_up()
                except StoreUnavailable as error:
                    log.warning("feed_waits", reason=str(error))

    # Streams

    @property
    def held(self) -> frozenset[Held]:
        """The answers that go on now: streams, and logs that are followed."""
        return frozenset(self._held)

    async def hold(self, person: Person) -> Held:
        """Begin an answer that ends with this person's key, and is nobody's stream."""
        held = Held(reader=person, seconds=await self._seconds(person), leaves=self._leaves)
        self._refuse_one_more(person)
        self._held.add(held)
        return held

    async def open(self, owner_id: UUID | None, person: Person, *, language: str = DEFAULT) -> Stream:
        """Begin a stream: from now on it gets everything that is after its beginning."""
        seconds = await self._seconds(person)
        if self._position is None:
            end = await self._store.feed_end()
            self._begin(end)
        assert self._position is not None
        self._refuse_one_more(person)
        stream = Stream(
            owner_id=owner_id,
            reader=person,
            seconds=seconds,
            begins_after=self._position,
            language=language,
            leaves=self._leaves,
        )
        self._held.add(stream)
        self._streams.add(stream)
        self._parts.metrics.set_streams(len(self._streams))
        return stream

    def _refuse_one_more(self, person: Person) -> None:
        """Nothing is awaited between this and the answer's beginning: the count is exact."""
        most = self._parts.ceilings.streams
        if sum(held.reader.id == person.id for held in self._held) >= most:
            raise field_error("events", Message(Code.TOO_MANY_STREAMS, {"max": most}), max=most)

    def _begin(self, end: Position) -> None:
        """Follow from here, unless somebody else opened a stream meanwhile."""
        if self._position is None:
            self._position = end

    async def _seconds(self, person: Person) -> float:
        """Return for how long an answer to this key may go on."""
        if person.expires_at is None:
            return ANSWER_S_MAX
        left = person.expires_at - await self._store.now()
        return min(ANSWER_S_MAX, max(0.0, left.total_seconds()))

    def end_all(self) -> None:
        """End every answer that goes on, in order, and at once whatever is still asked for."""
        self._leaves.set()

    def close(self, held: Held) -> None:
        self._held.discard(held)
        if not isinstance(held, Stream):
            return
        self._streams.discard(held)
        self._parts.metrics.set_streams(len(self._streams))
        if not self._streams:
            self._position = None

    async def since(self, stream: Stream, seq: int) -> AsyncIterator[bytes]:
        """Yield what the reader missed between this event and the stream's
        beginning; or, if that is too long ago, everything anew.
        """
        position = await self._store.feed_position(seq)
        if position is None:
            async for sent in self._load_all(stream):
                yield sent
            return
        while position < stream.begins_after:
            feed = await self._store.feed(position, limit=_BATCH, owner_user_id=stream.owner_id)
            missed = [event for event in feed.events if event.position <= stream.begins_after]
            for missed_message in await self._messages(missed, stream.language):
                yield missed_message
            if not missed:
                return
            position = feed.position

    async def _load_all(self, stream: Stream) -> AsyncIterator[bytes]:
        """Yield every workspace, and only then an id to go on from:
        whoever is cut off before it gets all of it again.
        """
        after = BEFORE_ALL
        while True:
            query = PageQuery(_EVERYTHING_PAGE, stream.owner_id, after)
            rows = await self._store.page(query)
            for body in await self._view.render(rows, stream.language):
                yield message("workspace_updated", body, NO_EVENT)
            if len(rows) < _EVERYTHING_PAGE:
                break
            after = list_position(rows[-1])
        yield message("heartbeat", b"{}", stream.begins_after.seq)

    async def pause(self, seconds: float) -> None:
        await self._parts.clock.sleep(seconds)

    # The reader

    async def _catch_up(self) -> None:
        while (position := self._position) is not None:
            feed = await self._store.feed(position, limit=_BATCH)
            messages: dict[str, list[bytes]] = {}
            # Meanwhile a stream in another language may be opened, which is to get these, too.
            while languages := {stream.language for stream in self._streams} - messages.keys():
                for language in languages:
                    messages[language] = await self._messages(feed.events, language)
            if self._position is not position:
                continue  # the last stream was closed, and another opened, while this was read
            for place, event in enumerate(feed.events):
                streams = [stream for stream in self._streams if stream.wants(event.owner_user_id)]
                for language, of_language in messages.items():
                    self._send(of_language[place], [each for each in streams if each.language == language])
            self._position = feed.position if feed.events else position
            if not feed.events:
                if not feed.is_held_back:
                    return
                await self._parts.clock.sleep(_HELD_BACK_S)

    async def _messages(self, events: Sequence[FeedEvent], language: str) -> list[bytes]:
        """Return a message for each event, with the workspace as it is now."""
        ids = {event.workspace_id for event in events if not event.is_end}
        rows = await self._store.several(ids) if ids else {}
        bodies = dict(zip(rows, await self._view.render(list(rows.values()), language), strict=True))
        return [
            message("workspace_deleted", _id(event.workspace_id), event.position.seq)
            if event.is_end
            else message("workspace_updated", bodies[event.workspace_id], event.position.seq)
            for event in events
        ]

    def _send(self, text: bytes, streams: Collection[Stream], *, may_be_lost: bool = False) -> None:
        for stream in streams:
            try:
                stream.waiting.put_nowait(text)
            except asyncio.QueueFull:
                if not may_be_lost and not stream.is_ended.is_set():
                    self._parts.metrics.count_cut_off_stream()
                    log.info("slow_reader_cut_off", user_id=str(stream.reader.id))
                    stream.is_ended.set()

    async def _wake(self, hints: AsyncIterator[frozenset[UUID]]) -> None:
        async for heard in hints:
            self._parts.metrics.count_hints(max(len(heard), 1))
            self._woken.set()

    async def _revoke(self, hints: AsyncIterator[frozenset[UUID]]) -> None:
        """End the answers to people whose keys have changed: they come back if theirs is still good."""
        async for people in hints:
            if (
                not people
            ):  # the database was away, and its history may be another: the next stream begins anew
                self._position = None
            for held in self._held:
                if not people or held.reader.id in people:
                    held.is_ended.set()

    async def _tick(self) -> None:
        while True:
            await self._parts.clock.sleep(_TICK_S)
            self._woken.set()
            try:
                if self._held:
                    await self._end_lost_keys()
                if self._streams:
                    await self._tell_what_moves()
                    await self._tell_who_sleeps_soon()
            except StoreUnavailable as error:
                log.warning("feed_waits", reason=str(error))
            except Exception:  # the tick stands in for every hint that is lost: it must go on
                log.exception("tick_failed")

    async def _end_lost_keys(self) -> None:
        """End the answers to keys that have ended, or of people who may
        less than they did, should the hint of it be lost.
        """
        held = list(self._held)
        users = await self._parts.access.users_by_keys({answer.reader.key_sha256 for answer in held})
        for answer in held:
            if users.get(answer.reader.key_sha256) != answer.reader.user:
                answer.is_ended.set()

    async def _tell_what_moves(self) -> None:
        moving = await self._store.all_progress()
        for moved in moving:
            if self._moved.get(moved.workspace_id) != moved.progress:
                body = {"id": str(moved.workspace_id), **render.progress_shape(moved.progress)}
                self._tell("workspace_progress", body, moved.owner_user_id)
        self._moved = {moved.workspace_id: moved.progress for moved in moving}

    async def _tell_who_sleeps_soon(self) -> None:
        rows = await self._store.sleeping_soon(timedelta(seconds=self._parts.sleep_warning_s))
        soon = {row.id: at for row in rows if (at := sleeps_at(row)) is not None}
        for row in rows:
            at = soon.get(row.id)
            if at is not None and self._warned.get(row.id) != at:
                body = {"id": str(row.id), "sleeps_at": render.time(at)}
                self._tell("workspace_sleeping_soon", body, row.spec.owner_user_id)
        self._warned = soon

    def _tell(self, kind: str, body: object, owner_id: UUID) -> None:
        """Send what may be lost: it has no id, and cuts nobody off."""
        streams = [stream for stream in self._streams if stream.wants(owner_id)]
        self._send(message(kind, render.to_json(body)), streams, may_be_lost=True)


def message(kind: str, body: bytes, seq: int | None = None) -> bytes:
    """Return one message as it goes over the wire."""
    number = b"" if seq is None else b"id: %d\n" % seq
    return b"%bevent: %b\ndata: %b\n\n" % (number, kind.encode(), body)


def _id(workspace_id: UUID) -> bytes:
    return b'{"id":"%b"}' % str(workspace_id).encode()
