"""Mutants: deliberate bugs, one at a time, each of which the judges must find. One that survives means a judge or a fault is missing."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest import mock
from uuid import UUID

from tests.simulation.faults import Fault

from codehub.adapters.memory import instances as memory_instances
from codehub.adapters.memory import storage as memory_storage
from codehub.adapters.memory import store as memory_store
from codehub.core import activity, garbage, idle, judge, plan, seen, settle, visit, wishes
from codehub.core.conditions import Condition, Reason, Truth
from codehub.core.errors import ErrorInfo
from codehub.core.operations import Operation, Phase, Step
from codehub.core.seen import Instance, Volume
from codehub.core.settle import Done
from codehub.core.workspace import Status
from codehub.engine import controller, crew, execute, gc, membership, observe, roster
from codehub.ports.backends import BackendUnreachable
from codehub.ports.storage import Home, Restored
from codehub.service import workspaces

Mutant = Callable[[], Any]
MUTANTS: dict[str, Mutant] = {}
# What has to go wrong before they can be seen: seeds in which it is rife are searched first.
NEEDS: dict[str, tuple[Fault, ...]] = {
    "collect_older_archives_while_the_archive_is_missing": (Fault.ARCHIVE_GONE,),
    "delete_a_volume_that_is_in_use": (Fault.ACT_LATE,),
    "forget_what_changed_when_a_pass_fails": (Fault.STORE_AWAY, Fault.HINT_LOST),
    "let_everybody_handle_nothing_that_is_new": (Fault.LAST_CRASH,),
    "replace_whatever_volume_is_there": (Fault.ACT_LATE,),
    "take_what_an_earlier_restore_left_as_it_is": (Fault.ACT_LATE,),
    "use_a_condemned_volume": (Fault.ACT_LATE,),
}


def mutant(make: Mutant) -> Mutant:
    """A function that returns what to patch: its name, read as words, says what is wrong."""
    MUTANTS[make.__name__] = make
    return make


@contextmanager
def alive(name: str) -> Iterator[None]:
    """Let this bug be, for as long as the block lasts."""
    patches = MUTANTS[name]()
    with contextmanager(_all)(patches if isinstance(patches, list) else [patches]):
        yield


def _all(patches: Sequence[Any]) -> Iterator[None]:
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def patched(target: object, name: str, new: object) -> Any:
    return mock.patch.object(target, name, new)


# What is done, and in which order


@mutant
def delete_before_storing_the_key() -> Any:
    def first(status: Status) -> Step:
        if status.operation is Operation.ARCHIVING and status.conditions.volume_ready.is_true:
            return Step.DELETE_VOLUME if status.error_count else Step.ARCHIVE
        return original(status)

    original = plan._first_unfinished_step
    return patched(plan, "_first_unfinished_step", first)


@mutant
def complete_on_the_actuators_word() -> Any:
    def conclude(status: Status, act: Any, op_id: UUID, outcome: Any, now: datetime, **rest: Any) -> Status:
        after = original(status, act, op_id, outcome, now, **rest)
        if (
            isinstance(outcome, Done)
            and act.step in (Step.START, Step.DELETE_INSTANCE)
            and after.op_id == op_id
        ):
            return settle._end(after)
        return after

    original = settle.conclude
    return patched(controller, "conclude", conclude)


@mutant
def forget_the_swap() -> Any:
    return [
        patched(
            memory_store.MemoryStore,
            "_has_version",
            lambda self, change: change.workspace_id in self._workspaces,
        ),
        patched(
            memory_store.MemoryStore,
            "_seen",
            lambda self, workspace_id, status: replace(
                self._workspaces[workspace_id],
                status=replace(status, version=self._workspaces[workspace_id].status.version + 1),
            ),
        ),
    ]


@mutant
def treat_an_unreachable_list_as_empty() -> Any:
    async def look(_what: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await ask()
        except BackendUnreachable:
            return {} if _what in ("instances", "volumes") else None

    return patched(observe, "_look", look)


@mutant
def reuse_the_op_id() -> Any:
    def begin(status: Status, operation: Operation, now: datetime, op_id: UUID) -> Status:
        return original(status, operation, now, status.op_id or op_id)

    original = settle._begin
    return patched(settle, "_begin", begin)


@mutant
def collect_garbage_without_grace() -> Any:
    def sort(found: Any, rows: Any, now: datetime, *, grace: timedelta) -> Any:
        return original(found, rows, now, grace=timedelta(0) * grace.days)

    original = garbage.sort_garbage
    return patched(gc, "sort_garbage", sort)


@mutant
def collect_the_archive_of_the_running_operation() -> Any:
    def needed(one: Any, row: Any, _archives: Any) -> bool:
        return bool(one.name == row.status.archive_key)

    return [
        patched(garbage, "_is_needed", needed),
        patched(
            gc,
            "sort_garbage",
            lambda found, rows, now, grace: garbage.sort_garbage(found, rows, now, grace=grace / 100),
        ),
    ]


@mutant
def collect_older_archives_while_the_archive_is_missing() -> Any:
    def needed(one: Any, row: Any, archives: Any) -> bool:
        return original(one, row, {*archives, row.status.archive_key})

    original = garbage._is_needed
    return patched(garbage, "_is_needed", needed)


@mutant
def run_clocks_during_an_outage() -> Any:
    return patched(judge, "_moved_clock", lambda stored, _now, _rules: stored.op_started_at)


@mutant
def provision_over_a_lost_home() -> Any:
    def broken(spec: Any, stored: Status, status: Status, now: datetime) -> ErrorInfo | None:
        found = original(spec, stored, status, now)
        return None if found is not None and found.reason == "DataLost" else found

    original = judge._broken_invariant
    return patched(judge, "_broken_invariant", broken)


@mutant
def count_a_half_restored_volume_as_ready() -> Any:
    def ready(earlier: Condition, look: Any, volume_id: str | None) -> Condition:
        if isinstance(look, Volume):
            return Condition(Truth.TRUE, Reason.READY, "The volume is there.")
        return original(earlier, look, volume_id)

    original = seen._volume_ready
    return patched(seen, "_volume_ready", ready)


@mutant
def begin_starting_without_dirty() -> Any:
    def begin(status: Status, operation: Operation, now: datetime, op_id: UUID) -> Status:
        after = original(status, operation, now, op_id)
        return replace(after, home_ctx=replace(after.home_ctx, dirty=status.home_ctx.dirty))

    original = settle._begin
    return patched(settle, "_begin", begin)


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
            return replace(after, home_ctx=replace(after.home_ctx, dirty=False))
        return after

    original = settle._begin
    return patched(settle, "_begin", begin)


@mutant
def use_a_condemned_volume() -> Any:
    """That nothing can be wished in ERROR covers for it, so that rule goes too: a recovery that was asked for is enough here."""

    def rule(workspace: Any, wanted: Any) -> Any:
        error = workspace.status.error_info
        if error is not None and judge.is_recovered(workspace.spec, error):
            workspace = replace(workspace, status=replace(workspace.status, phase=Phase.STANDBY))
        return original(workspace, wanted)

    original = wishes.rule_wish
    unseen = [patched(each, "is_condemned", lambda _status: False) for each in (judge, plan, visit)]
    return [*unseen, patched(workspaces, "rule_wish", rule)]


@mutant
def replace_whatever_volume_is_there() -> Any:
    async def restore(self: Any, home: Home, archive_key: str, report: Any, **_replaces: str | None) -> Any:
        disk = self._disks.get(home.workspace_id)
        there = None if disk is None else disk.volume_id
        made = await self._restore(home, archive_key, report, there)
        return Restored(made.volume_id, archive_key)

    return patched(memory_storage.MemoryStorage, "restore", restore)


@mutant
def delete_whatever_volume_is_there() -> Any:
    async def delete(self: Any, home: Home, _volume_id: str | None) -> None:
        disk = self._disks.get(home.workspace_id)
        await original(self, home, None if disk is None else disk.volume_id)

    original = memory_storage.MemoryStorage.delete_volume
    return patched(memory_storage.MemoryStorage, "delete_volume", delete)


@mutant
def delete_a_volume_that_is_in_use() -> Any:
    return [
        patched(memory_storage.MemoryStorage, "_refuse_in_use", lambda _self, _home, _done: None),
        patched(plan, "_is_possible", lambda _spec, _status, _now: True),
    ]


@mutant
def act_without_asking_the_row() -> Any:
    original = execute.Executor.__init__

    def init(self: Any, platforms: Any, _holds: Any) -> None:
        async def always(_workspace_id: UUID, _op_id: UUID) -> bool:
            return True

        original(self, platforms, always)

    return patched(execute.Executor, "__init__", init)


@mutant
def commit_an_archive_without_asking_the_row() -> Any:
    async def archive(
        self: Any, home: Home, volume_id: str, op_id: UUID, report: Any, _may_commit: Any
    ) -> str:
        async def yes() -> bool:
            return True

        return await original(self, home, volume_id, op_id, report, yes)

    original = memory_storage.MemoryStorage.archive
    return [
        patched(memory_storage.MemoryStorage, "archive", archive),
        patched(memory_storage.MemoryStorage, "_check_job", lambda _self, _home, _job: None),
        patched(memory_storage.MemoryStorage, "_is_committed", lambda _self, _key: False),
    ]


@mutant
def carry_on_anothers_operation_without_taking_it_over() -> Any:
    def planned(spec: Any, verdict: Any, look: Any, now: datetime, *, is_mine: bool, **rest: Any) -> Any:
        del is_mine
        return original(spec, verdict, look, now, is_mine=True, **rest)

    original = plan.plan
    return patched(controller, "plan", planned)


@mutant
def record_the_outcome_of_another_operation() -> Any:
    def conclude(status: Status, act: Any, op_id: UUID, outcome: Any, now: datetime, **rest: Any) -> Status:
        del op_id
        if status.op_id is None or status.operation is Operation.NONE:
            return status
        return original(status, replace(act, operation=status.operation), status.op_id, outcome, now, **rest)

    def landed(self: Any, row: Any, _act: Any) -> Any:
        flight = self._flights.get(row.id)
        return flight if flight is not None and flight.outcome is not None else None

    original = settle.conclude
    return [
        patched(controller, "conclude", conclude),
        patched(crew.Crew, "landed", landed),
        patched(crew.Crew, "recall", lambda _self, _row, _planned: None),
    ]


@mutant
def begin_under_an_old_wish() -> Any:
    def change(found: Any, actor: str) -> Any:
        return replace(original(found, actor), revision=None)

    original = controller._change
    return patched(controller, "_change", change)


@mutant
def retry_for_ever() -> Any:
    def count(status: Status, act: Any, failed: Any, now: datetime, jitter: float, rules: Any) -> Status:
        return original(status, act, failed, now, jitter, replace(rules, retries_max=10_000))

    original = settle._count_failure
    return patched(settle, "_count_failure", count)


@mutant
def restart_what_dies_for_ever() -> Any:
    def judged(workspace: Any, look: Any, now: datetime, *, starting_up: bool = False, **rest: Any) -> Any:
        rest["rules"] = replace(rest["rules"], restarts_max=10_000)
        return original(workspace, look, now, starting_up=starting_up, **rest)

    original = judge.judge
    return patched(controller, "judge", judged)


@mutant
def forget_what_is_in_the_trash() -> Any:
    def carry_out(self: Any, found: Any, now: datetime) -> None:
        original(self, found, now)
        if found.plan.why is plan.Why.IN_TRASH:
            self._restless.discard(found.row.id)

    original = controller.Controller._carry_out
    return patched(controller.Controller, "_carry_out", carry_out)


@mutant
def write_what_has_converged() -> Any:
    return patched(controller, "is_worth_writing", lambda _before, _after, **_rules: True)


@mutant
def miss_rows_that_changed() -> Any:
    async def refresh(self: Any) -> Any:
        found = await original(self)
        return replace(found, changed=frozenset())

    original = roster.Roster.refresh
    return patched(roster.Roster, "refresh", refresh)


@mutant
def forget_what_changed_when_a_pass_fails() -> Any:
    async def run_pass(self: Any, woken: Any) -> int:
        self._changed.clear()
        return await original(self, woken)

    original = controller.Controller.run_pass
    return patched(controller.Controller, "run_pass", run_pass)


@mutant
def let_everybody_handle_nothing_that_is_new() -> Any:
    return patched(controller.Controller, "_start_over", lambda _self: None)


@mutant
def believe_the_dead_alive() -> Any:
    return patched(membership, "ALIVE_S", 1e9)


@mutant
def accept_wishes_during_an_operation() -> Any:
    def rule(workspace: Any, wanted: Any) -> Any:
        at_rest = replace(workspace, status=replace(workspace.status, operation=Operation.NONE))
        return original(at_rest, wanted)

    original = wishes.rule_wish
    return patched(workspaces, "rule_wish", rule)


@mutant
def wake_on_a_tabs_retry() -> Any:
    return patched(visit, "intent", lambda _visit: visit.Intent.NAVIGATION)


@mutant
def let_anybody_in() -> Any:
    return patched(visit, "may_enter", lambda _user_id, _owner_id: True)


@mutant
def take_an_open_tab_for_a_person() -> Any:
    return patched(activity.Window, "add", lambda _self, _size, _at_s: True)


@mutant
def sleep_though_it_is_used() -> Any:
    def deadline(workspace: Any) -> Any:
        return original(replace(workspace, spec=replace(workspace.spec, last_access_at=None)))

    original = idle._deadline
    return [
        patched(idle, "_deadline", deadline),
        patched(memory_store, "is_idle", lambda row, now: idle.idle_wish(row, now) is not None),
    ]


@mutant
def forget_the_limits() -> Any:
    return patched(workspaces, "refuse_one_more", lambda _limits, _mine, _total: None)


@mutant
def purge_on_deletion() -> Any:
    return [
        patched(plan, "is_purge_due", lambda spec, _now: spec.deleted_at is not None),
        patched(settle, "is_purge_due", lambda spec, _now: spec.deleted_at is not None),
    ]


@mutant
def start_on_no_volume() -> Any:
    async def start(self: Any, spec: Any, volume_id: str, *_report: Any) -> None:
        if self._storage.volume_id(spec.workspace_id) is None:
            self._storage._disks[spec.workspace_id] = memory_storage.Disk(volume_id)
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
def never_stop_a_stray_container() -> Any:
    return patched(plan, "_may_have_container", lambda _phase, _wish: True)


@mutant
def leave_landed_steps_lying() -> Any:
    return patched(crew.Crew, "recall", lambda _self, _row, _planned: None)


@mutant
def take_a_sick_instance_for_a_healthy_one() -> Any:
    def ready(earlier: Condition, look: Any, rules: Any) -> Condition:
        if isinstance(look, Instance) and look.running:
            look = replace(look, healthy=True)
        return original(earlier, look, rules)

    original = seen._container_ready
    return patched(seen, "_container_ready", ready)


@mutant
def collect_what_was_forgotten_before_its_time() -> Any:
    return patched(garbage, "is_purge_due", lambda spec, _now: spec.deleted_at is not None)


@mutant
def take_what_an_earlier_restore_left_as_it_is() -> Any:
    async def restore(self: Any, home: Home, key: str, report: Any, *, replaces: str | None = None) -> Any:
        if (there := self.volume_id(home.workspace_id)) is not None and there == replaces:
            return Restored(there, key)
        return await original(self, home, key, report, replaces=replaces)

    original = memory_storage.MemoryStorage.restore
    return patched(memory_storage.MemoryStorage, "restore", restore)
