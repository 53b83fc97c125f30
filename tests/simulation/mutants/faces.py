"""Mutants that would let the wrong people in, wake what nobody wants, or wish what may not be wished."""

from dataclasses import replace
from typing import Any

from tests.simulation.mutants.registry import mutant, patched

from codehub.adapters.memory import store as memory_store
from codehub.core import activity, amendments, idle, requests, visit
from codehub.core.operations import Operation
from codehub.engine import controller
from codehub.service import workspaces


@mutant
def begin_under_an_old_wish() -> Any:
    def change(workspace: Any, actor: str) -> Any:
        return replace(original(workspace, actor), revision=None)

    original = controller._change
    return patched(controller, "_change", change)


@mutant
def accept_wishes_during_an_operation() -> Any:
    def rule(workspace: Any, wanted: Any, now: Any, **rest: Any) -> Any:
        at_rest = replace(workspace, status=replace(workspace.status, operation=Operation.NONE))
        return original(at_rest, wanted, now, **rest)

    original = requests.rule_wish
    return patched(workspaces, "rule_wish", rule)


@mutant
def wake_on_a_tabs_retry() -> Any:
    return patched(visit, "intent", lambda _visit: visit.Intent.NAVIGATION)


@mutant
def let_anybody_in() -> Any:
    return patched(visit, "may_enter", lambda _user_id, _owner_id: True)


@mutant
def take_an_open_tab_for_a_person() -> Any:
    return patched(activity.Window, "add", lambda _self, _size, _at_s, **_tabs: True)


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
    return patched(amendments, "refuse_one_more", lambda _limits, _mine, _total: None)
