"""A proxy's whole policy in virtual time: gate, route cache, grants and activity, over memory adapters.

People sign in and out, workspaces stop and start, the database goes away, hints are lost. Whoever is let in,
and whose connection stays open, is held against what is true.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulation.loop import Handle, VirtualLoop
from tests.simulation.numbers import EPOCH
from tests.support.stores import PASSWORD_HASH
from tests.support.workspaces import SPEC

from codehub.adapters.memory.access import MemoryAccess, Users
from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.doors import MemoryDoors
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.memory.store import MemoryStore
from codehub.adapters.system.machine import SystemRandomness, SystemTasks
from codehub.core.access import Role
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import Door, WorkspaceOrigins
from codehub.core.progress import Progress
from codehub.core.route import entry_of
from codehub.core.visit import Visitor, is_open
from codehub.core.workspace import Workspace
from codehub.ports.instances import TcpUpstream, Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import Change, LoadedWorkspaces, StoreUnavailable
from codehub.proxy.engine.block_cache import BlockCache
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.activity import Activity
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entering import Entering
from codehub.proxy.policy.entrances import Grant
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.header_rules import header_rules
from codehub.proxy.policy.route_cache import RouteCache
from codehub.service.workspaces import WorkspaceService
from codehub.web.cookies import DOOR

LASTS_S = 400.0
# A round of the cache each second, two questions of up to 0.2 s each, and the next second's at worst.
KNOWN_WITHIN_S = 3.0
STALE_S_MAX = 60.0
PEOPLE = 3
WORKSPACES = 4
ORIGINS = WorkspaceOrigins("http", "localhost", 8000)
_BY = By("person", verbatim("because"))
_VISITS = (
    b"Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nUser-Agent: Mozilla/5.0\r\n",
    b"User-Agent: curl/8.5\r\n",
    b"Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-origin\r\nUser-Agent: Mozilla/5.0\r\n",
)


@dataclass
class Truth:
    """Since when something holds, in virtual time, and in how much of it the database was there."""

    holds: bool
    since_s: float = 0.0
    up_s: float = 0.0

    def becomes(self, *, holds: bool, now_s: float) -> None:
        if holds is not self.holds:
            self.holds, self.since_s, self.up_s = holds, now_s, 0.0


class PolicyLoop(VirtualLoop):
    """A loop that takes back what is due but has not run: a timeout relies on it."""

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        def run_unless_cancelled() -> None:
            if handle.call is not None:
                callback(*args)

        handle = super().call_later(delay, run_unless_cancelled, context=context)
        return handle

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        def run_unless_cancelled() -> None:
            if handle.call is not None:
                callback(*args)

        handle = Handle((context or copy_context(), callback, args))
        super().call_soon(run_unless_cancelled, context=context)
        return handle


def _door(session: Credential, workspace_id: UUID) -> Credential:
    return Credential("door", session.secret + b"-%d" % workspace_id.int)


class LossyHints(MemoryHints):
    """Half of the hints are lost, the rest come late."""

    def __init__(self, world: "PolicyWorld") -> None:
        super().__init__()
        self._world = world

    async def send(self, workspace_ids: Collection[UUID]) -> None:
        dice = self._world.dice
        for listener in self._listeners:
            if workspace_ids and dice.random() < 0.5:
                self._world.loop.call_later(dice.uniform(0, 5), listener.wake, set(workspace_ids))


@dataclass
class PolicyWorld:
    seed: int
    has_origins: bool = False
    """Whether people come by doors to workspaces' own origins, now and then by another's door."""
    broken: list[str] = field(default_factory=list)
    granted: int = 0
    ended: int = 0

    def __post_init__(self) -> None:
        self.loop = PolicyLoop()  # type: ignore[abstract]  # sockets and programs it has none
        self.dice = random.Random(f"policy {self.seed}")
        self.tasks = SystemTasks()
        self.away_since: float | None = None
        self.back_at_s = 0.0
        self.people: dict[UUID, Visitor] = {}
        self.keys: dict[Credential, tuple[Visitor, Truth]] = {}
        self.sessions: dict[Credential, Credential] = {}
        """Of doors."""
        self.open: dict[UUID, Truth] = {}
        self.connections: list[Grant] = []

    # Ports.

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.loop.time())

    async def _fault(self, point: str) -> None:
        await asyncio.sleep(self.dice.uniform(0, 0.2))
        if self.away_since is not None and "commit" not in point:
            raise StoreUnavailable("away")

    async def look(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        await self._fault("look")
        return await self.store.load(list(workspace_ids))

    async def upstream(self, workspace: Workspace) -> Upstream | None:
        await asyncio.sleep(self.dice.uniform(0, 0.2))
        return TcpUpstream(str(workspace.id), 8080)

    async def progress(self, _workspace_id: UUID) -> Progress | None:
        await self._fault("progress")
        return None

    # The run.

    def run(self) -> "PolicyWorld":
        world = self.loop.create_task(self._live(), name="world")
        self.loop.run_until(LASTS_S + 10)
        if not world.done() or world.exception() is not None:
            self.broken.append(f"the world ended early: {world!r}")
        self.broken += [str(failure) for failure in self.loop.failures]
        return self

    async def _live(self) -> None:
        hints, people_hints = LossyHints(self), LossyHints(self)
        self.people_hints = people_hints
        users: Users = {}
        self.store = MemoryStore(now=self.now, hints=hints, users=users)
        self.access = MemoryAccess(users, now=self.now)
        self.credentials = MemoryCredentials(faults=self._fault)
        self.service = WorkspaceService(self.store, limits=Limits(), trash_s=1000)
        time = DatabaseTime()
        activity = Activity(self.service, self.credentials, time, clock=self, flush_s=10.0)
        cache = RouteCache(
            self.credentials,
            self,
            hints,
            people_hints,
            clock=self,
            tasks=self.tasks,
            keeps_prefix=lambda _ide: False,
            monitor_of=activity.monitor,
            forget_monitor=activity.forget,
            targets_in_use=self._targets_in_use,
            time=time,
            workspace_of=self._workspace_of,
        )
        apis = ApiTargets([TcpUpstream("api", 80)], self)
        rules = GateRules(frozenset(), wake_wait_s=5.0)
        entering = None
        if self.has_origins:
            doors = MemoryDoors(self.access, self.store, now=self.now, faults=self._fault)
            entering = Entering(doors, ORIGINS, "http://hub", randomness=SystemRandomness())
        self.gate = WorkspaceGate(
            cache, self, self.service, apis, rules, clock=self, tasks=self.tasks, entering=entering
        )
        await self._make()
        for work in (cache.run(), activity.run(), self._change(), self._go_away(), self._count()):
            self.tasks.spawn(work, name="part")
        visitors = [self.tasks.spawn(self._visit_for_ever(), name="visitor") for _ in range(4)]
        await asyncio.sleep(LASTS_S)
        for task in visitors:
            task.cancel()
        self.away_since = None
        await self.tasks.cancel_all()
        rows = [await self.store.get(workspace_id) for workspace_id in self.open]
        if self.granted and not any(row.spec.last_access_at for row in rows):
            self.broken.append("somebody was let in, and no use was recorded")

    def _targets_in_use(self) -> set[Target]:
        return set(self.connections)

    async def _make(self) -> None:
        for number in range(PEOPLE):
            person = Visitor(UUID(int=number + 1), f"person{number}")
            self.people[person.user_id] = person
            await self.access.add_user(
                person.user_id, username=person.username, password_hash=PASSWORD_HASH, role=Role.MEMBER
            )
            self._sign_in(person)
        for number in range(WORKSPACES):
            owner = UUID(int=number % PEOPLE + 1)
            spec = replace(SPEC, owner_user_id=owner, name=f"w{number}", desired_state=DesiredState.RUNNING)
            row = await self.store.create_workspace(UUID(int=number + 100), spec, [])
            self.open[row.id] = Truth(holds=False)
            await self._set_phase(row.id, Phase.RUNNING)

    def _sign_in(self, person: Visitor) -> None:
        key = Credential("session", b"key-%d" % len(self.keys))
        self.keys[key] = (person, Truth(holds=True, since_s=self.loop.time()))
        self.credentials.admit(key, person)
        for number in range(WORKSPACES if self.has_origins else 0):
            door = _door(key, UUID(int=number + 100))
            self.sessions[door] = key
            self.credentials.admit(door, replace(person, door=Door(UUID(int=number + 100), None)))

    async def _set_phase(self, workspace_id: UUID, phase: Phase) -> None:
        row = await self.store.get(workspace_id)
        wish = DesiredState.RUNNING if phase is Phase.RUNNING else DesiredState.STANDBY
        await self.service.set_wish(workspace_id, wish, _BY)
        await self.store.persist([Change(workspace_id, replace(row.status, phase=phase))])
        row = await self.store.get(workspace_id)
        self.open[workspace_id].becomes(holds=is_open(row), now_s=self.loop.time())

    # What happens.

    async def _change(self) -> None:
        dice = self.dice
        while True:
            await asyncio.sleep(dice.expovariate(0.4))
            if self.away_since is not None:  # nobody can sign out, or stop anything
                continue
            if dice.random() < 0.5:
                valid = [key for key, (_, truth) in self.keys.items() if truth.holds]
                key = dice.choice(valid)
                person, truth = self.keys[key]
                for credential in (key, *(door for door, of in self.sessions.items() if of == key)):
                    self.credentials.revoke(credential)
                truth.becomes(holds=False, now_s=self.loop.time())
                await self.people_hints.send([person.user_id])
                self._sign_in(person)
            else:
                workspace_id = dice.choice(list(self.open))
                await self._set_phase(
                    workspace_id, dice.choice((Phase.RUNNING, Phase.RUNNING, Phase.STANDBY))
                )

    async def _go_away(self) -> None:
        """Let the database be away, mostly for seconds, at times for longer than anybody may be believed."""
        dice = self.dice
        while True:
            await asyncio.sleep(dice.expovariate(1 / 60))
            self.away_since = self.loop.time()
            await asyncio.sleep(dice.choice((1, 5, 90)))
            self.away_since, self.back_at_s = None, self.loop.time()

    async def _count(self) -> None:
        """Count the time in which something could be known, and look at who is still connected."""
        step_s = 0.25
        while True:
            await asyncio.sleep(step_s)
            if self.away_since is None:
                for truth in (*self.open.values(), *(truth for _, truth in self.keys.values())):
                    truth.up_s += step_s
            for grant in list(self.connections):
                if grant.alive:
                    self._judge(grant, "is still connected")
                else:
                    self.connections.remove(grant)
                    self.ended += 1

    async def _visit_for_ever(self) -> None:
        dice = self.dice
        while True:
            await asyncio.sleep(dice.expovariate(1))
            key = dice.choice(list(self.keys)[-6:])
            workspace_id = dice.choice(list(self.open))
            door_of = workspace_id
            if self.has_origins and dice.random() < 0.1:
                door_of = dice.choice(list(self.open))
            head = self._request(key, workspace_id, door_of)
            came_s = self.loop.time()
            decision = self.gate.admit(head)
            if not isinstance(decision, Target | Answer):
                decision = await decision
            if isinstance(decision, Grant):
                self._enter(head, decision)
            elif isinstance(decision, Target):
                self.broken.append("a workspace's visitor was led to the API")
            elif door_of == workspace_id:
                self._judge_refusal(key, workspace_id, decision, came_s)

    def _request(self, key: Credential, workspace_id: UUID, door_of: UUID) -> RequestHead:
        """Return a visit to a workspace, by a session, or at its origin by one of the session's doors."""
        host, path = b"hub", entry_of(workspace_id).encode()
        cookie = b"codehub_session=" + key.secret
        if self.has_origins:
            origin = ORIGINS.origin_of(self.store.rows[workspace_id].label)
            host, path = origin.partition("//")[2].encode(), b"/"
            cookie = f"{DOOR}=".encode() + _door(key, door_of).secret
        head = RequestHead(
            BlockCache(header_rules(secure=False, origins=ORIGINS if self.has_origins else None))
        )
        lines = b"Host: %b\r\nCookie: %b\r\n%b" % (host, cookie, self.dice.choice(_VISITS))
        head.read(b"GET %b HTTP/1.1\r\n%b\r\n" % (path, lines))
        head.request_id = b"1"
        return head

    async def _workspace_of(self, label: str) -> UUID | None:
        await self._fault("labels")
        return next((row.id for row in self.store.rows.values() if row.label == label), None)

    def _enter(self, head: RequestHead, grant: Grant) -> None:
        self.granted += 1
        if grant.monitor is not None:
            grant.monitor.note_request(head)
        self._judge(grant, "was let in")
        if self.away_since is not None and self.loop.time() - self.away_since > STALE_S_MAX + KNOWN_WITHIN_S:
            self.broken.append("somebody was let in by what nobody could check for a minute")
        if self.dice.random() < 0.3 and grant not in self.connections:
            self.connections.append(grant)

    # What must hold.

    def _judge(self, grant: Grant, what: str) -> None:
        assert grant.credential is not None
        assert grant.person is not None
        workspace_id = grant.entrance.cached.workspace.id
        person, valid = self.keys[self.sessions.get(grant.credential, grant.credential)]
        owner = self.store.rows[workspace_id].spec.owner_user_id
        at = f"after {self.loop.time():.2f} s"
        if grant.person.door not in (None, Door(workspace_id, None)):
            self.broken.append(f"{person.username} {what} by the door of another workspace, {at}")
        if person.user_id != owner or replace(grant.person, door=None) != person:
            self.broken.append(f"{person.username} {what}, and is not the owner, {at}")
        if not valid.holds and valid.up_s > KNOWN_WITHIN_S:
            self.broken.append(f"{person.username} {what} though the session ended {valid.up_s} s ago, {at}")
        if not self.open[workspace_id].holds and self.open[workspace_id].up_s > KNOWN_WITHIN_S:
            self.broken.append(f"{person.username} {what} though the workspace sleeps, {at}")

    def _judge_refusal(self, key: Credential, workspace_id: UUID, answer: Answer, came_s: float) -> None:
        """Who may enter what runs, and has done so for a while, is let in."""
        person, valid = self.keys[key]
        runs = self.open[workspace_id]
        if person.user_id != self.store.rows[workspace_id].spec.owner_user_id:
            if answer.status not in (303, 401, 403, 503):
                self.broken.append(f"a stranger got {answer.status}")
            return
        was_calm = self.away_since is None and valid.up_s > KNOWN_WITHIN_S and runs.up_s > KNOWN_WITHIN_S
        if was_calm and valid.holds and runs.holds and came_s > self.back_at_s + KNOWN_WITHIN_S:
            self.broken.append(f"{person.username} got {answer.status} though all was well")
