"""The store in memory: both ports on one dictionary, at a clock that is given.

Refuses what the schema refuses.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import takewhile
from uuid import UUID

from codehub.adapters.memory.access import Users
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.adapters.memory.reading import MemoryReading
from codehub.adapters.memory.rules import contradictions, is_idle
from codehub.core.amendments import RulingRecord, Running
from codehub.core.disk_space import DiskSpace, Usage
from codehub.core.history import Event, EventKind
from codehub.core.membership import Member, Members
from codehub.core.progress import Progress
from codehub.core.requests import Accepted, Refused
from codehub.core.workspace import Spec, Status, Workspace, counts_as_running
from codehub.ports.hints import Hints
from codehub.ports.store import (
    Admit,
    Change,
    Changes,
    Contradiction,
    Key,
    KeyReused,
    LoadedWorkspaces,
    MemberHeartbeat,
    NameTaken,
    Recorded,
    Ruled,
    UnknownWorkspace,
)

OnCommit = Callable[[Workspace | None, Workspace, list[Event]], None]
"""Takes a row as it was before a commit, None if there was
none, as it is now, and the events that came with it.
"""


class MemoryStore(MemoryReading):
    """No commit below awaits inside, so each one is a transaction."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        hints: Hints,
        faults: Faults = no_faults,
        users: Users | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """`on_commit` is called for each row that was committed, at once."""
        super().__init__({} if users is None else users, now, faults)
        self._hints = hints
        self._on_commit = on_commit
        self._keys: dict[tuple[UUID, str], tuple[bytes, UUID]] = {}
        self._last_seq = 0
        self._writes = 0
        self._write_numbers: dict[UUID, int] = {}
        """When each row was written last, the newest at the end."""

    @property
    def rows(self) -> Mapping[UUID, Workspace]:
        """Every row as it is now, whatever faults there are."""
        return self._workspaces

    @property
    def recorded(self) -> Sequence[Recorded]:
        """Every event that was recorded and not forgotten, the oldest first."""
        return self._history

    def dump(self) -> Mapping[UUID, Workspace]:
        """Return every row as it is, for `roll_back`."""
        return dict(self._workspaces)

    def roll_back(self, rows: Mapping[UUID, Workspace]) -> None:
        """Restore an older dump: these rows are as they were then. Rows that are not in it stay."""
        for workspace_id, row in rows.items():
            self._workspaces[workspace_id] = row
            self._writes += 1
            self._write_numbers.pop(workspace_id, None)
            self._write_numbers[workspace_id] = self._writes

    def silence_members(self, by: timedelta) -> None:
        """Move the last heartbeat of every controller back by this much."""
        self._members.update(
            {member_id: replace(member, at=member.at - by) for member_id, member in self._members.items()}
        )

    async def load_idle(self, *, limit: int = 10_000) -> LoadedWorkspaces:
        await self._faults("load")
        now = self._now()
        return LoadedWorkspaces(now, [row for row in self._workspaces.values() if is_idle(row, now)][:limit])

    async def load(self, workspace_ids: Collection[UUID]) -> LoadedWorkspaces:
        await self._faults("load")
        ids = set(workspace_ids)
        return LoadedWorkspaces(self._now(), [row for row in self._workspaces.values() if row.id in ids])

    async def changes(self, cursor: str | None) -> Changes:
        await self._faults("load")
        since = int(cursor or "0")
        newest_first = takewhile(lambda entry: entry[1] > since, reversed(self._write_numbers.items()))
        rows = [self._workspaces[workspace_id] for workspace_id, _ in newest_first]
        return Changes(self._now(), rows[::-1], str(self._writes))

    async def holds(self, workspace_id: UUID, op_id: UUID) -> datetime | None:
        await self._faults("load")
        return self._now() if self._has_operation(workspace_id, op_id) else None

    async def persist(self, changes: Sequence[Change]) -> frozenset[UUID]:
        ids = {change.workspace_id for change in changes}
        if len(ids) != len(changes):
            raise ValueError("a pass has one change per workspace")
        await self._faults("persist.before_commit")
        winners = [change for change in changes if self._has_version(change)]
        self._commit(
            {
                change.workspace_id: self._with_status(change.workspace_id, change.status)
                for change in winners
            },
            [(change.workspace_id, event) for change in winners for event in change.events],
        )
        await self._faults("persist.after_commit")
        winner_ids = {change.workspace_id for change in winners}
        await self._hints.send({change.workspace_id for change in winners if not change.is_quiet})
        return frozenset(ids - winner_ids)

    async def write_progress(
        self, progress: Mapping[UUID, tuple[UUID, Progress]], ended: Collection[UUID]
    ) -> None:
        await self._faults("progress.before_commit")
        self._progress.update(progress)
        for workspace_id in ended:
            self._progress.pop(workspace_id, None)

    def written_progress(self, workspace_id: UUID) -> Progress | None:
        """Return the progress that was written last, even if its operation is over."""
        written = self._progress.get(workspace_id)
        return None if written is None else written[1]

    async def write_usage(self, usages: Mapping[UUID, Usage]) -> None:
        await self._faults("usage.before_commit")
        self._usages.update(
            {
                workspace_id: usage
                for workspace_id, usage in usages.items()
                if workspace_id in self._workspaces
            }
        )

    async def write_shortage(self, room: DiskSpace | None) -> None:
        await self._faults("usage.before_commit")
        self._shortage = room

    async def forget_history(self, older_than: timedelta) -> int:
        await self._faults("forget_history.before_commit")
        oldest = self._now() - older_than
        forgotten = bisect_left(self._history, oldest, key=lambda recorded: recorded.at)
        del self._history[:forgotten]
        return forgotten

    async def beat(self, member: Member, *, alive_s: float, looked_at: datetime | None = None) -> Members:
        await self._faults("beat.before_commit")
        now = self._now()
        self._members[member.id] = MemberHeartbeat(member, now, looked_at)
        alive = timedelta(seconds=alive_s)
        return {
            member_id: heartbeat.member
            for member_id, heartbeat in self._members.items()
            if now - alive <= heartbeat.at <= now
        }

    async def leave(self, member_id: UUID) -> None:
        await self._faults("beat.before_commit")
        self._members.pop(member_id, None)

    async def create_workspace(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], key: Key | None = None
    ) -> Workspace:
        created = await self.create_counted(workspace_id, spec, events, lambda _running: None, key)
        assert isinstance(created, Workspace)
        return created

    async def create_counted(
        self, workspace_id: UUID, spec: Spec, events: Sequence[Event], admit: Admit, key: Key | None = None
    ) -> Workspace | Refused:
        await self._faults("create_workspace.before_commit")
        if key is not None and (used := self._keys.get((spec.owner_user_id, key.word))) is not None:
            if used[0] != key.body_sha256:
                raise KeyReused(key.word)
            return self._require(used[1])
        if workspace_id in self._workspaces:
            raise Contradiction(f"there is a workspace {workspace_id}")
        refused = admit(self._count_running(workspace_id, spec.owner_user_id))
        if refused is not None:
            return refused
        self._check_references(workspace_id, spec)
        now = self._now()
        created = Workspace(
            workspace_id, spec, Status(), created_at=now, updated_at=now, label=_label_of(workspace_id)
        )
        self._commit({workspace_id: created}, [(workspace_id, event) for event in events])
        if key is not None:
            self._keys[spec.owner_user_id, key.word] = (key.body_sha256, workspace_id)
        await self._faults("create_workspace.after_commit")
        await self._hints.send({workspace_id})
        return created

    async def get(self, workspace_id: UUID) -> Workspace:
        await self._faults("load")
        return self._require(workspace_id)

    async def amend(self, workspace_id: UUID, rule: Callable[[Workspace, datetime], RulingRecord]) -> Ruled:
        return await self.amend_counted(workspace_id, lambda row, now, _running: rule(row, now))

    async def amend_counted(
        self, workspace_id: UUID, rule: Callable[[Workspace, datetime, Running], RulingRecord]
    ) -> Ruled:
        await self._faults("amend.before_commit")
        workspace = self._require(workspace_id)
        record = rule(workspace, self._now(), self._count_running(workspace_id, workspace.spec.owner_user_id))
        ruling = record.ruling
        if not isinstance(ruling, Accepted):
            return Ruled(ruling, workspace)
        self._check_references(workspace_id, ruling.spec)
        workspace = replace(workspace, spec=ruling.spec, updated_at=self._now())
        self._commit({workspace_id: workspace}, [(workspace_id, event) for event in record.events])
        await self._faults("amend.after_commit")
        await self._hints.send({workspace_id})
        return Ruled(ruling, workspace)

    async def touch(self, accesses: Mapping[UUID, datetime]) -> None:
        await self._faults("touch.before_commit")
        known = {
            workspace_id: at for workspace_id, at in accesses.items() if workspace_id in self._workspaces
        }
        self._commit(
            {workspace_id: self._with_access(workspace_id, at) for workspace_id, at in known.items()}, []
        )
        await self._faults("touch.after_commit")

    def _commit(self, rows: Mapping[UUID, Workspace], events: Iterable[tuple[UUID, Event]]) -> None:
        """Store all of it or, if anything is refused, nothing."""
        for row in rows.values():
            if violations := list(contradictions(row)):
                raise Contradiction(f"{row.id} breaks {', '.join(violations)}")
        now = self._now()
        recorded = [
            Recorded(self._last_seq + offset, now, workspace_id, _check_kind(event))
            for offset, (workspace_id, event) in enumerate(events, start=1)
        ]
        before = {workspace_id: self._workspaces.get(workspace_id) for workspace_id in rows}
        self._workspaces.update(rows)
        self._writes += 1
        for workspace_id in rows:
            self._write_numbers.pop(workspace_id, None)
            self._write_numbers[workspace_id] = self._writes
        self._history.extend(recorded)
        self._last_seq += len(recorded)
        if self._on_commit is not None:
            for workspace_id, row in rows.items():
                mine = [each.event for each in recorded if each.workspace_id == workspace_id]
                self._on_commit(before[workspace_id], row, mine)

    def _check_references(self, workspace_id: UUID, spec: Spec) -> None:
        """Refuse what one row alone doesn't show: an unknown owner, a name that is taken."""
        if spec.owner_user_id not in self._users:
            raise Contradiction(f"{workspace_id} belongs to nobody known")
        if spec.deleted_at is None and any(
            other.id != workspace_id
            and other.spec.deleted_at is None
            and (other.spec.owner_user_id, other.spec.name) == (spec.owner_user_id, spec.name)
            for other in self._workspaces.values()
        ):
            raise NameTaken

    def _has_version(self, change: Change) -> bool:
        row = self._workspaces.get(change.workspace_id)
        if row is None or row.status.version != change.status.version:
            return False
        expected = (change.revision, change.recover_at)
        return change.revision is None or expected == (row.spec.revision, row.spec.recover_at)

    def _with_status(self, workspace_id: UUID, status: Status) -> Workspace:
        return replace(
            self._workspaces[workspace_id],
            status=replace(status, version=status.version + 1),
            updated_at=self._now(),
        )

    def _with_access(self, workspace_id: UUID, at: datetime) -> Workspace:
        row = self._workspaces[workspace_id]
        last = row.spec.last_access_at
        return replace(row, spec=replace(row.spec, last_access_at=at if last is None else max(last, at)))

    def _count_running(self, workspace_id: UUID, owner_id: UUID) -> Running:
        running = [
            row for row in self._workspaces.values() if row.id != workspace_id and counts_as_running(row)
        ]
        running_of_owner = sorted(
            (row.id, row.spec.name, row.status.phase) for row in running if row.spec.owner_user_id == owner_id
        )
        owned = [
            row
            for row in self._workspaces.values()
            if row.spec.owner_user_id == owner_id and row.spec.deleted_at is None and row.id != workspace_id
        ]
        return Running(running_of_owner, len(running), len(owned))

    def _require(self, workspace_id: UUID) -> Workspace:
        try:
            return self._workspaces[workspace_id]
        except KeyError:
            raise UnknownWorkspace(str(workspace_id)) from None


def _label_of(workspace_id: UUID) -> str:
    """Return its label. In memory it is the same in every run, as all that is drawn there."""
    return sha256(workspace_id.bytes).hexdigest()[:20]


def _check_kind(event: Event) -> Event:
    try:
        EventKind(event.kind)
    except ValueError as error:
        raise Contradiction(str(error)) from error
    return event
