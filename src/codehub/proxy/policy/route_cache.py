"""Who and where, from memory: what was loaded a moment ago comes out at once.

It is looked at again every second and on every hint. A logout, a deletion or a stop is known here within a
second, or at once if a hint arrives; what may then no longer be open is marked so.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager
from uuid import UUID

import structlog

from codehub.core.route import mount_of
from codehub.core.visit import Visitor, is_open
from codehub.core.workspace import Workspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.hints import Hints
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential, CredentialLookup, WorkspaceLocator
from codehub.ports.store import StoreUnavailable
from codehub.ports.system import Clock, Tasks
from codehub.proxy.engine.targets import Monitor, Target
from codehub.proxy.policy.database_time import DatabaseTime

log = structlog.get_logger()

_ROUND_S = 1.0
_STALE_S_MAX = 60.0
_RESOLVE_S_MAX = 5.0
_IDLE_ROUNDS_MAX = 60
_STRANGERS_MAX = 10_000
FOLLOW_S_MAX = 20.0
MonitorOf = Callable[[Workspace], Monitor | None]


class Grant(Target):
    """One person's way into one workspace, as long as both are as they were."""

    __slots__ = ("credential", "idle_rounds", "person")

    def __init__(
        self,
        credential: Credential,
        person: Visitor,
        cached: "CachedWorkspace",
        upstream: Upstream,
        *,
        strips: bool,
    ) -> None:
        super().__init__(
            upstream,
            mount=mount_of(cached.workspace.id).encode(),
            strips=strips,
            monitor=cached.monitor,
        )
        self.credential = credential
        self.person = person
        self.idle_rounds = 0


class CachedWorkspace:
    """A workspace as it was seen last, and the ways that lead into it."""

    __slots__ = ("_changed", "grants", "idle_rounds", "monitor", "upstream", "workspace")

    def __init__(self, workspace: Workspace, monitor: Monitor | None) -> None:
        self.workspace = workspace
        self.upstream: Upstream | None = None
        self.monitor = monitor
        self.grants: dict[Credential, Grant] = {}
        self.idle_rounds = 0
        self._changed = asyncio.Event()

    def end(self, grants: Collection[Grant]) -> None:
        for grant in list(grants):
            grant.alive = False
            self.grants.pop(grant.credential, None)

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for_change(self, s_max: float = FOLLOW_S_MAX) -> None:
        """Wait until it changes, at most for so long, and never for longer than anybody follows it."""
        self.idle_rounds = 0
        try:
            async with asyncio.timeout(min(s_max, FOLLOW_S_MAX)):
                await self._changed.wait()
        except TimeoutError:
            return


class RouteCache:
    def __init__(
        self,
        credentials: CredentialLookup,
        locator: WorkspaceLocator,
        hints: Hints,
        people_hints: Hints,
        *,
        clock: Clock,
        tasks: Tasks,
        keeps_prefix: Callable[[str], bool],
        monitor_of: MonitorOf = lambda _workspace: None,
        forget_monitor: Callable[[UUID], None] = lambda _workspace_id: None,
        targets_in_use: Callable[[], Set[Target]] = frozenset,
        time: DatabaseTime | None = None,
    ) -> None:
        """`time` is told the database's time with each look."""
        self._credentials = credentials
        self._locator = locator
        self._hints = hints
        self._people_hints = people_hints
        self._clock = clock
        self._tasks = tasks
        self._keeps_prefix = keeps_prefix
        self._monitor_of = monitor_of
        self._forget_monitor = forget_monitor
        self._targets_in_use = targets_in_use
        self._time = time or DatabaseTime()
        self._people: dict[Credential, Visitor] = {}
        self._strangers: set[Credential] = set()
        self._seen_at = clock.monotonic()
        self._hinted: set[UUID] = set()
        self._revoked = asyncio.Event()
        self._asking_for_people = asyncio.Lock()
        self._round_at = clock.monotonic()
        self._hint = asyncio.Event()
        self._loading: dict[UUID, asyncio.Future[CachedWorkspace | None]] = {}
        self.workspaces: dict[str, CachedWorkspace] = {}
        """By the mount, as a route says it."""

    @property
    def is_current(self) -> bool:
        """Whether what is here may still be believed: after an outage of a minute it may not."""
        return self._clock.monotonic() - self._seen_at < _STALE_S_MAX

    async def run(self) -> None:
        """Keep everything here current, until cancelled."""
        beside = [
            self._tasks.spawn(self._listen(self._hints, self._on_workspace_hint), name="workspace-hints"),
            self._tasks.spawn(self._listen(self._people_hints, self._on_people_hint), name="people-hints"),
            self._tasks.spawn(self._follow_revocations(), name="revocations"),
        ]
        try:
            while True:
                await self._pause()
                hinted, self._hinted = self._hinted, set()
                with _log_outage():
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
            with _log_outage():
                await self._look_at_people()

    async def person(self, credential: Credential) -> Visitor | None:
        """Return who shows this. Raises StoreUnavailable."""
        known = self._people.get(credential)
        if known is not None or credential in self._strangers:
            return known
        person = (await self._credentials.people([credential])).get(credential)
        if person is not None:
            self._people[credential] = person
        elif len(self._strangers) < _STRANGERS_MAX:
            self._strangers.add(credential)
        return person

    async def workspace(self, workspace_id: UUID) -> CachedWorkspace | None:
        """Return a workspace as it was seen last. Raises StoreUnavailable."""
        known = self.workspaces.get(mount_of(workspace_id))
        if known is not None:
            known.idle_rounds = 0
            return known
        return await self.look(workspace_id)

    async def look(self, workspace_id: UUID) -> CachedWorkspace | None:
        """Look now. Whoever asks at the same time shares the look."""
        loading = self._loading.get(workspace_id)
        if loading is None:
            loading = asyncio.get_running_loop().create_future()
            self._loading[workspace_id] = loading
            # A task of its own: whoever asked first may go away, and the others still wait.
            self._tasks.spawn(self._load(workspace_id, loading), name="look")
        return await asyncio.shield(loading)

    async def _load(self, workspace_id: UUID, loading: "asyncio.Future[CachedWorkspace | None]") -> None:
        try:
            await self._look_again([workspace_id], always=True)
        except Exception as error:  # noqa: BLE001  # whoever waits for it is told
            loading.set_exception(error)
            loading.exception()
        else:
            loading.set_result(self.workspaces.get(mount_of(workspace_id)))
        finally:
            del self._loading[workspace_id]

    def grant(self, credential: Credential, person: Visitor, cached: CachedWorkspace) -> Grant | None:
        """Return the way in, None if nobody knows where it listens.

        Whoever asks has decided that this person may enter.
        """
        if cached.upstream is None:
            return None
        grant = cached.grants.get(credential)
        if grant is None:
            strips = not self._keeps_prefix(cached.workspace.spec.ide)
            grant = cached.grants[credential] = Grant(
                credential, person, cached, cached.upstream, strips=strips
            )
        return grant

    async def find_again(self, cached: CachedWorkspace) -> None:
        """Ask again where it listens, if anywhere. What leads elsewhere ends."""
        cached.upstream = await self._resolve(cached.workspace)
        cached.end([grant for grant in cached.grants.values() if grant.address != cached.upstream])

    async def _pause(self) -> None:
        """Wait for a hint or the next round, whichever comes first: hints, however many, put no round off."""
        try:
            async with asyncio.timeout(max(0.0, self._round_at - self._clock.monotonic())):
                await self._hint.wait()
        except TimeoutError:
            return
        self._hint.clear()

    async def _listen(self, hints: Hints, on_hint: Callable[[Set[UUID]], None]) -> None:
        while True:
            try:
                async with hints.listen() as batches:
                    async for ids in batches:
                        on_hint(ids)
            except Exception:
                log.exception("hints_lost")
            await self._clock.sleep(_ROUND_S)

    def _on_workspace_hint(self, ids: Set[UUID]) -> None:
        known = {cached.workspace.id for cached in self.workspaces.values()}
        self._hinted |= (ids & known) if ids else known
        if self._hinted:
            self._hint.set()

    def _on_people_hint(self, ids: Set[UUID]) -> None:
        """A key of theirs may open nothing more. None named: anybody's."""
        if not ids or any(person.user_id in ids for person in self._people.values()):
            self._revoked.set()

    async def _round(self) -> None:
        """Forget what nobody uses, and look at all the rest: one question for people, one for workspaces."""
        self._round_at = self._clock.monotonic() + _ROUND_S
        self._forget_unused()
        await self._look_at_people()
        await self._look_again([cached.workspace.id for cached in self.workspaces.values()])
        self._seen_at = self._clock.monotonic()

    async def _look_at_people(self) -> None:
        async with self._asking_for_people:  # an answer that is older must not come after a newer one
            await self._ask_for_people()

    async def _ask_for_people(self) -> None:
        self._strangers.clear()
        wanted = {grant.credential for cached in self.workspaces.values() for grant in cached.grants.values()}
        before = set(self._people)
        people = dict(await self._credentials.people(wanted)) if wanted else {}
        for cached in self.workspaces.values():
            # Who came while we asked was asked for on their own, later than this.
            asked = [grant for grant in cached.grants.values() if grant.credential in wanted]
            cached.end([grant for grant in asked if people.get(grant.credential) != grant.person])
        newcomers = {key: person for key, person in self._people.items() if key not in before}
        self._people = people | newcomers

    def _forget_unused(self) -> None:
        live = self._targets_in_use()
        for key, cached in list(self.workspaces.items()):
            cached.idle_rounds += 1
            for credential, grant in list(cached.grants.items()):
                grant.idle_rounds += 1
                if grant in live or grant.idle_rounds <= _IDLE_ROUNDS_MAX:
                    cached.idle_rounds = 0
                else:
                    del cached.grants[credential]
            if cached.idle_rounds > _IDLE_ROUNDS_MAX:
                del self.workspaces[key]
                self._forget_monitor(cached.workspace.id)

    async def _look_again(self, ids: Collection[UUID], *, always: bool = False) -> None:
        if not ids:
            return
        loaded = await self._locator.look(ids)
        self._time.note(loaded.now, self._clock.monotonic())
        rows = {row.id: row for row in loaded.workspaces}
        await asyncio.gather(*(self._note(key, rows.get(key), always=always) for key in ids))

    async def _note(self, workspace_id: UUID, row: Workspace | None, *, always: bool) -> None:
        key = mount_of(workspace_id)
        cached = self.workspaces.get(key)
        if row is None:
            if cached is not None:
                del self.workspaces[key]
                self._forget_monitor(workspace_id)
                cached.end(cached.grants.values())
                cached.notify()
            return
        if cached is None:
            if not always:
                return
            cached = self.workspaces[key] = CachedWorkspace(row, self._monitor_of(row))
            cached.upstream = await self._resolve(row)
            return
        before, cached.workspace = cached.workspace, row
        if before.spec.revision != row.spec.revision:
            self._monitor_of(row)  # the same one, told of its new time to live
        if (before.status.version, before.spec.revision) == (row.status.version, row.spec.revision):
            return
        await self.find_again(cached)
        cached.notify()

    async def _resolve(self, row: Workspace) -> Upstream | None:
        if not is_open(row):
            return None
        try:
            async with asyncio.timeout(_RESOLVE_S_MAX):
                return await self._locator.upstream(row)
        except (BackendUnreachable, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            log.warning("upstream_unknown", workspace_id=str(row.id), reason=reason)
            return None


@contextmanager
def _log_outage() -> Iterator[None]:
    """Go on with what is known, if it can't be looked at."""
    try:
        yield
    except StoreUnavailable as error:
        log.warning("route_cache_not_refreshed", reason=str(error))
    except Exception:
        log.exception("route_cache_failed")
