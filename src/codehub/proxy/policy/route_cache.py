"""Who and where, from memory: what was loaded a moment ago comes out at once.

It is looked at again every second and on every hint. A logout, a deletion or a stop is known here within a
second, or at once if a hint arrives; what may then no longer be open is marked so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Set
from uuid import UUID

import structlog

from codehub.core.operations import Phase
from codehub.core.route import mount_of
from codehub.core.visibility import Visibility
from codehub.core.visit import Visitor, is_open, is_owner, refuse_entry
from codehub.core.workspace import Workspace
from codehub.ports.backends import BackendUnreachable
from codehub.ports.hints import Hints
from codehub.ports.instances import Upstream
from codehub.ports.proxy_lookups import Credential, CredentialLookup, WorkspaceLocator
from codehub.ports.system import Clock, Tasks
from codehub.proxy.engine.runtime import Address
from codehub.proxy.engine.targets import Monitor, Target
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entrances import CachedWorkspace, Entrance, Grant, InserterOf, MonitorOf
from codehub.proxy.policy.looks import follow, log_outage
from codehub.proxy.policy.port_ways import PortWays

log = structlog.get_logger()

_ROUND_S = 1.0
_STALE_S_MAX = 60.0
_RESOLVE_S_MAX = 5.0
_IDLE_ROUNDS_MAX = 60
_STRANGERS_MAX = 10_000


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
        inserter_of: InserterOf = lambda _row: None,
        targets_in_use: Callable[[], Set[Target]] = frozenset,
        time: DatabaseTime | None = None,
        workspace_of: Callable[[str], Awaitable[UUID | None]] | None = None,
        ports: PortWays | None = None,
    ) -> None:
        """`time` is told the database's time with each look. `workspace_of` says whose a label is;
        None: where workspaces have no origins of their own, it is nobody's.
        """
        self._credentials = credentials
        self._locator = locator
        self._hints = hints
        self._people_hints = people_hints
        self._clock = clock
        self._tasks = tasks
        self._keeps_prefix = keeps_prefix
        self._monitor_of = monitor_of
        self._forget_monitor = forget_monitor
        self._inserter_of = inserter_of
        self._targets_in_use = targets_in_use
        self.time = time or DatabaseTime()
        self._workspace_of = workspace_of
        self._ports = ports
        self._people: dict[Credential, Visitor] = {}
        self._strangers: set[Credential] = set()
        self._seen_at = clock.monotonic()
        self._is_used = asyncio.Event()
        """Whether there is anything here that grows old."""
        self._hinted: set[UUID] = set()
        self._revoked = asyncio.Event()
        self._hint = asyncio.Event()
        # An answer that is older must not come after a newer one.
        self._asking_for_people = asyncio.Lock()
        self._asking_for_workspaces = asyncio.Lock()
        self._loading: dict[UUID, asyncio.Future[CachedWorkspace | None]] = {}
        self._workspaces: dict[UUID, CachedWorkspace] = {}
        self._by_label: dict[str, UUID] = {}
        self._strange_labels: dict[str, UUID | None] = {}
        """Whose these are that were asked for in this round, of workspaces that nobody is in."""
        self.entrances: dict[str, Entrance] = {}
        """Those that somebody was let in by, as a route says them: by the mount, or by an origin's name."""

    @property
    def is_current(self) -> bool:
        """Whether what is here may still be believed: after an outage of a minute it may not."""
        return self._clock.monotonic() - self._seen_at < _STALE_S_MAX or not self._is_used.is_set()

    async def run(self) -> None:
        """Keep everything here current, until cancelled."""
        beside = [
            self._tasks.spawn(self._listen(self._hints, self._on_workspace_hint), name="workspace-hints"),
            self._tasks.spawn(self._listen(self._people_hints, self._on_people_hint), name="people-hints"),
            self._tasks.spawn(follow(self._hint, self._look_at_hinted), name="hinted"),
            self._tasks.spawn(follow(self._revoked, self._look_at_people), name="revocations"),
        ]
        try:
            while True:
                await self._is_used.wait()
                began = self._clock.monotonic()
                with log_outage():
                    await self._round()
                await self._clock.sleep(max(0.0, began + _ROUND_S - self._clock.monotonic()))
        finally:
            for task in beside:
                task.cancel()

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
        self._begin_use()
        return person

    async def labelled(self, label: str) -> UUID | None:
        """Return whose label this is, None if it is nobody's, or was. Raises StoreUnavailable.

        It never becomes another's, but the workspace may be gone by now: whoever asks looks at it, too.
        """
        known = self._by_label.get(label)
        if known is not None:
            is_gone = self._workspaces[known].workspace.status.phase is Phase.DELETED
            return None if is_gone else known
        if label in self._strange_labels:
            return self._strange_labels[label]
        workspace_id = None if self._workspace_of is None else await self._workspace_of(label)
        if len(self._strange_labels) < _STRANGERS_MAX:
            self._strange_labels[label] = workspace_id
        self._begin_use()
        return workspace_id

    async def workspace(self, workspace_id: UUID) -> CachedWorkspace | None:
        """Return a workspace as it was seen last. Raises StoreUnavailable."""
        known = self._workspaces.get(workspace_id)
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
            loading.set_result(self._workspaces.get(workspace_id))
        finally:
            del self._loading[workspace_id]

    async def visibility(self, cached: CachedWorkspace, port: int) -> Visibility:
        """Return who may enter a port now. Raises StoreUnavailable."""
        if self._ports is None:
            return Visibility.PRIVATE
        if cached.shares is None:
            cached.shares = (await self._ports.load([cached.workspace.id])).get(cached.workspace.id, {})
        return self._visibility(cached, port)

    def _visibility(self, cached: CachedWorkspace, port: int) -> Visibility:
        assert self._ports is not None
        return self._ports.visibility(cached.shares, port, self.time.at(self._clock.monotonic()))

    def grant(
        self,
        credential: Credential | None,
        person: Visitor | None,
        cached: CachedWorkspace,
        name: str = "",
        port: int | None = None,
    ) -> Grant | None:
        """Return the way in, None if nobody knows where it listens.

        Whoever asks has decided that this person may enter. `name`: of the origin where they do.
        """
        if cached.upstream is None or self._workspaces.get(cached.workspace.id) is not cached:
            return None
        entrance = self.entrances.get(name or mount_of(cached.workspace.id))
        if entrance is None:
            entrance = Entrance(cached, name, port, self._port_address(cached.workspace, port))
            cached.entrances.append(entrance)
            self.entrances[entrance.key] = entrance
        address = cached.upstream if entrance.port is None else entrance.address
        if address is None:
            return None
        # What nobody shows is not kept: there is no end of it.
        key = None if person is None else credential
        grant = entrance.grants.get(key)
        if grant is None:
            grant = entrance.grants[key] = Grant(
                key,
                person,
                entrance,
                address,
                monitor=self._monitor(entrance, person),
                keeps_prefix=entrance.port is None and self.keeps_prefix(cached.workspace),
            )
        return grant

    def _port_address(self, workspace: Workspace, port: int | None) -> Address | None:
        return None if self._ports is None or port is None else self._ports.address_of(workspace, port)

    def _monitor(self, entrance: Entrance, person: Visitor | None) -> Monitor | None:
        """Return what is told of this visitor's traffic: of a port only its owner's can be use."""
        if entrance.port is None:
            return entrance.cached.monitor
        row = entrance.cached.workspace
        return self._ports.monitor_of(row) if self._ports is not None and is_owner(person, row) else None

    def _forget(self, cached: CachedWorkspace) -> None:
        del self._workspaces[cached.workspace.id]
        self._by_label.pop(cached.workspace.label, None)
        for entrance in cached.entrances:
            del self.entrances[entrance.key]
        self._forget_monitor(cached.workspace.id)

    def keeps_prefix(self, workspace: Workspace) -> bool:
        """Whether its IDE lives below its mount at its origin, too."""
        return self._keeps_prefix(workspace.spec.ide)

    async def find_again(self, cached: CachedWorkspace) -> None:
        """Ask again where it listens, if anywhere. What leads elsewhere ends."""
        upstream = await self._resolve(cached.workspace)
        is_known = self._workspaces.get(cached.workspace.id) is cached
        # It may have been stopped or deleted meanwhile.
        cached.upstream = upstream if is_known and is_open(cached.workspace) else None
        cached.end([grant for grant in cached.grants if not grant.leads_to(cached.upstream)])

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
        known = set(self._workspaces)
        self._hinted |= (ids & known) if ids else known
        if self._hinted:
            self._hint.set()

    def _on_people_hint(self, ids: Set[UUID]) -> None:
        """A key of theirs may open nothing more. None named: anybody's."""
        if not ids or any(person.user_id in ids for person in self._people.values()):
            self._revoked.set()

    async def _round(self) -> None:
        """Forget what nobody uses, and look at all the rest: one question for people, one for workspaces."""
        self._forget_unused()
        await self._look_at_people()
        async with self._asking_for_workspaces:
            await self._look_again(list(self._workspaces))
        self._seen_at = self._clock.monotonic()
        if not (self._workspaces or self._people or self._strangers or self._strange_labels):
            self._is_used.clear()

    def _begin_use(self) -> None:
        if not self._is_used.is_set():
            self._seen_at = self._clock.monotonic()
            self._is_used.set()

    async def _look_at_hinted(self) -> None:
        async with self._asking_for_workspaces:
            hinted, self._hinted = self._hinted, set()
            await self._look_again(hinted)

    async def _look_at_people(self) -> None:
        """Look as soon as somebody may have gone, whatever else is being looked at."""
        async with self._asking_for_people:
            await self._ask_for_people()

    async def _ask_for_people(self) -> None:
        self._strangers.clear()
        self._strange_labels.clear()
        wanted = {
            credential
            for entrance in self.entrances.values()
            for credential in entrance.grants
            if credential is not None
        }
        before = set(self._people)
        people = dict(await self._credentials.people(wanted)) if wanted else {}
        for cached in self._workspaces.values():
            # Who came while we asked was asked for on their own, later than this.
            asked = [(grant, key) for grant in cached.grants if (key := grant.credential) is not None]
            ended = [grant for grant, key in asked if key in wanted and people.get(key) != grant.person]
            cached.end(ended)
        newcomers = {key: person for key, person in self._people.items() if key not in before}
        self._people = people | newcomers

    def _forget_unused(self) -> None:
        live = self._targets_in_use()
        for cached in list(self._workspaces.values()):
            cached.idle_rounds += 1
            for grant in cached.grants:
                grant.idle_rounds += 1
                if grant in live or grant.idle_rounds <= _IDLE_ROUNDS_MAX:
                    cached.idle_rounds = 0
                else:
                    del grant.entrance.grants[grant.credential]
            if cached.idle_rounds > _IDLE_ROUNDS_MAX:
                self._forget(cached)

    async def _look_again(self, ids: Collection[UUID], *, always: bool = False) -> None:
        if not ids:
            return
        loaded = await self._locator.look(ids)
        self.time.note(loaded.now, self._clock.monotonic())
        rows = {row.id: row for row in loaded.workspaces}
        await self._look_at_ports(ids)
        notes = (self._note(workspace_id, rows.get(workspace_id), always=always) for workspace_id in ids)
        if changed := [cached for cached in notes if cached is not None]:
            await asyncio.gather(*map(self._follow_change, changed))

    async def _look_at_ports(self, ids: Collection[UUID]) -> None:
        """Look who may enter ports that somebody has asked for, and end the ways of those who may not."""
        asked = [
            cached
            for workspace_id in ids
            if (cached := self._workspaces.get(workspace_id)) is not None and cached.shares is not None
        ]
        if not asked or self._ports is None:
            return
        shared = await self._ports.load([cached.workspace.id for cached in asked])
        for cached in asked:
            cached.shares = shared.get(cached.workspace.id, {})
            cached.end([grant for grant in cached.grants if not self._may_stay(grant)])

    def _may_stay(self, grant: Grant) -> bool:
        cached, port = grant.entrance.cached, grant.entrance.port
        if port is None:
            return True
        return refuse_entry(grant.person, cached.workspace, port, self._visibility(cached, port)) is None

    def _note(self, workspace_id: UUID, row: Workspace | None, *, always: bool) -> CachedWorkspace | None:
        """Note what a workspace is now. It comes back if it is new or has changed."""
        cached = self._workspaces.get(workspace_id)
        if row is None:
            if cached is not None:
                self._forget(cached)
                cached.end(cached.grants)
                cached.notify()
            return None
        if cached is None:
            if always:
                cached = CachedWorkspace(row, self._monitor_of(row), self._inserter_of)
                self._workspaces[workspace_id], self._by_label[row.label] = cached, workspace_id
                self._begin_use()
            return cached
        before, cached.workspace = cached.workspace, row
        if before.spec.revision != row.spec.revision:
            self._monitor_of(row)  # the same one, told of its new time to live
        if before.spec.cross_port_access and not row.spec.cross_port_access:
            cached.end_at_ports()
        if (before.status.version, before.spec.revision) == (row.status.version, row.spec.revision):
            return None
        return cached

    async def _follow_change(self, cached: CachedWorkspace) -> None:
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
