"""Commits: every write of a row in, the contract that it breaks out.
What is true is known from the judges who see the effects.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.numbers import EPOCH, LIMITS, RULES
from tests.simulation.truth import Truth

from codehub.core.errors import ErrorReason
from codehub.core.history import Event, EventKind
from codehub.core.messages import Code
from codehub.core.operations import LEVEL, DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.recoveries import is_recovered
from codehub.core.requests import is_purge_due
from codehub.core.workspace import (
    RecoverChoice,
    Status,
    Workspace,
    counts_as_running,
    holdup,
    is_adopting,
    says_the_same,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

# From which phases each operation may begin (spec §2.3), said
# once more, so that a mistake in the table is seen.
SOURCES: Mapping[Operation, frozenset[Phase]] = {
    Operation.PROVISIONING: frozenset({Phase.PENDING}),
    Operation.CREATE_EMPTY_ARCHIVE: frozenset({Phase.PENDING}),
    Operation.RESTORING: frozenset({Phase.ARCHIVED}),
    Operation.STARTING: frozenset({Phase.STANDBY}),
    Operation.STOPPING: frozenset(Phase) - {Phase.DELETED},
    Operation.ARCHIVING: frozenset({Phase.STANDBY}),
    Operation.DELETING: frozenset(Phase),
}
# Which wishes these serve: for no other are they tried again once they are held up.
_SERVES: Mapping[Operation, frozenset[DesiredState]] = {
    Operation.PROVISIONING: frozenset({DesiredState.STANDBY, DesiredState.RUNNING}),
    Operation.CREATE_EMPTY_ARCHIVE: frozenset({DesiredState.ARCHIVED}),
    Operation.RESTORING: frozenset({DesiredState.STANDBY, DesiredState.RUNNING}),
    Operation.STARTING: frozenset({DesiredState.RUNNING}),
}
_UP = frozenset({Operation.PROVISIONING, Operation.RESTORING, Operation.STARTING})
_LET_GO = frozenset({Why.IMPOSSIBLE.value, Why.PURGE.value, Why.GIVEN_UP.value})
_ERRORS_MAX = 4
_LOSSES_MAX = 6
# A use is known as exactly as the moments in which traffic is counted.
_MOMENT_S = 10.5
# An operation begins at the time at which its pass began to look.
_PASS_S_MAX = 15.0


class Commits:
    """One judge. `truth` is what is known of a workspace."""

    def __init__(self, world: "World", truth: Callable[[UUID], Truth]) -> None:
        self._world = world
        self._truth = truth
        self._break = world.break_
        self._outages: list[tuple[float, float]] = []
        self.forbid_writes = False
        self.at_work: dict[UUID, Truth] = {}
        """Who has an operation under way: what is seen of them meanwhile may end it."""

    def outage(self, since: float, until: float) -> None:
        """Some backend is away. Outages that overlap are one."""
        if self._outages and self._outages[-1][1] >= since:
            since, until = self._outages[-1][0], max(until, self._outages.pop()[1])
        self._outages.append((since, until))

    def end_outages(self, now: float) -> None:
        self._outages = [(since, min(until, now)) for since, until in self._outages]

    def judge(self, before: Workspace | None, after: Workspace, events: list[Event]) -> None:
        if before is None:
            self._name_archive(after)
            return
        if before.status.archive_key != after.status.archive_key:
            self._name_archive(after)
        if before.status.home_ctx.replaces != after.status.home_ctx.replaces:
            given_up = self._truth(after.id).given_up
            given_up.append((self._world.loop.time(), after.status.home_ctx.replaces))
        if before.status is not after.status and before.spec is not after.spec:
            self._break("3 single writer", after.id, "one write changed both halves of the row")
        if before.spec is not after.spec:
            self._wished(before, after, events)
        else:
            self._observed(before, after, events)
        self._check_home(after)

    def _name_archive(self, row: Workspace) -> None:
        self._truth(row.id).named.append((self._world.loop.time(), row.status.archive_key))

    def _wished(self, before: Workspace, after: Workspace, events: list[Event]) -> None:
        spec = after.spec
        if spec.last_access_at != before.spec.last_access_at:
            self._check_use(after)
        if any(event.actor == "ttl" for event in events):
            self._check_idle(before)
        is_wish = before.spec.desired_state is not spec.desired_state and spec.deleted_at is None
        is_new_deletion = spec.deleted_at is not None and before.spec.deleted_at is None
        if (
            before.spec.deleted_at is None
            and (is_wish or is_new_deletion)
            and before.status.operation is not Operation.NONE
        ):
            self._check_held_up(before, spec.desired_state)
        if is_wish and spec.desired_state is DesiredState.RUNNING and not counts_as_running(before):
            self._check_limits(after)
        error = before.status.error_info
        is_deletion = spec.deleted_at is not None and before.spec.deleted_at is None
        is_given_up = is_deletion and error is not None and error.reason is ErrorReason.DATA_LOST
        is_recovery = spec.recover_at != before.spec.recover_at
        if (is_given_up or (is_recovery and spec.recover_accepts_loss)) and not self._is_there(before):
            self._truth(after.id).expected = None
        if is_recovery and spec.recover_choice is RecoverChoice.NEWEST:
            self._take_newest(after)
        if is_recovery and spec.recover_choice is RecoverChoice.ADOPT:
            self._adopt(after)
        if error is not None and (is_deletion or is_recovery):
            self._truth(after.id).losses.clear()  # whoever answers an error begins anew

    def _is_there(self, row: Workspace) -> bool:
        """Whether the home is there that is said to be lost, as a watch that is behind may say: who gives
        that up gives up nothing.
        """
        error = row.status.error_info
        disk = self._world.storage.disks.get(row.id)
        is_said = error is not None and error.message.code in (Code.VOLUME_LOST, Code.WITHOUT_VOLUME)
        is_there = disk is not None and disk.volume_id == row.status.home_ctx.volume_id is not None
        return is_said and is_there

    def _check_held_up(self, before: Workspace, wish: DesiredState) -> None:
        """What moves is not preempted: only what the row says is held up, and what no step is in flight
        for.
        """
        operation, op_id = before.status.operation, before.status.op_id
        if before.status.held_up is None or before.status.held_up.is_trying:
            self._break("4 non-preemptive", before.id, f"{wish} was wished during {operation}")
        if op_id in self._world.judges.in_flight:
            self._break(
                "4 non-preemptive", before.id, f"{wish} was wished while a step of {operation} was in flight"
            )

    def _take_newest(self, row: Workspace) -> None:
        """Who takes the newest archive gets just that one: what the home held beyond is given up."""
        storage, truth = self._world.storage, self._truth(row.id)
        if storage.volume_id(row.id) == row.status.home_ctx.volume_id is not None:
            return  # a home that is there is not replaced
        archives = {
            key: at
            for key, at in truth.committed.items()
            if (files := storage.archived_files(key)) is not None
            and (files or row.status.archive_key is not None)
        }
        newest = max(archives, key=archives.__getitem__, default=None)
        truth.expected = None if newest is None else storage.archived_files(newest)

    def _adopt(self, row: Workspace) -> None:
        """Who adopts what is there goes on with its files, whatever was chosen before."""
        disk = self._world.storage._disks.get(row.id)
        if disk is not None and disk.former_id is not None:
            self._truth(row.id).expected = dict(disk.files)

    def _check_use(self, after: Workspace) -> None:
        """What is recorded as use was somebody's doing: an open tab is not."""
        assert after.spec.last_access_at is not None
        recorded_at = (after.spec.last_access_at - EPOCH).total_seconds()
        if recorded_at > self._truth(after.id).used_at + _MOMENT_S:
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
        truth = self._truth(after.id)
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
        self._check_let_go(before, after)
        if old.operation is Operation.NONE and new.operation is not Operation.NONE:
            self._begun(before, after, truth)
        if old.operation is not Operation.NONE and new.operation is Operation.NONE:
            self._ended(before, after, truth, events)
        if new.phase is Phase.ERROR and old.phase is not Phase.ERROR:
            self._erred(before, after, truth)
        self._count_losses(before, after, truth)

    def _check_let_go(self, before: Workspace, after: Workspace) -> None:
        held_up, wish = after.status.held_up, after.spec.desired_state
        is_tried_again = holdup(before.status) is not None and held_up is not None and held_up.is_trying
        if is_adopting(after.status):
            return
        if is_tried_again and wish not in _SERVES.get(after.status.operation, frozenset(DesiredState)):
            what = f"{after.status.operation} is tried again with the wish {wish}"
            self._break("what is given up is let go", after.id, what)

    def _begun(self, before: Workspace, after: Workspace, truth: Truth) -> None:
        operation, phase = after.status.operation, after.status.phase
        truth.began_at, truth.ran_before_s = self._world.loop.time(), 0.0
        self.at_work[after.id] = truth
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
        is_up = operation in _UP and not self._is_adoption(before, after)
        if (is_up and target <= level) or (is_down and target >= level):
            self._break("5 ordered", after.id, f"{operation} began in {phase} with the wish {wish}")
        if operation is Operation.STARTING and not after.status.home_ctx.dirty:
            self._break("11 no silent loss", after.id, "STARTING began without dirty")

    def _is_adoption(self, before: Workspace, after: Workspace) -> bool:
        """Whether the volume that is there is taken for the home, whatever is
        wished: right when a person has said so of this very error.
        """
        if not is_adopting(after.status):
            return False
        error, spec = before.status.error_info, after.spec
        if error is None or spec.recover_choice is not RecoverChoice.ADOPT or not is_recovered(spec, error):
            self._break("11 no silent loss", after.id, "a volume was adopted, and nobody had said so")
        known, home = before.status.home_ctx, after.status.home_ctx
        if home.volume_id == known.volume_id and home != replace(known, dirty=True):
            self._break("11 no silent loss", after.id, "an adoption forgot what is known of the home")
        return True

    def _ended(self, before: Workspace, after: Workspace, truth: Truth, events: list[Event]) -> None:
        """Only an observation completes an operation (contract 1)."""
        self.at_work.pop(after.id, None)
        reasons = {event.reason.code for event in events if event.kind is EventKind.OPERATION}
        is_forgotten = after.spec.forgotten_at is not None and after.status.phase is Phase.DELETED
        if after.status.phase is Phase.ERROR or reasons & _LET_GO or is_forgotten:
            return
        if Why.SEEN.value not in reasons:
            self._break(
                "1 reality over database", after.id, f"{before.status.operation} ended because: {reasons}"
            )
        operation, home, since = before.status.operation, before.status.home_ctx, truth.began_at
        self._check_is_gone(operation, after.id)
        observation = {
            Operation.PROVISIONING: truth.volume_at.get(home.volume_id or "", -1),
            Operation.RESTORING: truth.volume_at.get(home.volume_id or "", -1),
            Operation.STARTING: truth.healthy_at,
            Operation.STOPPING: truth.no_instance_at,
            Operation.ARCHIVING: truth.no_volume_at,
            Operation.DELETING: min(truth.no_volume_at, truth.no_instance_at),
        }.get(operation, since)
        if observation < since:
            self._break(
                "1 reality over database", after.id, f"{operation} was completed, and its end was not seen"
            )
        needs_archive = operation in (Operation.ARCHIVING, Operation.CREATE_EMPTY_ARCHIVE)
        if needs_archive and after.status.archive_key not in truth.committed:
            self._break(
                "1 reality over database", after.id, f"{operation} was completed without a committed archive"
            )

    def _check_is_gone(self, operation: Operation, workspace_id: UUID) -> None:
        """What is ending is there until it is gone. A watch that is behind may not know of it yet."""
        world = self._world
        instance, disk = world.instances.by_workspace.get(workspace_id), world.storage.disks.get(workspace_id)
        is_instance_ending = instance is not None and instance.ending_since is not None
        is_volume_ending = disk is not None and disk.is_ending
        is_gone = {
            Operation.STOPPING: not is_instance_ending,
            Operation.ARCHIVING: not is_volume_ending,
            Operation.DELETING: not is_instance_ending and not is_volume_ending,
        }.get(operation, True)
        if not is_gone and not world.is_any_watch_behind:
            what = f"{operation} was completed while what it ends was still ending"
            self._break("1 reality over database", workspace_id, what)

    def _erred(self, before: Workspace, after: Workspace, truth: Truth) -> None:
        """Every entry into ERROR counts. An outage is not a failure
        (contract 12): time without a backend does not count.
        """
        error = after.status.error_info
        assert error is not None
        if error.message.code == Code.WITHOUT_VOLUME and self._is_there(after):
            self._break("1 reality over database", after.id, "an instance was said to have lost its volume")
        if after.status.error_count != before.status.error_count + 1:
            counts = f"{before.status.error_count} became {after.status.error_count}"
            self._break("10 bounded retries", after.id, f"ERROR was entered, and error_count {counts}")
        if error.reason is not ErrorReason.TIMEOUT:
            return
        now = self._world.loop.time()
        away = sum(max(0.0, min(until, now) - max(since, truth.began_at)) for since, until in self._outages)
        limit = RULES.time_limits[error.operation].total_seconds()
        if truth.ran_before_s + now - truth.began_at - away < limit - _PASS_S_MAX:
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

    def _check_home(self, row: Workspace) -> None:
        """A home that counts holds what its owner left there: no
        roll-back, no fresh empty home (contracts 7 and 11).
        """
        status = row.status
        if status.phase not in (Phase.STANDBY, Phase.RUNNING) or not status.conditions.volume_ready.is_true:
            return
        truth, storage = self._truth(row.id), self._world.storage
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
