"""Mutants that would break the control loop: who acts, when, on whose word, how often, and what is
written.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.simulation.mutants.registry import mutant, patched
from tests.simulation.numbers import EPOCH

from codehub.adapters.memory import store as memory_store
from codehub.core import decide, judge, observation, plan, transitions
from codehub.core.conditions import Condition
from codehub.core.observation import Instance
from codehub.core.operations import Operation, Step
from codehub.core.transitions import Done
from codehub.core.workspace import Status
from codehub.engine import controller, execute, membership, observe, step_runner, workspace_cache
from codehub.ports.backends import BackendUnreachable


@mutant
def complete_on_the_actuators_word() -> Any:
    def apply_outcome(
        status: Status, act: Any, op_id: UUID, outcome: Any, now: datetime, **rest: Any
    ) -> Status:
        after = original(status, act, op_id, outcome, now, **rest)
        if (
            isinstance(outcome, Done)
            and act.step in (Step.START, Step.DELETE_INSTANCE)
            and after.op_id == op_id
        ):
            return replace(transitions._end(after), error_info=None)
        return after

    original = transitions.apply_outcome
    return patched(decide, "apply_outcome", apply_outcome)


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
            "_with_status",
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

    original = transitions._begin
    return patched(transitions, "_begin", begin)


@mutant
def run_clocks_during_an_outage() -> Any:
    return patched(judge, "_moved_clock", lambda stored, _now, _rules: stored.op_started_at)


@mutant
def act_without_asking_the_row() -> Any:
    original = execute.Executor.__init__

    def init(self: Any, backends: Any, _holds: Any) -> None:
        async def always(_workspace_id: UUID, _op_id: UUID) -> datetime | None:
            return EPOCH

        original(self, backends, always)

    return patched(execute.Executor, "__init__", init)


@mutant
def carry_on_anothers_operation_without_taking_it_over() -> Any:
    def planned(spec: Any, verdict: Any, look: Any, now: datetime, *, is_mine: bool, **rest: Any) -> Any:
        del is_mine
        return original(spec, verdict, look, now, is_mine=True, **rest)

    original = plan.plan
    return patched(decide, "plan", planned)


@mutant
def record_the_outcome_of_another_operation() -> Any:
    def apply_outcome(
        status: Status, act: Any, op_id: UUID, outcome: Any, now: datetime, **rest: Any
    ) -> Status:
        del op_id
        if status.op_id is None or status.operation is Operation.NONE:
            return status
        return original(status, replace(act, operation=status.operation), status.op_id, outcome, now, **rest)

    def is_of(_finished: Any, planned: Any, _status: Status) -> bool:
        return isinstance(planned, plan.Act)

    original = transitions.apply_outcome
    return [
        patched(decide, "apply_outcome", apply_outcome),
        patched(decide, "_is_of", is_of),
        patched(step_runner.StepRunner, "recall", lambda _self, _known, _planned: None),
    ]


@mutant
def retry_for_ever() -> Any:
    def count(*given: Any) -> Any:
        *rest, _retries_max = given
        return original(*rest, None)

    original: Any = transitions._count_failure
    return patched(transitions, "_count_failure", count)


@mutant
def restart_what_dies_for_ever() -> Any:
    def judged(workspace: Any, look: Any, now: datetime, *, starting_up: bool = False, **rest: Any) -> Any:
        rest["rules"] = replace(rest["rules"], restarts_max=10_000)
        return original(workspace, look, now, starting_up=starting_up, **rest)

    original = judge.judge
    return patched(decide, "judge", judged)


@mutant
def forget_what_is_in_the_trash() -> Any:
    def next_look(planned: Any) -> Any:
        is_in_trash = planned.why is plan.Why.IN_TRASH
        return decide.NextLook.ON_CHANGE if is_in_trash else original(planned)

    original = decide._next_look
    return patched(decide, "_next_look", next_look)


@mutant
def write_what_has_converged() -> Any:
    return patched(decide, "is_worth_writing", lambda _before, _after, **_rules: True)


@mutant
def miss_rows_that_changed() -> Any:
    async def refresh(self: Any) -> Any:
        now = await original(self)
        self.changed.clear()
        return now

    original = workspace_cache.WorkspaceCache.refresh
    return patched(workspace_cache.WorkspaceCache, "refresh", refresh)


@mutant
def forget_what_changed_when_a_pass_fails() -> Any:
    async def run_pass(self: Any, wakeup: Any) -> int:
        self._cache.changed.clear()
        return await original(self, wakeup)

    original = controller.WorkspaceController.run_pass
    return patched(controller.WorkspaceController, "run_pass", run_pass)


@mutant
def take_a_step_in_flight_for_held_up() -> Any:
    return patched(workspace_cache.KnownWorkspace, "is_acting", property(lambda _self: False))


@mutant
def try_what_is_held_up_without_saying_so() -> Any:
    def carry_on(spec: Any, status: Status, look: Any, now: datetime, rules: Any, *, is_mine: bool) -> Any:
        planned = original(spec, status, look, now, rules, is_mine=is_mine)
        if not isinstance(planned, plan.Resume):
            return planned
        return plan.Act(status.operation, plan._first_unfinished_step(status))

    original = plan._carry_on
    return patched(plan, "_carry_on", carry_on)


@mutant
def never_let_go_of_what_is_held_up() -> Any:
    return patched(plan, "_is_given_up", lambda _spec, _status, _now: False)


@mutant
def let_hints_put_off_the_look_at_everybody() -> Any:
    def until_next_look(self: Any) -> float:
        return float(self._cadence.active_s if self._is_active else self._cadence.idle_s)

    return patched(controller.WorkspaceController, "_until_next_look", until_next_look)


@mutant
def let_everybody_handle_nothing_that_is_new() -> Any:
    return patched(controller.WorkspaceController, "_start_over", lambda _self: None)


@mutant
def believe_the_dead_alive() -> Any:
    return patched(membership, "ALIVE_S", 1e9)


@mutant
def never_stop_a_stray_container() -> Any:
    return patched(plan, "_may_have_container", lambda _phase, _wish: True)


@mutant
def leave_landed_steps_lying() -> Any:
    return patched(step_runner.StepRunner, "recall", lambda _self, _known, _planned: None)


@mutant
def take_a_sick_instance_for_a_healthy_one() -> Any:
    def ready(earlier: Condition, look: Any, rules: Any) -> Condition:
        if isinstance(look, Instance) and look.running:
            look = replace(look, healthy=True)
        return original(earlier, look, rules)

    original = observation._container_ready
    return patched(observation, "_container_ready", ready)
