"""Mutants that would lose, double or leave lying somebody's files:
archives, volumes, what is unsaved, what is collected.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.simulation.mutants.registry import mutant, patched
from tests.simulation.numbers import EPOCH

from codehub.adapters.memory import instances as memory_instances
from codehub.adapters.memory import storage as memory_storage
from codehub.adapters.memory.contents import Disk
from codehub.core import garbage, judge, observation, plan, recoveries, requests, transitions, visit
from codehub.core.conditions import Condition, Reason, Truth
from codehub.core.errors import ErrorInfo
from codehub.core.messages import verbatim
from codehub.core.observation import Volume
from codehub.core.operations import Operation, Phase, Step
from codehub.core.workspace import Status
from codehub.engine import execute, gc
from codehub.ports.storage import Home, RestoredVolume
from codehub.service import workspaces


@mutant
def delete_before_storing_the_key() -> Any:
    def first(status: Status) -> Step:
        if status.operation is Operation.ARCHIVING and status.conditions.volume_ready.is_true:
            return Step.DELETE_VOLUME if status.error_count else Step.ARCHIVE
        return original(status)

    original = plan._first_unfinished_step
    return patched(plan, "_first_unfinished_step", first)


@mutant
def collect_garbage_without_grace() -> Any:
    def sort(items: Any, rows: Any, now: datetime, *, grace: timedelta) -> Any:
        return original(items, rows, now, grace=timedelta(0) * grace.days)

    original = garbage.sort_garbage
    return patched(gc, "sort_garbage", sort)


@mutant
def collect_the_archive_of_the_running_operation() -> Any:
    def needed(item: Any, row: Any, _archives: Any) -> bool:
        return bool(item.name == row.status.archive_key)

    return [
        patched(garbage, "_is_needed", needed),
        patched(
            gc,
            "sort_garbage",
            lambda items, rows, now, grace: garbage.sort_garbage(items, rows, now, grace=grace / 100),
        ),
    ]


@mutant
def collect_older_archives_while_the_archive_is_missing() -> Any:
    def needed(item: Any, row: Any, archives: Any) -> bool:
        return original(item, row, {*archives, row.status.archive_key})

    def newer(item: Any, row: Any, committed: Any, now: datetime) -> bool:
        has_own = row.status.archive_key in {each.name for each in committed}
        return has_own and original_newer(item, row, committed, now)

    original, original_newer = garbage._is_needed, garbage._is_newer
    return [patched(garbage, "_is_needed", needed), patched(garbage, "_is_newer", newer)]


@mutant
def provision_over_a_lost_home() -> Any:
    def broken(spec: Any, stored: Status, status: Status, look: Any, now: datetime) -> ErrorInfo | None:
        error = original(spec, stored, status, look, now)
        return None if error is not None and error.reason == "DataLost" else error

    original = judge.check_invariants
    return patched(judge, "check_invariants", broken)


@mutant
def count_a_half_restored_volume_as_ready() -> Any:
    def ready(earlier: Condition, look: Any, volume_id: str | None) -> Condition:
        if isinstance(look, Volume):
            return Condition(Truth.TRUE, Reason.READY, verbatim("The volume is there."))
        return original(earlier, look, volume_id)

    original = observation._volume_ready
    return patched(observation, "_volume_ready", ready)


@mutant
def go_on_without_a_volume_whose_identity_is_lost() -> Any:
    def broken(spec: Any, stored: Status, status: Status, look: Any, now: datetime) -> ErrorInfo | None:
        if status.conditions.volume_ready.is_unidentified and status.conditions.container_ready.is_absent:
            return None
        return original(spec, stored, status, look, now)

    original = judge.check_invariants
    return [patched(judge, "check_invariants", broken), *_unguarded()]


@mutant
def take_what_the_row_does_not_know_for_half_a_volume() -> Any:
    """As it was once: what counts is whether the row is dirty."""
    return [patched(judge, "may_replace", lambda _status, _volume: True), *_unguarded()]


def _unguarded() -> list[Any]:
    """Let every call replace or delete a volume whose identity is lost."""

    def refuse_other(disk: Any, replaces: str | None) -> None:
        original(None if disk is None or disk.volume_id is None else disk, replaces)

    original = memory_storage._refuse_other
    return [
        patched(memory_storage, "_refuse_other", refuse_other),
        *(patched(each, "may_replace", lambda _status, _volume: True) for each in (execute, gc)),
    ]


@mutant
def take_a_home_for_a_copy_of_an_archive_that_is_gone() -> Any:
    return [patched(each, "holds_lost_archive", lambda *_: False) for each in (execute, gc)]


@mutant
def leave_a_home_that_a_person_gave_up() -> Any:
    def may_replace(_status: Status, volume: Any) -> bool:
        return volume.name is None or volume.volume_id is not None

    return patched(gc, "may_replace", may_replace)


@mutant
def take_the_next_archive_for_one_that_has_vanished() -> Any:
    def take(spec: Any, *rest: Any) -> Status:
        return original(replace(spec, recover_offered_key=None), *rest)

    original = recoveries._take_newest
    return patched(recoveries, "_take_newest", take)


@mutant
def restore_what_is_taken_for_a_lost_one_as_it_is() -> Any:
    def take(*args: Any) -> Status:
        status = original(*args)
        return replace(status, home_ctx=replace(status.home_ctx, given_up_at=None))

    original = recoveries._take_newest
    return patched(recoveries, "_take_newest", take)


@mutant
def adopt_what_nobody_spoke_of() -> Any:
    def is_adopted(_spec: Any, _stored: Status, status: Status) -> bool:
        conditions = status.conditions
        is_there = conditions.volume_ready.is_unidentified and conditions.container_ready.is_absent
        return is_there and status.home_ctx.dirty and status.operation is Operation.NONE

    return patched(judge, "is_adopted", is_adopted)


@mutant
def adopt_by_making_a_new_volume() -> Any:
    async def adopt(self: Any, home: Home, lost: str) -> str:
        disk = self._disks.get(home.workspace_id)
        if disk is not None and disk.former_id == lost:
            self._disks[home.workspace_id] = Disk(None, former_id=lost)
        return await original(self, home, lost)

    original = memory_storage.MemoryStorage.adopt
    return patched(memory_storage.MemoryStorage, "adopt", adopt)


@mutant
def begin_starting_without_dirty() -> Any:
    def begin(status: Status, operation: Operation, now: datetime, op_id: UUID) -> Status:
        after = original(status, operation, now, op_id)
        return replace(after, home_ctx=replace(after.home_ctx, dirty=status.home_ctx.dirty))

    original = transitions._begin
    return patched(transitions, "_begin", begin)


@mutant
def never_mark_dirty_when_a_container_is_seen() -> Any:
    return [
        patched(judge, "_mark_dirty", lambda status: status),
        begin_starting_without_dirty(),
    ]


@mutant
def clear_dirty_when_archiving_begins() -> Any:
    def begin(status: Status, operation: Operation, now: datetime, op_id: UUID) -> Status:
        after = original(status, operation, now, op_id)
        if operation is Operation.ARCHIVING and status.archive_key is not None:
            return replace(after, home_ctx=replace(after.home_ctx, dirty=False, restore_marker=None))
        return after

    original = transitions._begin
    return patched(transitions, "_begin", begin)


@mutant
def use_a_condemned_volume() -> Any:
    """That nothing can be wished in ERROR covers for it, so that rule
    goes too: a recovery that was asked for is enough here.
    """

    def rule(workspace: Any, wanted: Any, now: Any, **rest: Any) -> Any:
        error = workspace.status.error_info
        if error is not None and recoveries.is_recovered(workspace.spec, error):
            workspace = replace(workspace, status=replace(workspace.status, phase=Phase.STANDBY))
        return original(workspace, wanted, now, **rest)

    original = requests.rule_wish
    unseen = [patched(each, "is_condemned", lambda _status: False) for each in (plan, visit, requests)]
    return [*unseen, patched(workspaces, "rule_wish", rule)]


@mutant
def replace_whatever_volume_is_there() -> Any:
    async def restore(self: Any, home: Home, archive_key: str, report: Any, **_replaces: str | None) -> Any:
        return await original(self, home, archive_key, report, replaces=self.volume_id(home.workspace_id))

    original = memory_storage.MemoryStorage.restore
    return patched(memory_storage.MemoryStorage, "restore", restore)


@mutant
def delete_whatever_volume_is_there() -> Any:
    async def delete(self: Any, home: Home, _volume_id: str | None) -> None:
        await original(self, home, self.volume_id(home.workspace_id))

    original = memory_storage.MemoryStorage.delete_volume
    return patched(memory_storage.MemoryStorage, "delete_volume", delete)


@mutant
def delete_a_volume_that_is_in_use() -> Any:
    return [
        patched(memory_storage.MemoryStorage, "_refuse_in_use", lambda *_asked: None),
        patched(plan, "_is_possible", lambda _spec, _status, _now: True),
    ]


@mutant
def commit_an_archive_without_asking_the_row() -> Any:
    async def archive(
        self: Any, home: Home, volume_id: str, op_id: UUID, report: Any, _may_commit: Any
    ) -> str:
        async def yes() -> datetime | None:
            return EPOCH

        return await original(self, home, volume_id, op_id, report, yes)

    original = memory_storage.MemoryStorage.archive
    return [
        patched(memory_storage.MemoryStorage, "archive", archive),
        patched(memory_storage.MemoryStorage, "_check_job", lambda _self, _home, _job: None),
        patched(memory_storage.MemoryStorage, "_is_committed", lambda _self, _key: False),
    ]


@mutant
def purge_on_deletion() -> Any:
    return [
        patched(plan, "is_purge_due", lambda spec, _now: spec.deleted_at is not None),
        patched(transitions, "is_purge_due", lambda spec, _now: spec.deleted_at is not None),
    ]


@mutant
def start_on_no_volume() -> Any:
    async def start(self: Any, spec: Any, volume_id: str, *_report: Any) -> None:
        if self._storage.volume_id(spec.workspace_id) is None:
            self._storage._disks[spec.workspace_id] = Disk(volume_id)
        await original(self, spec, volume_id)

    original = memory_instances.MemoryInstances.start
    return patched(memory_instances.MemoryInstances, "start", start)


@mutant
def archive_while_it_runs() -> Any:
    def next_(status: Status, wish: Any, *, is_deletion: bool) -> Any:
        chosen = original(status, wish, is_deletion=is_deletion)
        if isinstance(chosen, plan.Begin) and chosen.operation is Operation.STOPPING:
            return plan.Begin(Operation.ARCHIVING, chosen.why)
        return chosen

    original = plan._choose_by_wish
    return patched(plan, "_choose_by_wish", next_)


@mutant
def collect_what_was_forgotten_before_its_time() -> Any:
    return patched(garbage, "is_purge_due", lambda spec, _now: spec.deleted_at is not None)


@mutant
def take_what_an_earlier_restore_left_as_it_is() -> Any:
    async def restore(self: Any, home: Home, key: str, report: Any, *, replaces: str | None = None) -> Any:
        if (there := self.volume_id(home.workspace_id)) is not None and there == replaces:
            return RestoredVolume(there, key)
        return await original(self, home, key, report, replaces=replaces)

    original = memory_storage.MemoryStorage.restore
    return patched(memory_storage.MemoryStorage, "restore", restore)


@mutant
def restore_the_older_archive_without_a_word() -> Any:
    return patched(judge, "newer_archive", lambda _status, _archives: None)


@mutant
def take_the_end_of_the_trash_for_a_persons_word() -> Any:
    async def let_go(_self: Any, *_words: Any) -> None:
        return

    return [
        patched(execute.Executor, "_refuse_later_work", let_go),
        patched(garbage, "is_purge_asked", lambda _spec: True),
        patched(gc, "is_purge_asked", lambda _spec: True),
    ]


@mutant
def collect_archives_that_are_newer_than_the_row() -> Any:
    return patched(garbage, "_is_newer", lambda _one, _row, _committed, _now: False)


@mutant
def count_the_grace_from_when_an_archive_was_made() -> Any:
    return patched(garbage, "_was_just_replaced", lambda *_words: False)
