"""Judges: they see every look, every effect and every visit as it happens,
and say which contract was broken. `commits` sees the rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.commits import Commits
from tests.simulation.doors import NAVIGATION, PROGRAM
from tests.simulation.numbers import EPOCH, GRACE
from tests.simulation.truth import ASKED_AT, HAS_ROOM, Truth, Watched

from codehub.adapters.memory.contents import Disk, Object
from codehub.adapters.memory.instances import MemoryInstance
from codehub.core.observation import Instance, Volume
from codehub.core.operations import Operation, Phase
from codehub.core.requests import is_purge_asked, is_purge_due
from codehub.core.visit import Connect, Decision, Visit, Visitor, Wake
from codehub.core.workspace import Workspace, holdup
from codehub.ports.archives import archive_key
from codehub.ports.store import Change

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.world import World

# Whoever decided just before a misfortune could not know of it.
_NOTICED_S = 120.0
# What is committed is known as exactly as the question that comes before it.
_MOMENT_S = 10.0
_FILLS = frozenset({"provision", "restore", "start"})


class Judges:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._truth: dict[UUID, Truth] = {}
        self.commits = Commits(world, self.truth)
        self._excused: UUID | None = None
        self._issuers: dict[UUID, Machine] = {}
        self._listed_at: dict[str, float] = {}
        self._deleted_at: dict[UUID, float] = {}
        """When the deletion was asked for of a volume that is ending."""
        self.in_flight: set[UUID] = set()
        """Under which op_ids a process waits for a step that it has asked for."""

        # What the backends hold: every change is judged.
        self.disks = Watched(self._disk_changed)
        self.objects = Watched(self._object_changed)
        self.watched_instances = Watched(self._box_changed)

    def truth(self, workspace_id: UUID) -> Truth:
        truth = self._truth.get(workspace_id)
        if truth is None:
            truth = self._truth[workspace_id] = Truth()
        return truth

    @contextmanager
    def misfortune(self, workspace_id: UUID) -> Iterator[None]:
        """What happens in here is nobody's doing."""
        self._excused = workspace_id
        self.truth(workspace_id).struck_at = self._world.loop.time()
        try:
            yield
        finally:
            self._excused = None

    def types(self, workspace_id: UUID) -> bool:
        """A person writes into the home, if the instance is there."""
        instances = self._world.instances
        box = instances.by_workspace.get(workspace_id)
        if box is None or not box.running or self._world.storage.volume_id(workspace_id) != box.volume_id:
            return False
        if self._world.disk.free_mb == 0:
            return False  # who types is told that it could not be saved
        truth = self.truth(workspace_id)
        truth.used_at = truth.written_at = self._world.loop.time()
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

    def saw_instance(self, workspace_id: UUID, instance: Instance | None) -> None:
        if instance is not None and instance.healthy:
            self.truth(workspace_id).healthy_at = self._world.loop.time()

    def saw_instances(self, instances: Mapping[UUID, Instance]) -> None:
        now = self._world.loop.time()
        for workspace_id, truth in self.commits.at_work.items():
            observation = instances.get(workspace_id)
            if observation is None:
                truth.no_instance_at = now
            elif observation.healthy:
                truth.healthy_at = now

    def saw_volumes(self, volumes: Mapping[UUID, Volume]) -> None:
        now = self._world.loop.time()
        for workspace_id, truth in self.commits.at_work.items():
            observation = volumes.get(workspace_id)
            if observation is None:
                truth.no_volume_at = now
            elif observation.volume_id is not None:
                truth.volume_at[observation.volume_id] = now

    @contextmanager
    def acts(self, machine: "Machine", point: str, workspace_id: UUID) -> Iterator[None]:
        """Right before each actuator call the row is asked whether it
        still carries the operation. GC asks the rows instead.
        """
        row = self._world.store.rows[workspace_id]
        is_collected = (
            point == "delete_archive"
            or (row.status.phase is Phase.DELETED and is_purge_due(row.spec, self._world.now()))
            or (point == "delete_volume" and row.status.operation is Operation.NONE)
        )
        op_id = None if is_collected else self._claim(machine, point, row)
        if point in _FILLS and not HAS_ROOM.get():
            self._break("room before what fills", workspace_id, f"{machine.name} called {point} without room")
        if op_id is None:
            yield
            return
        self.in_flight.add(op_id)
        try:
            yield
        finally:
            self.in_flight.discard(op_id)

    def _claim(self, machine: "Machine", point: str, row: Workspace) -> UUID | None:
        workspace_id = row.id
        op_id: UUID | None = machine.asked.pop(workspace_id, None)
        if op_id == row.status.op_id and holdup(row.status) is not None:
            self._break("claim, then act", workspace_id, f"{machine.name} called {point} for what is held up")
        if op_id is None:
            self._break(
                "claim, then act", workspace_id, f"{machine.name} called {point} without asking the row"
            )
        elif self._issuers.get(op_id) is not machine:
            self._break(
                "claim, then act", workspace_id, f"{machine.name} called {point} under another's op_id"
            )
        return op_id

    def issued(self, machine: "Machine", changes: Iterable[Change]) -> None:
        """Who wrote an op_id first has claimed it: a process that died and came back is another."""
        for change in changes:
            if change.status.op_id is not None:
                self._issuers.setdefault(change.status.op_id, machine)

    # Effects.

    def _disk_changed(self, workspace_id: UUID, before: Disk | None, after: Disk | None) -> None:
        truth = self.truth(workspace_id)
        if after is not None and after.is_ending:
            self._deleted_at[workspace_id] = ASKED_AT.get(self._world.loop.time())
            return
        deleted_at = self._deleted_at.pop(workspace_id, None)
        if after is not None and after.volume_id in truth.volumes_gone:
            self._break(
                "6 a container implies a volume", workspace_id, "a volume that was gone is there again"
            )
        if before is None or (before.volume_id is None and before.former_id is None):
            return
        if before.volume_id is not None:
            truth.volumes_gone.add(before.volume_id)
        if self._excused == workspace_id:
            return
        row = self._world.store.rows[workspace_id]
        if self._world.instances.by_workspace.get(workspace_id) is not None:
            self._break(
                "8 container gone before volume", workspace_id, "a volume was removed under its container"
            )
        if self._was_given_up(row, before):
            truth.struck_at = self._world.loop.time()
        elif after is None or after.files != before.files:
            since = None if deleted_at is None else deleted_at - _NOTICED_S
            self._check_copies(row, before.files, "its volume was removed", since=since)

    def _was_given_up(self, row: Workspace, before: Disk) -> bool:
        """Whether it has no identity, and was given up when the call was made that has its effect now, and is
        not any more. Nothing takes that call back: an adoption counts from when it took effect. Nobody may be
        left in the belief that the files are there all the same.
        """
        if before.volume_id is not None or before.former_id in (None, row.status.home_ctx.replaces):
            return False
        asked_at = ASKED_AT.get(self._world.loop.time())
        return self.truth(row.id).given_up_at(asked_at) == before.former_id

    def _object_changed(self, key: str, before: Object | None, after: Object | None) -> None:
        workspace_id = UUID(key.split("/", maxsplit=1)[0])
        truth = self.truth(workspace_id)
        if after is not None:
            is_same = before is not None and after.committed and after.files == before.files
            if before is not None and before.committed and not is_same:
                self._break("7 archiving is idempotent", workspace_id, f"{key} was written over")
            if after.committed:
                truth.committed.setdefault(key, self._world.loop.time())
            return
        if self._excused == workspace_id or before is None:
            return
        self._removed_object(self._world.store.rows[workspace_id], key, before)

    def _removed_object(self, row: Workspace, key: str, before: Object) -> None:
        truth, workspace_id = self.truth(row.id), row.id
        now = self._world.now()
        if is_purge_due(row.spec, now):
            if before.committed:
                self._check_copies(row, before.files, "an archive was removed")
            return
        if key == row.status.archive_key and not self._was_replaced_when_asked(row, key):
            self._break("9 garbage collection", workspace_id, f"the archive it needs was removed: {key}")
        # What was never committed can't be any more, once its operation is
        # not the row's: a late job may write there in vain.
        could_count = before.committed or str(row.status.op_id) in key
        is_young = now + self._world.skew - before.modified_at < GRACE - abs(self._world.skew) * 2
        if could_count and is_young:
            self._break(
                "9 garbage collection", workspace_id, f"an object within its grace time was removed: {key}"
            )
        if before.committed and row.status.phase is not Phase.DELETED:
            self._check_replaced(row, key, truth)
        if before.committed:  # what was never committed was no copy
            self._check_copies(row, before.files, "an archive was removed", since=self._listed_at.get(key))

    def _was_replaced_when_asked(self, row: Workspace, key: str) -> bool:
        """Whether its removal was asked for before a person took it in the place of the newer one that is
        gone. Nothing takes that call back; the copy that it is given first ends the danger.
        """
        named = self.truth(row.id).named_at(ASKED_AT.get(self._world.loop.time()))
        return row.status.home_ctx.given_up_at is not None and named != key

    def _may_be_purged(self, row: Workspace) -> bool:
        """A person's purge keeps nothing. The end of the trash's time is
        nobody's word for what was worked on after the deletion.
        """
        if not is_purge_due(row.spec, self._world.now()):
            return False
        assert row.spec.deleted_at is not None
        said_at = row.spec.deleted_at
        if row.spec.recover_accepts_loss and row.spec.recover_at is not None:
            said_at = max(said_at, row.spec.recover_at)
        # While it stepped down somebody could still type: its last archive, which has that, lay in the trash.
        if row.status.phase is Phase.DELETED and row.status.phase_changed_at is not None:
            said_at = max(said_at, row.status.phase_changed_at)
        said_s = (said_at - EPOCH).total_seconds()
        return is_purge_asked(row.spec) or self.truth(row.id).written_at <= said_s

    def _check_replaced(self, row: Workspace, key: str, truth: Truth) -> None:
        """An archive goes when another took its place long enough ago,
        so that a dump of the database from before finds it.
        """
        # A call may come late: what the row named when it was made
        # counts. Its archive may have vanished since.
        asked_at = ASKED_AT.get(self._world.loop.time())
        mine, own = truth.committed[key], truth.committed.get(truth.named_at(asked_at) or "")
        if own is None or mine > own:
            self._break("9 garbage collection", row.id, f"an archive newer than the row's was removed: {key}")
            return
        replaced_at = min(at for at in truth.committed.values() if at > mine)
        if asked_at - replaced_at < GRACE.total_seconds() - _MOMENT_S:
            self._break(
                "9 garbage collection", row.id, f"an archive that was replaced just now was removed: {key}"
            )

    def was_replaced_before(self, row: Workspace, key: str, seconds: float) -> bool:
        """Whether garbage collection had so much time to remove this archive
        after its grace. One that is newer than the row's stays.
        """
        committed = self.truth(row.id).committed
        own = committed.get(row.status.archive_key or "")
        if own is None or committed[key] >= own:
            return False
        there = self._world.storage.objects
        later = [at for each, at in committed.items() if at > committed[key] and each in there]
        if not later:  # its own archive is missing, so that this one is a spare
            return False
        replaced_at = min(later)
        return self._world.loop.time() - replaced_at > GRACE.total_seconds() + seconds

    def rolled_back(self, rows: Iterable[Workspace]) -> None:
        """What was under way in the dump begins anew, and what was counted towards a crash loop is
        forgotten. A home that was lost before can't be missed any more: the dump does not know of it.
        """
        for row in rows:
            truth = self.truth(row.id)
            self.forget_what_nothing_holds(row.id)
            truth.losses.clear()
            truth.named.append((self._world.loop.time(), row.status.archive_key))
            truth.given_up.append((self._world.loop.time(), row.status.home_ctx.replaces))
            begun, looked = row.status.op_started_at, row.status.observed_at
            ran = 0.0 if begun is None or looked is None else (looked - begun).total_seconds()
            truth.began_at, truth.ran_before_s = self._world.loop.time(), max(ran, 0.0)
            self.commits.at_work.pop(row.id, None)
            if row.status.operation is not Operation.NONE:
                self.commits.at_work[row.id] = truth

    def forget_what_nothing_holds(self, workspace_id: UUID) -> None:
        """Expect no more of a home that vanished as a whole, and that no row
        tells of: neither a volume nor any archive holds it.
        """
        storage, truth = self._world.storage, self.truth(workspace_id)
        disk = storage.disks.get(workspace_id)
        held = [None if disk is None else disk.files, *map(storage.archived_files, truth.committed)]
        if truth.expected not in held:
            truth.expected = None

    def _box_changed(
        self, workspace_id: UUID, before: MemoryInstance | None, after: MemoryInstance | None
    ) -> None:
        is_start = after is not None and (before is None or before.number != after.number)
        if after is None or not is_start:
            return
        disk = self._world.storage.disks.get(workspace_id)
        if disk is None or disk.volume_id != after.volume_id or disk.is_ending:
            what = "an instance was started on a volume that is not there to stay"
            self._break("6 a container implies a volume", workspace_id, what)
        if before is not None and before.running and before.ending_since is not None:
            what = "an instance was started beside one that has not ended"
            self._break("13 one instance", workspace_id, what)

    def removes_archive(self, key: str, listed_at: float) -> None:
        """Garbage collection decides by what it has listed, so what struck before that is no excuse."""
        self._listed_at[key] = listed_at

    def _check_copies(
        self, row: Workspace, removed: Mapping[str, bytes], what: str, *, since: float | None = None
    ) -> None:
        """Somewhere the home must be: on its volume, in the archive that the row
        names, or in what its operation has made (contracts 8 and 11).
        """
        expected = self.truth(row.id).expected
        if not expected or removed != expected or self._may_be_purged(row):
            return
        storage = self._world.storage
        key = row.status.archive_key
        noticed_at = ASKED_AT.get(self._world.loop.time()) - _NOTICED_S if since is None else since
        if self.truth(row.id).struck_at >= noticed_at:
            return
        kept = [key, None if row.status.op_id is None else archive_key(row.id, row.status.op_id)]
        kept += self._newer_than(row)
        archived = (storage.archived_files(each) for each in kept if each is not None)
        if storage.files(row.id) == expected or expected in archived:
            return
        self._break("11 no silent loss", row.id, f"{what}, and nothing holds {dict(expected)} any more")

    def _newer_than(self, row: Workspace) -> list[str]:
        """Archives that the row does not know yet, and that a person will be asked about."""
        committed = self.truth(row.id).committed
        own = committed.get(row.status.archive_key or "", -1.0)
        return [key for key, at in committed.items() if at > own]

    def _break(self, contract: str, workspace_id: UUID | None, what: str) -> None:
        self._world.break_(contract, workspace_id, what)
