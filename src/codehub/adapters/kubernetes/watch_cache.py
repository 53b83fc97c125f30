"""All objects of a kind and some labels, kept current by one list and a
watch. A cache that is behind or broken says nothing but that.

How it knows: docs/adr/0034. Reading it costs the API nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Generic, TypeVar

import structlog

from codehub.adapters.kubernetes.answers import Invalid, failure
from codehub.adapters.kubernetes.api import Json
from codehub.adapters.kubernetes.client import EventStream, KubernetesClient, Labels
from codehub.adapters.kubernetes.contents import (
    INITIAL_EVENTS_END,
    Changes,
    Contents,
    Listing,
    Rewound,
)
from codehub.adapters.kubernetes.kinds import Kind
from codehub.core.messages import Code, Message, bare_message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.system import Clock

log = structlog.get_logger()

T = TypeVar("T")

# The API sends a bookmark about every 60 s, whatever happens.
_SILENCE_S_MAX = 90.0
# A reader waits for a list or a watch that is about to be there, not for an API that does not answer.
_PATIENCE_S = 10.0
_RETRY_S = 0.2
_RETRY_S_MAX = 10.0
_RETRY_S_SHORT = 1.0
_LASTING_S = 10.0
# A server sends what was missed at once, from its own memory. After so long a silence that was all.
_QUIET_S = 0.5


class _InDoubt(Exception):
    """What is kept may not be what there is: only a list can tell."""


class WatchCache(Generic[T]):
    """`project` is given each object once, and says what is kept of it."""

    def __init__(
        self,
        client: KubernetesClient,
        kind: Kind,
        *,
        labels: Labels,
        project: Callable[[Json], T],
        clock: Clock,
        silence_s_max: float = _SILENCE_S_MAX,
        quiet_s: float = _QUIET_S,
    ) -> None:
        self._client = client
        self._kind = kind
        self._labels = labels
        self._clock = clock
        self._silence_s_max = silence_s_max
        self._quiet_s = quiet_s
        self._contents = Contents(project, labels)
        self._has_watch_list = True
        self._must_list = True
        self._is_current = False
        self._is_connected = False
        self._heard_at = 0.0
        self._trouble: Message | None = None
        self._settled = asyncio.Event()
        """Set while a reader need not wait: it is current, or there is trouble."""
        self._doubt: str | None = None
        self._silence: asyncio.Timeout | None = None
        self._quiet: asyncio.TimerHandle | None = None
        """Makes it current again after a cut, unless something comes."""
        self._listeners: set[_Changes] = set()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._run(), name=f"watch-{self._kind.plural}")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def objects(self) -> Mapping[str, T]:
        """Return all objects by name. Complete and current, or raises BackendUnreachable."""
        await self._require_current()
        return self._contents.objects()

    async def find(self, name: str) -> T | None:
        """Return the object of this name; None: there is none. Current, or raises BackendUnreachable."""
        await self._require_current()
        return self._contents.find(name)

    def learn(self, answer: Json) -> None:
        """Take in what a write of ours has answered, so that no reader sees less than it."""
        self._take(self._contents.learn(answer))

    def learn_deletion(self, answer: Json) -> None:
        """The same for what a deletion has answered."""
        self._take(self._contents.learn_deletion(answer))

    def doubt_unless(self, name: str, is_as_told: Callable[[T | None], bool]) -> None:
        """Let nobody read it before it is listed anew, unless this object
        is in it as something else tells of it.
        """
        if self._is_readable() and not is_as_told(self._contents.find(name)):
            self._begin_doubt(f"{name} is not in it as what was made on that tells")

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[Changes]]:
        """Yield names whose object has changed. Hints: they say
        nothing of what is missed while the cache is behind.
        """
        listener = _Changes()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _require_current(self) -> None:
        if not self._is_readable():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._settled.wait()
        if not self._is_readable():
            reason = self._trouble or bare_message(Code.KUBERNETES_NOT_LISTED)
            facts = {"kind": self._kind.plural, "reason": reason}
            raise BackendUnreachable(Message(Code.KUBERNETES_UNSEEN, facts))

    def _is_readable(self) -> bool:
        is_heard = self._clock.monotonic() - self._heard_at <= self._silence_s_max
        return self._is_current and is_heard

    def _take(self, changes: Changes | None) -> None:
        if changes is None:
            self._begin_doubt("a write of ours is older than what the watch has told")
        else:
            self._tell(changes)

    def _begin_doubt(self, reason: str) -> None:
        self._doubt = reason
        self._is_current = False
        self._end_quiet()
        self._settled.clear()
        if self._silence is not None:
            self._silence.reschedule(0)

    def _tell(self, changes: Changes) -> None:
        if changes:
            for listener in self._listeners:
                listener.add(changes)

    async def _run(self) -> None:
        delay_s = _RETRY_S
        while True:
            self._is_connected = False
            begun_at = self._clock.monotonic()
            try:
                await self._follow()
                reason, trouble = "the server ended it", None
            except BackendUnreachable as error:
                # It was away, so it may have been restored meanwhile;
                # only a cut line is taken up where it was.
                self._must_list |= not self._is_connected
                reason, trouble = str(error), error.message
            except (_InDoubt, Rewound, ActionFailed, LookupError, TypeError, ValueError) as error:
                self._must_list = True
                reason = str(error) or type(error).__name__
                trouble = error.message if isinstance(error, ActionFailed) else None
            self._is_current = False
            has_lasted = self._clock.monotonic() - begun_at >= _LASTING_S
            delay_s = _RETRY_S if has_lasted else min(2 * delay_s, _RETRY_S_MAX)
            if self._is_connected and delay_s <= _RETRY_S_SHORT:
                self._settled.clear()
                log.info("watch_ended", kind=self._kind.plural, reason=reason)
            else:
                self._trouble = trouble
                self._settled.set()
                log.warning("watch_failed", kind=self._kind.plural, reason=reason)
            await self._clock.sleep(delay_s)

    async def _follow(self) -> None:
        """List if that is due, then watch until the watch ends."""
        if not self._must_list:
            await self._watch(None, goal=await self._version_not_rewound())
            return
        if self._has_watch_list:
            try:
                await self._watch(self._begin_list())
            except Invalid as error:
                log.info("watch_list_refused", kind=self._kind.plural, reason=str(error))
                self._has_watch_list = False
            except _InDoubt as error:
                if self._doubt is not None or not self._must_list:
                    raise
                log.warning("watch_list_incomplete", kind=self._kind.plural, reason=str(error))
            else:
                return
        await self._list(self._begin_list())
        await self._watch(None)

    async def _version_not_rewound(self) -> int:
        """A watch from a version that the server has not reached says nothing until it has: ask where it
        is.
        """
        version = await self._client.current_version(self._kind, labels=self._labels)
        if version < self._contents.version:
            raise Rewound(f"the server is at version {version}, and was at {self._contents.version} before")
        return version

    def _begin_list(self) -> Listing[T]:
        self._doubt = None
        return self._contents.begin_list()

    async def _list(self, listing: Listing[T]) -> None:
        version = 0
        async for page in self._client.pages(self._kind, labels=self._labels):
            for item in page.items:
                self._contents.add(listing, item)
            version = page.version
        self._complete(listing, version)

    async def _watch(self, listing: Listing[T] | None, *, goal: int = 0) -> None:
        """Take in what happens. With a listing, what comes first completes it. `goal`: how far the server
        was before; what was missed until then comes first.
        """
        since = None if listing is not None else self._contents.version
        async with AsyncExitStack() as stack:
            watching = self._client.watch(self._kind, labels=self._labels, since=since)
            stream = await stack.enter_async_context(watching)
            stack.callback(self._end_quiet)
            self._is_connected = True
            if listing is None:
                self._catch_up(goal)
            while lines := await self._next(stream):
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise self._error(event["object"])
                    if listing is None:
                        self._tell(self._contents.apply(event))
                    elif _is_end_of_list(event):
                        self._complete(listing, int(event["object"]["metadata"]["resourceVersion"]))
                        self._set_current()
                        listing = None
                    else:
                        self._contents.apply_early(listing, event)
                if listing is None and not self._is_current:
                    self._catch_up(goal)

    def _catch_up(self, goal: int) -> None:
        """Be current if it has come so far, or else once nothing comes for a moment: most of what happens
        in a cluster is not for this watch.
        """
        self._end_quiet()
        if self._doubt is not None:
            return
        if self._contents.version >= goal:
            self._set_current()
        else:
            self._quiet = asyncio.get_running_loop().call_later(self._quiet_s, self._set_current)

    def _end_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None

    async def _next(self, stream: EventStream) -> Sequence[bytes]:
        if self._doubt is not None:
            raise _InDoubt(self._doubt)
        try:
            async with asyncio.timeout(self._silence_s_max) as self._silence:
                lines = await stream.read()
        except TimeoutError:
            raise _InDoubt(self._reason_for_doubt()) from None
        finally:
            self._silence = None
        self._heard_at = self._clock.monotonic()
        return lines

    def _reason_for_doubt(self) -> str:
        return self._doubt or f"nothing came for {self._silence_s_max:.0f} s, not even a bookmark"

    def _error(self, status: Json) -> Exception:
        """The server ends a watch by an event: the version is too old (410), or it is in trouble itself."""
        return failure(
            self._client.api.access.server, int(status.get("code", 0)), json.dumps(status).encode()
        )

    def _complete(self, listing: Listing[T], version: int) -> None:
        self._tell(self._contents.replace(listing, version))
        self._must_list = False

    def _set_current(self) -> None:
        self._heard_at = self._clock.monotonic()
        self._is_current = True
        self._trouble = None
        self._settled.set()


class _Changes:
    """Names that have changed since they were last asked for, as one set."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._arrived = asyncio.Event()

    def __aiter__(self) -> "_Changes":
        return self

    async def __anext__(self) -> Changes:
        await self._arrived.wait()
        self._arrived.clear()
        names, self._names = frozenset(self._names), set()
        return names

    def add(self, names: Changes) -> None:
        self._names |= names
        self._arrived.set()


def _is_end_of_list(event: Json) -> bool:
    annotations = event["object"]["metadata"].get("annotations") or {}
    return event["type"] == "BOOKMARK" and annotations.get(INITIAL_EVENTS_END) == "true"
