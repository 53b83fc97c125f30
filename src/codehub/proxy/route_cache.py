"""Who and where, from memory: what was loaded a moment ago comes out at once, and is looked at again every second and on every hint.

A logout, a deletion or a stop is known here within a second, or at once if a hint arrives; what may then no longer be open is marked so.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager
from uuid import UUID

import structlog

from codehub.core.visit import Visitor, is_open
from codehub.core.workspace import Workspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.hints import Hints
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential, CredentialLookup, WorkspaceLocator
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock, Tasks
from codehub.proxy.database_time import DatabaseTime
from codehub.proxy.targets import Target, Watch

log = structlog.get_logger()

_ROUND_S = 1.0
_STALE_S_MAX = 60.0
_RESOLVE_S_MAX = 5.0
_IDLE_ROUNDS_MAX = 60
_NOBODIES_MAX = 10_000
WatchOf = Callable[[Workspace], Watch | None]


class Grant(Target):
    """One person's way into one workspace, as long as both are as they were."""

    __slots__ = ("credential", "idle_rounds", "person")

    def __init__(
        self, credential: Credential, person: Visitor, place: "Place", upstream: Upstream, *, strips: bool
    ) -> None:
        super().__init__(
            upstream, prefix=f"/w/{place.workspace.id}".encode(), strips=strips, watch=place.watch
        )
        self.credential = credential
        self.person = person
        self.idle_rounds = 0


class Place:
    """A workspace as it was seen last, and the ways that lead into it."""

    __slots__ = ("changed", "grants", "idle_rounds", "upstream", "watch", "workspace")

    def __init__(self, workspace: Workspace, watch: Watch | None) -> None:
        self.workspace = workspace
        self.upstream: Upstream | None = None
        self.watch = watch
        self.grants: dict[Credential, Grant] = {}
        self.idle_rounds = 0
        self.changed = asyncio.Event()

    def end(self, grants: Collection[Grant]) -> None:
        for grant in list(grants):
            grant.alive = False
            self.grants.pop(grant.credential, None)

    def tell(self) -> None:
        """Wake whoever waits for a change."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class RouteCache:
    def __init__(
        self,
        credentials: CredentialLookup,
        places: WorkspaceLocator,
        hints: Hints,
        people_hints: Hints,
        *,
        clock: Clock,
        tasks: Tasks,
        keeps_prefix: Callable[[str], bool],
        watch_of: WatchOf = lambda _workspace: None,
        unwatch: Callable[[UUID], None] = lambda _workspace_id: None,
        targets_in_use: Callable[[], Set[Target]] = frozenset,
        time: DatabaseTime | None = None,
    ) -> None:
        """`time` is told the database's time with each look."""
        self._credentials = credentials
        self._looked_at = places
        self._hints = hints
        self._people_hints = people_hints
        self._clock = clock
        self._tasks = tasks
        self._keeps_prefix = keeps_prefix
        self._watch_of = watch_of
        self._unwatch = unwatch
        self._targets_in_use = targets_in_use
        self._time = time or DatabaseTime()
        self._people: dict[Credential, Visitor] = {}
        self._nobodies: set[Credential] = set()
        self._seen_at = clock.monotonic()
        self._hinted: set[UUID] = set()
        self._revoked = asyncio.Event()
        self._asking_for_people = asyncio.Lock()
        self._round_at = clock.monotonic()
        self._hint = asyncio.Event()
        self._loading: dict[UUID, asyncio.Future[Place | None]] = {}
        self.places: dict[bytes, Place] = {}
        """By the id as it stands in a path."""

    @property
    def is_current(self) -> bool:
        """Whether what is here may still be believed: after an outage of a minute it may not."""
        return self._clock.monotonic() - self._seen_at < _STALE_S_MAX

    async def run(self) -> None:
        """Keep everything here current, until cancelled."""
        beside = [
            self._tasks.spawn(self._listen(self._hints, self._hear_of_workspaces), name="directory-hints"),
            self._tasks.spawn(self._listen(self._people_hints, self._hear_of_people), name="people-hints"),
            self._tasks.spawn(self._follow_revocations(), name="revocations"),
        ]
        try:
            while True:
                await self._pause()
                hinted, self._hinted = self._hinted, set()
                with _blindly():
                    await self._look_again(hinted)
                    if self._clock.monotonic() >= self._round_at:
                        await self._round()
        finally:
            for task in beside:
                task.cancel()

    async def _follow_revocations(self) -> None:
        """Look at people as soon as somebody may have gone, whatever else is being looked at."""
        while True:
            await self._revoked.wait()
            self._revoked.clear()
            with _blindly():
                await self._look_at_people()

    async def person(self, credential: Credential) -> Visitor | None:
        """Return who shows this. Raises StoreUnavailable."""
        known = self._people.get(credential)
        if known is not None or credential in self._nobodies:
            return known
        found = (await self._credentials.people([credential])).get(credential)
        if found is not None:
            self._people[credential] = found
        elif len(self._nobodies) < _NOBODIES_MAX:
            self._nobodies.add(credential)
        return found

    async def place(self, workspace_id: UUID) -> Place | None:
        """Return a workspace as it was seen last. Raises StoreUnavailable."""
        known = self.places.get(str(workspace_id).encode())
        if known is not None:
            known.idle_rounds = 0
            return known
        return await self.look(workspace_id)

    async def look(self, workspace_id: UUID) -> Place | None:
        """Look now. Whoever asks at the same time shares the look."""
        loading = self._loading.get(workspace_id)
        if loading is None:
            loading = asyncio.get_running_loop().create_future()
            self._loading[workspace_id] = loading
            # A task of its own: whoever asked first may go away, and the others still wait.
            self._tasks.spawn(self._load(workspace_id, loading), name="look")
        return await asyncio.shield(loading)

    async def _load(self, workspace_id: UUID, loading: "asyncio.Future[Place | None]") -> None:
        try:
            await self._look_again([workspace_id], always=True)
        except Exception as error:  # noqa: BLE001  # whoever waits for it is told
            loading.set_exception(error)
            loading.exception()
        else:
            loading.set_result(self.places.get(str(workspace_id).encode()))
        finally:
            del self._loading[workspace_id]

    def grant(self, credential: Credential, person: Visitor, place: Place) -> Grant | None:
        """Return the way in, None if nobody knows where it listens. Whoever asks has decided that this person may enter."""
        if place.upstream is None:
            return None
        made = place.grants.get(credential)
        if made is None:
            strips = not self._keeps_prefix(place.workspace.spec.ide)
            made = place.grants[credential] = Grant(credential, person, place, place.upstream, strips=strips)
        return made

    async def find_again(self, place: Place) -> None:
        """Ask again where it listens, if anywhere. What leads elsewhere ends."""
        place.upstream = await self._resolve(place.workspace)
        place.end([grant for grant in place.grants.values() if grant.upstream != place.upstream])

    async def _pause(self) -> None:
        """Wait for a hint or the next round, whichever comes first: hints, however many, put no round off."""
        try:
            async with asyncio.timeout(max(0.0, self._round_at - self._clock.monotonic())):
                await self._hint.wait()
        except TimeoutError:
            return
        self._hint.clear()

    async def _listen(self, hints: Hints, hear: Callable[[Set[UUID]], None]) -> None:
        while True:
            try:
                async with hints.listen() as heard:
                    async for ids in heard:
                        hear(ids)
            except Exception:
                log.exception("hints_lost")
            await self._clock.sleep(_ROUND_S)

    def _hear_of_workspaces(self, ids: Set[UUID]) -> None:
        known = {place.workspace.id for place in self.places.values()}
        self._hinted |= (ids & known) if ids else known
        if self._hinted:
            self._hint.set()

    def _hear_of_people(self, ids: Set[UUID]) -> None:
        """A key of theirs may open nothing more. None named: anybody's."""
        if not ids or any(person.user_id in ids for person in self._people.values()):
            self._revoked.set()

    async def _round(self) -> None:
        """Forget what nobody uses, and look at all the rest: one question for people, one for workspaces."""
        self._round_at = self._clock.monotonic() + _ROUND_S
        self._forget_unused()
        await self._look_at_people()
        await self._look_again([place.workspace.id for place in self.places.values()])
        self._seen_at = self._clock.monotonic()

    async def _look_at_people(self) -> None:
        async with self._asking_for_people:  # an answer that is older must not come after a newer one
            await self._ask_for_people()

    async def _ask_for_people(self) -> None:
        self._nobodies.clear()
        wanted = {grant.credential for place in self.places.values() for grant in place.grants.values()}
        before = set(self._people)
        people = dict(await self._credentials.people(wanted)) if wanted else {}
        for place in self.places.values():
            # Who came while we asked was asked for on their own, later than this.
            asked = [grant for grant in place.grants.values() if grant.credential in wanted]
            place.end([grant for grant in asked if people.get(grant.credential) != grant.person])
        came = {one: person for one, person in self._people.items() if one not in before}
        self._people = people | came

    def _forget_unused(self) -> None:
        live = self._targets_in_use()
        for key, place in list(self.places.items()):
            place.idle_rounds += 1
            for credential, grant in list(place.grants.items()):
                grant.idle_rounds += 1
                if grant in live or grant.idle_rounds <= _IDLE_ROUNDS_MAX:
                    place.idle_rounds = 0
                else:
                    del place.grants[credential]
            if place.idle_rounds > _IDLE_ROUNDS_MAX:
                del self.places[key]
                self._unwatch(place.workspace.id)

    async def _look_again(self, ids: Collection[UUID], *, always: bool = False) -> None:
        if not ids:
            return
        loaded = await self._looked_at.look(ids)
        self._time.note(loaded.now, self._clock.monotonic())
        found = {row.id: row for row in loaded.workspaces}
        await asyncio.gather(*(self._note(one, found.get(one), always=always) for one in ids))

    async def _note(self, workspace_id: UUID, row: Workspace | None, *, always: bool) -> None:
        key = str(workspace_id).encode()
        place = self.places.get(key)
        if row is None:
            if place is not None:
                del self.places[key]
                self._unwatch(workspace_id)
                place.end(place.grants.values())
                place.tell()
            return
        if place is None:
            if not always:
                return
            place = self.places[key] = Place(row, self._watch_of(row))
            place.upstream = await self._resolve(row)
            return
        before, place.workspace = place.workspace, row
        if before.spec.revision != row.spec.revision:
            self._watch_of(row)  # the same one, told of its new time to live
        if (before.status.version, before.spec.revision) == (row.status.version, row.spec.revision):
            return
        await self.find_again(place)
        place.tell()

    async def _resolve(self, row: Workspace) -> Upstream | None:
        if not is_open(row):
            return None
        try:
            async with asyncio.timeout(_RESOLVE_S_MAX):
                return await self._looked_at.upstream(row)
        except (BackendUnreachable, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            log.warning("upstream_unknown", workspace_id=str(row.id), reason=reason)
            return None


@contextmanager
def _blindly() -> Iterator[None]:
    """Go on with what is known, if it can't be looked at."""
    try:
        yield
    except StoreUnavailable as error:
        log.warning("directory_blind", reason=str(error))
    except Exception:
        log.exception("directory_failed")
