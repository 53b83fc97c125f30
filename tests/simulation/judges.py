"""Judges: they see every commit and every effect as it happens, know what each home should hold, and say which contract was broken."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tests.simulation.doors import NAVIGATION, PROGRAM
from tests.simulation.numbers import EPOCH, GRACE, LIMITS, RULES

from codehub.adapters.memory.instances import Box
from codehub.adapters.memory.storage import Disk, Object
from codehub.adapters.memory.store import MemoryStore
from codehub.core.errors import ErrorReason
from codehub.core.history import Event, EventKind
from codehub.core.operations import LEVEL, DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.seen import Instance, Volume
from codehub.core.visit import Connect, Decision, Visit, Visitor, Wake
from codehub.core.wishes import is_purge_due
from codehub.core.workspace import Status, Workspace, counts_as_running, says_the_same
from codehub.ports.archives import archive_key
from codehub.ports.store import Change

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.world import World

# From which phases each operation may begin (spec §2.3), said once more, so that a mistake in the table is seen.
SOURCES: Mapping[Operation, frozenset[Phase]] = {
    Operation.PROVISIONING: frozenset({Phase.PENDING}),
    Operation.CREATE_EMPTY_ARCHIVE: frozenset({Phase.PENDING}),
    Operation.RESTORING: frozenset({Phase.ARCHIVED}),
    Operation.STARTING: frozenset({Phase.STANDBY}),
    Operation.STOPPING: frozenset(Phase) - {Phase.DELETED},
    Operation.ARCHIVING: frozenset({Phase.STANDBY}),
    Operation.DELETING: frozenset(Phase),
}
_UP = frozenset({Operation.PROVISIONING, Operation.RESTORING, Operation.STARTING})
_LET_GO = frozenset({Why.IMPOSSIBLE.value, Why.PURGE.value})
_ERRORS_MAX = 4
_LOSSES_MAX = 6
# Whoever decided just before a misfortune could not know of it.
_NOTICED_S = 120.0
# A use is known as exactly as the moments in which traffic is counted.
_MOMENT_S = 10.5
# An operation begins at the time at which its pass began to look.
_PASS_S_MAX = 15.0


# When the call was made that has its effect now: it may come late, and misfortune may have come first.
ASKED_AT: ContextVar[float] = ContextVar("asked_at")


class Broken(Exception):
    """A contract was broken."""

    def __init__(self, contract: str, workspace_id: UUID | None, what: str) -> None:
        super().__init__(f"{contract}: {what}")
        self.contract = contract
        self.workspace_id = workspace_id
        self._told = (contract, workspace_id, what)

    def __reduce__(self) -> tuple[type["Broken"], tuple[str, UUID | None, str]]:
        return type(self), self._told


@dataclass
class Truth:
    """What is really so of one workspace, whatever the database says."""

    expected: Mapping[str, bytes] | None = field(default_factory=dict)
    """What its home holds as far as its owner knows; None: its owner gave it up."""
    writes: int = 0
    healthy_at: float = -1.0
    no_instance_at: float = -1.0
    no_volume_at: float = -1.0
    volume_at: dict[str, float] = field(default_factory=dict)
    began_at: float = 0.0
    struck_at: float = -1e9
    losses: deque[float] = field(default_factory=deque)
    used_at: float = -1e9
    committed: set[str] = field(default_factory=set)
    volumes_gone: set[str] = field(default_factory=set)


class Watched(dict[Any, Any]):
    """A dictionary that tells what changes in it."""

    def __init__(self, told: Callable[[Any, Any, Any], None]) -> None:
        super().__init__()
        self._told = told

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        self._told(key, before, value)

    def __delitem__(self, key: Any) -> None:
        before = self[key]
        super().__delitem__(key)
        self._told(key, before, None)

    def pop(self, key: Any, *default: Any) -> Any:
        is_there = key in self
        value = super().pop(key, *default)
        if is_there:
            self._told(key, value, None)
        return value


class Judges:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._truth: dict[UUID, Truth] = {}
        self._outages: list[tuple[float, float]] = []
        self._excused: UUID | None = None
        self._issuers: dict[UUID, Machine] = {}
        self._listed_at: dict[str, float] = {}
        self.forbid_writes = False

    # What they watch.

    def watch_store(self, store: MemoryStore) -> MemoryStore:
        commit = store._commit

        def watched(rows: Mapping[UUID, Workspace], events: Iterable[tuple[UUID, Event]]) -> None:
            events = list(events)
            before = {workspace_id: store._workspaces.get(workspace_id) for workspace_id in rows}
            commit(rows, events)
            for workspace_id, row in rows.items():
                self._committed(
                    before[workspace_id], row, [one for each, one in events if each == workspace_id]
                )

        store._commit = watched  # type: ignore[method-assign]
        return store

    def watch_backends(self) -> None:
        world = self._world
        world.storage._disks = Watched(self._disk_changed)
        world.storage._objects = Watched(self._object_changed)
        boxes = Watched(self._box_changed)
        world.instances._boxes = boxes
        world.storage.is_in_use = boxes.__contains__

    def truth(self, workspace_id: UUID) -> Truth:
        found = self._truth.get(workspace_id)
        if found is None:
            found = self._truth[workspace_id] = Truth()
        return found

    @contextmanager
    def misfortune(self, workspace_id: UUID) -> Iterator[None]:
        """What happens in here is nobody's doing."""
        self._excused = workspace_id
        self.truth(workspace_id).struck_at = self._world.loop.time()
        try:
            yield
        finally:
            self._excused = None

    def outage(self, since: float, until: float) -> None:
        """Some backend is away. Outages that overlap are one."""
        if self._outages and self._outages[-1][1] >= since:
            since, until = self._outages[-1][0], max(until, self._outages.pop()[1])
        self._outages.append((since, until))

    def end_outages(self, now: float) -> None:
        self._outages = [(since, min(until, now)) for since, until in self._outages]

    def types(self, workspace_id: UUID) -> bool:
        """A person writes into the home, if the instance is there."""
        instances = self._world.instances
        box = instances._boxes.get(workspace_id)
        if box is None or not box.running or self._world.storage.volume_id(workspace_id) != box.volume_id:
            return False
        truth = self.truth(workspace_id)
        truth.used_at = self._world.loop.time()
        truth.writes += 1
        instances.write(workspace_id, "notes", b"%d" % truth.writes)
        truth.expected = self._world.storage.files(workspace_id)
        return True

    def visited(self, visit: Visit, person: Visitor, row: Workspace | None, decision: Decision) -> None:
        """Who was led in, or woke something, and by what kind of visit."""
        if row is None or not isinstance(decision, Connect | Wake):
            return
        if person.user_id != row.spec.owner_user_id:
            self._break("only its owner enters", row.id, f"{person.username} got {decision}")
        is_person = visit in (NAVIGATION, PROGRAM)
        if isinstance(decision, Wake):
            if not is_person:
                self._break("waking by intent", row.id, f"{visit} woke it")
            return
        if row.status.phase is not Phase.RUNNING or row.spec.deleted_at is not None:
            self._break("leads to what runs", row.id, f"somebody was led to {row.status.phase}")
        if is_person:
            self.truth(row.id).used_at = self._world.loop.time()

    # What was seen.

    def saw_instance(self, workspace_id: UUID, found: Instance | None) -> None:
        if found is not None and found.healthy:
            self.truth(workspace_id).healthy_at = self._world.loop.time()

    def saw_instances(self, found: Mapping[UUID, Instance]) -> None:
        now = self._world.loop.time()
        for workspace_id, truth in self._truth.items():
            seen = found.get(workspace_id)
            if seen is None:
                truth.no_instance_at = now
            elif seen.healthy:
                truth.healthy_at = now

    def saw_volumes(self, found: Mapping[UUID, Volume]) -> None:
        now = self._world.loop.time()
        for workspace_id, truth in self._truth.items():
            seen = found.get(workspace_id)
            if seen is None:
                truth.no_volume_at = now
            elif seen.volume_id is not None:
                truth.volume_at[seen.volume_id] = now

    def acts(self, machine: "Machine", point: str, workspace_id: UUID) -> None:
        """Right before each actuator call the row is asked whether it still carries the operation. GC asks the rows instead."""
        if point == "delete_archive":
            return
        row = self._world.store._workspaces[workspace_id]
        if row.status.phase is Phase.DELETED and is_purge_due(row.spec, self._world.now()):
            return
        if point == "delete_volume" and row.status.operation is Operation.NONE:
            return
        op_id = machine.asked.pop(workspace_id, None)
        if op_id is None:
            self._break(
                "claim, then act", workspace_id, f"{machine.name} called {point} without asking the row"
            )
        elif self._issuers.get(op_id) is not machine:
            self._break(
                "claim, then act", workspace_id, f"{machine.name} called {point} under another's op_id"
            )

    def issued(self, machine: "Machine", changes: Iterable[Change]) -> None:
        """Who wrote an op_id first has claimed it: a process that died and came back is another."""
        for change in changes:
            if change.status.op_id is not None:
                self._issuers.setdefault(change.status.op_id, machine)

    # Commits.

    def _committed(self, before: Workspace | None, after: Workspace, events: list[Event]) -> None:
        if before is None:
            self.truth(after.id)
            return
        if before.status is not after.status and before.spec is not after.spec:
            self._break("3 single writer", after.id, "one write changed both halves of the row")
        if before.spec is not after.spec:
            self._wished(before, after, events)
        else:
            self._observed(before, after, events)
        self._check_home(after)

    def _wished(self, before: Workspace, after: Workspace, events: list[Event]) -> None:
        spec = after.spec
        if spec.last_access_at != before.spec.last_access_at:
            self._check_use(after)
        if any(event.actor == "ttl" for event in events):
            self._check_idle(before)
        is_wish = before.spec.desired_state is not spec.desired_state and spec.deleted_at is None
        if is_wish and before.spec.deleted_at is None and before.status.operation is not Operation.NONE:
            self._break(
                "4 non-preemptive",
                after.id,
                f"{spec.desired_state} was wished during {before.status.operation}",
            )
        if is_wish and spec.desired_state is DesiredState.RUNNING and not counts_as_running(before):
            self._check_limits(after)
        error = before.status.error_info
        is_deletion = spec.deleted_at is not None and before.spec.deleted_at is None
        is_given_up = is_deletion and error is not None and error.reason is ErrorReason.DATA_LOST
        is_recovery = spec.recover_at != before.spec.recover_at
        if is_given_up or (is_recovery and spec.recover_accepts_loss):
            self.truth(after.id).expected = None
        if error is not None and (is_deletion or is_recovery):
            self.truth(after.id).losses.clear()  # whoever answers an error begins anew

    def _check_use(self, after: Workspace) -> None:
        """What is recorded as use was somebody's doing: an open tab is not."""
        assert after.spec.last_access_at is not None
        recorded_at = (after.spec.last_access_at - EPOCH).total_seconds()
        if recorded_at > self.truth(after.id).used_at + _MOMENT_S:
            self._break(
                "an open tab is no use", after.id, f"a use at {recorded_at:.1f} s, and there was none"
            )

    def _check_idle(self, before: Workspace) -> None:
        """Its time to live has passed since anything happened that counts."""
        spec, status = before.spec, before.status
        is_running = status.phase is Phase.RUNNING
        ttl_s = spec.standby_ttl_seconds if is_running else spec.archive_ttl_seconds
        since = [spec.last_access_at, status.phase_changed_at, spec.awake_until if is_running else None]
        last = max(at for at in since if at is not None)
        if ttl_s is None or (self._world.now() - last).total_seconds() < ttl_s:
            self._break(
                "asleep only when idle", before.id, f"{status.phase} ended though it was used at {last}"
            )

    def _check_limits(self, after: Workspace) -> None:
        running = [row for row in self._world.rows() if counts_as_running(row)]
        mine = [row for row in running if row.spec.owner_user_id == after.spec.owner_user_id]
        if len(mine) > LIMITS.per_user or len(running) > LIMITS.total:
            self._break("limits", after.id, f"{len(mine)} run of one user, {len(running)} in all")

    def _observed(self, before: Workspace, after: Workspace, events: list[Event]) -> None:
        old, new = before.status, after.status
        truth = self.truth(after.id)
        if self.forbid_writes and after.spec.deleted_at is None:
            self._break(
                "14 what converges stays converged",
                after.id,
                f"{new.phase} {new.operation} was written in calm",
            )
        if new.version != old.version + 1:
            self._break("3 single writer", after.id, f"version {old.version} became {new.version}")
        if new.operation is Operation.NONE and says_the_same(old, new):
            self._break(
                "14 what converges stays converged", after.id, "a row was written though nothing changed"
            )
        if new.phase is Phase.ERROR and new.operation is not Operation.NONE:
            self._break("4 non-preemptive", after.id, f"ERROR with {new.operation}")
        if new.error_count > _ERRORS_MAX:
            self._break("10 bounded retries", after.id, f"{new.error_count} failures in one operation")
        if old.operation is not Operation.NONE and new.operation not in (Operation.NONE, old.operation):
            self._break("4 non-preemptive", after.id, f"{old.operation} became {new.operation}")
        if old.operation is Operation.NONE and new.operation is not Operation.NONE:
            self._begun(before, after, truth)
        if old.operation is not Operation.NONE and new.operation is Operation.NONE:
            self._ended(before, after, truth, events)
        if new.phase is Phase.ERROR and old.phase is not Phase.ERROR:
            self._erred(after, truth)
        self._count_losses(before, after, truth)

    def _begun(self, before: Workspace, after: Workspace, truth: Truth) -> None:
        operation, phase = after.status.operation, after.status.phase
        truth.began_at = self._world.loop.time()
        if phase not in SOURCES[operation]:
            self._break("5 ordered", after.id, f"{operation} began in {phase}")
        if before.status.op_id == after.status.op_id:
            self._break(
                "7 one op_id per operation", after.id, f"{operation} began under the op_id of the one before"
            )
        wish = DesiredState.PENDING if after.spec.deleted_at else after.spec.desired_state
        target = LEVEL.get(Phase(wish.value), 0)
        level = LEVEL.get(phase, 0)
        key, home = before.status.archive_key, before.status.home_ctx
        is_condemned = key is not None and key != home.restore_marker
        is_down = operation is Operation.ARCHIVING and not is_condemned
        if (operation in _UP and target <= level) or (is_down and target >= level):
            self._break("5 ordered", after.id, f"{operation} began in {phase} with the wish {wish}")
        if operation is Operation.STARTING and not after.status.home_ctx.dirty:
            self._break("11 no silent loss", after.id, "STARTING began without dirty")

    def _ended(self, before: Workspace, after: Workspace, truth: Truth, events: list[Event]) -> None:
        """Only an observation completes an operation (contract 1)."""
        reasons = {one.reason for one in events if one.kind is EventKind.OPERATION}
        if after.status.phase is Phase.ERROR or reasons & _LET_GO:
            return
        if Why.SEEN.value not in reasons:
            self._break(
                "1 reality over database", after.id, f"{before.status.operation} ended because: {reasons}"
            )
        operation, home, since = before.status.operation, before.status.home_ctx, truth.began_at
        seen = {
            Operation.PROVISIONING: truth.volume_at.get(home.volume_id or "", -1),
            Operation.RESTORING: truth.volume_at.get(home.volume_id or "", -1),
            Operation.STARTING: truth.healthy_at,
            Operation.STOPPING: truth.no_instance_at,
            Operation.ARCHIVING: truth.no_volume_at,
            Operation.DELETING: min(truth.no_volume_at, truth.no_instance_at),
        }.get(operation, since)
        if seen < since:
            self._break(
                "1 reality over database", after.id, f"{operation} was completed, and its end was not seen"
            )
        needs_archive = operation in (Operation.ARCHIVING, Operation.CREATE_EMPTY_ARCHIVE)
        if needs_archive and after.status.archive_key not in truth.committed:
            self._break(
                "1 reality over database", after.id, f"{operation} was completed without a committed archive"
            )

    def _erred(self, after: Workspace, truth: Truth) -> None:
        """An outage is not a failure (contract 12): time without a backend does not count."""
        error = after.status.error_info
        assert error is not None
        if error.reason is not ErrorReason.TIMEOUT:
            return
        now = self._world.loop.time()
        away = sum(max(0.0, min(until, now) - max(since, truth.began_at)) for since, until in self._outages)
        limit = RULES.time_limits[error.operation].total_seconds()
        if now - truth.began_at - away < limit - _PASS_S_MAX:
            self._break(
                "12 an outage is not a failure", after.id, f"{error.operation} timed out during an outage"
            )

    def _count_losses(self, before: Workspace, after: Workspace, truth: Truth) -> None:
        """A workspace that dies again and again is not restarted for ever (contract 15)."""
        now = self._world.loop.time()
        is_lost = (
            before.status.phase is Phase.RUNNING
            and before.status.operation is Operation.NONE
            and after.status.phase is Phase.STANDBY
            and after.spec.desired_state is DesiredState.RUNNING
        )
        if not is_lost:
            return
        truth.losses.append(now)
        while truth.losses and now - truth.losses[0] > 600:
            truth.losses.popleft()
        was_restarted = any(at > truth.losses[0] - 60 for at in self._world.restarts)
        if len(truth.losses) > _LOSSES_MAX and not was_restarted:
            self._break(
                "15 crash loop",
                after.id,
                f"it died {len(truth.losses)} times in 10 minutes and was started again",
            )

    # Effects.

    def _disk_changed(self, workspace_id: UUID, before: Disk | None, after: Disk | None) -> None:
        truth = self.truth(workspace_id)
        if after is not None and after.volume_id in truth.volumes_gone:
            self._break(
                "6 a container implies a volume", workspace_id, "a volume that was gone is there again"
            )
        if before is None or before.volume_id is None:
            return
        truth.volumes_gone.add(before.volume_id)
        if self._excused == workspace_id:
            return
        row = self._world.store._workspaces[workspace_id]
        if self._world.instances._boxes.get(workspace_id) is not None:
            self._break(
                "8 container gone before volume", workspace_id, "a volume was removed under its container"
            )
        if after is None or after.files != before.files:
            self._check_copies(row, before.files, "its volume was removed")

    def _object_changed(self, key: str, before: Object | None, after: Object | None) -> None:
        workspace_id = UUID(key.split("/", maxsplit=1)[0])
        truth = self.truth(workspace_id)
        if after is not None:
            is_same = before is not None and after.committed and after.files == before.files
            if before is not None and before.committed and not is_same:
                self._break("7 archiving is idempotent", workspace_id, f"{key} was written over")
            if after.committed:
                truth.committed.add(key)
            return
        if self._excused == workspace_id or before is None:
            return
        row = self._world.store._workspaces[workspace_id]
        now = self._world.now()
        if is_purge_due(row.spec, now):
            return
        if key == row.status.archive_key:
            self._break("9 garbage collection", workspace_id, f"the archive it needs was removed: {key}")
        # What was never committed can't be any more, once its operation is not the row's: a late job may write there in vain.
        could_count = before.committed or str(row.status.op_id) in key
        is_young = now + self._world.skew - before.modified_at < GRACE - abs(self._world.skew) * 2
        if could_count and is_young:
            self._break(
                "9 garbage collection", workspace_id, f"an object within its grace time was removed: {key}"
            )
        self._check_copies(row, before.files, "an archive was removed", since=self._listed_at.get(key))

    def _box_changed(self, workspace_id: UUID, before: Box | None, after: Box | None) -> None:
        is_start = after is not None and (before is None or before.volume_id != after.volume_id)
        if after is None or not is_start:
            return
        if self._world.storage.volume_id(workspace_id) != after.volume_id:
            what = "an instance was started on a volume that is not there"
            self._break("6 a container implies a volume", workspace_id, what)

    def removes_archive(self, key: str, listed_at: float) -> None:
        """Garbage collection decides by what it has listed, so what struck before that is no excuse."""
        self._listed_at[key] = listed_at

    def _check_copies(
        self, row: Workspace, removed: Mapping[str, bytes], what: str, *, since: float | None = None
    ) -> None:
        """Somewhere the home must be: on its volume, in the archive that the row names, or in what its operation has made
        (contracts 8 and 11)."""
        expected = self.truth(row.id).expected
        if not expected or removed != expected or is_purge_due(row.spec, self._world.now()):
            return
        storage = self._world.storage
        key = row.status.archive_key
        noticed_at = ASKED_AT.get(self._world.loop.time()) - _NOTICED_S if since is None else since
        if self.truth(row.id).struck_at >= noticed_at:
            return
        kept = [key, None if row.status.op_id is None else archive_key(row.id, row.status.op_id)]
        archived = (storage.archived_files(each) for each in kept if each is not None)
        if storage.files(row.id) == expected or expected in archived:
            return
        self._break("11 no silent loss", row.id, f"{what}, and nothing holds {dict(expected)} any more")

    def _check_home(self, row: Workspace) -> None:
        """A home that counts holds what its owner left there: no roll-back, no fresh empty home (contracts 7 and 11)."""
        status = row.status
        if status.phase not in (Phase.STANDBY, Phase.RUNNING) or not status.conditions.volume_ready.is_true:
            return
        truth, storage = self.truth(row.id), self._world.storage
        if storage.volume_id(row.id) != status.home_ctx.volume_id or is_purge_due(
            row.spec, self._world.now()
        ):
            return
        files = storage.files(row.id)
        if truth.expected is None:
            # Who gave their home up sees what is there when it runs.
            truth.expected = files if status.phase is Phase.RUNNING else None
        elif files != truth.expected:
            self._break(
                "11 no silent loss", row.id, f"its home holds {files} and should hold {dict(truth.expected)}"
            )

    def _break(self, contract: str, workspace_id: UUID | None, what: str) -> None:
        self._world.break_(contract, workspace_id, what)


def is_satisfied(row: Workspace, now: datetime) -> bool:
    """Whether it is where its wish or its deletion wants it."""
    status: Status = row.status
    if status.operation is not Operation.NONE:
        return False
    if row.spec.deleted_at is not None:
        return status.phase is Phase.DELETED and (
            status.archive_key is None or not is_purge_due(row.spec, now)
        )
    wish = row.spec.desired_state
    return status.phase.value == wish.value or (
        wish is DesiredState.PENDING and status.phase is Phase.ARCHIVED
    )
