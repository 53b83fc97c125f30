"""Spec §2.4, held up: when an operation is, who may give it up or try
it at once, and that one that moves is never preempted.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.workspaces import (
    ABSENT,
    COMMITTED,
    HALF_VOLUME,
    HEALTHY_INSTANCE,
    KEY,
    NEW_OP_ID,
    NOW,
    OP_ID,
    OUR_VOLUME,
    READY,
    UNHEALTHY_INSTANCE,
    UNKNOWN,
    UNREACHABLE,
    ago,
    conditions,
    error,
    held_up,
    home,
    observation,
    workspace,
)

from codehub.core.errors import ErrorReason
from codehub.core.explain import Ask, explain
from codehub.core.history import EventKind, events_of_pass, events_of_request, is_to_be_carried_out
from codehub.core.judge import judge
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Observation
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Abandon, Act, Hold, Plan, Resume, TakeOver, Wait, Why, plan
from codehub.core.requests import Accepted, Refused, Unchanged, rule_change, rule_deletion, rule_wish
from codehub.core.transitions import Done, Failed, Outcome, Unreached, apply_outcome, apply_plan
from codehub.core.workspace import Status, Workspace, counts_as_running, holdup

P, D, OP = Phase, DesiredState, Operation
LOOK = observation(None, OUR_VOLUME)
START = Act(OP.STARTING, Step.START)
DELETED = {"deleted_at": ago(10), "purge_at": ago(-1000)}
STARTING = workspace(P.STANDBY, operation=OP.STARTING, conditions=conditions(READY), home_ctx=home())
WAITING = replace(
    STARTING,
    status=replace(
        STARTING.status,
        held_up=held_up(),
        retry_at=NOW + timedelta(seconds=4),
        error_info=error(ErrorReason.UNREACHABLE, at=ago(1)),
    ),
)


def planned(
    row: Workspace,
    look: Observation = LOOK,
    *,
    now: datetime = NOW,
    is_mine: bool = True,
    is_acting: bool = False,
) -> Plan:
    return plan(row.spec, judge(row, look, now), look, now, is_mine=is_mine, is_acting=is_acting)


def settled(row: Workspace, look: Observation = LOOK, **how: Any) -> Status:
    verdict = judge(row, look, NOW)
    return apply_plan(row.spec, verdict.status, planned(row, look, **how), NOW, op_id=NEW_OP_ID)


def concluded(row: Workspace, outcome: Outcome) -> Status:
    return apply_outcome(row.status, START, OP_ID, outcome, NOW, spec=row.spec, jitter=0.5)


def wishing(row: Workspace, wish: DesiredState, **spec: Any) -> Workspace:
    return replace(row, spec=replace(row.spec, desired_state=wish, **spec))


# When it is held up


def test_who_waits_for_the_next_try_after_a_failure_is_held_up() -> None:
    failed = concluded(STARTING, Failed(ErrorReason.ACTION_FAILED, verbatim("no space left")))
    assert failed.held_up == replace(
        held_up(ErrorReason.ACTION_FAILED, since=NOW), message=verbatim("no space left")
    )


def test_who_waits_for_a_registry_is_held_up() -> None:
    unreached = concluded(STARTING, Unreached(verbatim("no route to host"), ago(2)))
    assert unreached.held_up == replace(held_up(since=NOW), message=verbatim("no route to host"))


@pytest.mark.parametrize(("tried_s", "pause_s"), [(0.1, 5), (12, 12), (90, 30)])
def test_the_pause_after_an_outage_is_as_long_as_the_try(tried_s: float, pause_s: float) -> None:
    unreached = concluded(STARTING, Unreached(verbatim("no route to host"), ago(tried_s)))
    assert unreached.retry_at == NOW + timedelta(seconds=pause_s)


def test_a_failure_that_stops_it_for_good_holds_nothing_up() -> None:
    refused = concluded(STARTING, Failed(ErrorReason.IMAGE_PULL_FAILED, verbatim("no such image")))
    assert (refused.phase, refused.held_up) == (P.ERROR, None)


def test_a_step_that_was_done_moves() -> None:
    assert concluded(WAITING, Done()).held_up is None


def test_who_can_not_be_looked_at_is_held_up_and_the_condition_says_why() -> None:
    blind = observation(UNREACHABLE, OUR_VOLUME)
    assert planned(STARTING, blind) == Hold(("infra.container_ready",), is_held_up=True)
    assert settled(STARTING, blind).held_up == replace(
        held_up(since=NOW), message=Message(Code.INSTANCE_UNKNOWN)
    )


def test_the_history_tells_once_that_it_is_held_up() -> None:
    blind = observation(UNREACHABLE, OUR_VOLUME)
    once = settled(STARTING, blind)
    events = list(events_of_pass(STARTING.status, once, actor="c", reason=verbatim("")))
    assert [(event.kind, event.after, event.reason) for event in events] == [
        (EventKind.OPERATION, "STARTING", Message(Code.INSTANCE_UNKNOWN))
    ]
    again = settled(replace(STARTING, status=once), blind)
    assert list(events_of_pass(once, again, actor="c", reason=verbatim(""))) == []


def test_a_step_in_flight_moves_though_nobody_can_look() -> None:
    blind = observation(UNREACHABLE, OUR_VOLUME)
    assert planned(STARTING, blind, is_acting=True) == Hold(("infra.container_ready",))
    assert settled(STARTING, blind, is_acting=True).held_up is None


def test_what_another_process_began_is_taken_over_before_it_is_held_up() -> None:
    blind = observation(UNREACHABLE, OUR_VOLUME)
    assert planned(STARTING, blind, is_mine=False) == TakeOver(OP.STARTING)


def test_what_is_held_up_stays_so_without_a_write() -> None:
    blind = observation(UNREACHABLE, OUR_VOLUME)
    once = settled(WAITING, blind)
    assert once.held_up == WAITING.status.held_up
    assert settled(replace(WAITING, status=once), blind) == once


def test_nothing_that_rests_is_held_up() -> None:
    resting = workspace(P.STANDBY, D.STANDBY, conditions=conditions(READY), home_ctx=home())
    assert settled(resting, observation(UNREACHABLE, OUR_VOLUME)).held_up is None


# Going on


def test_the_next_try_is_recorded_before_it_is_made_and_lasts_until_its_outcome() -> None:
    later = NOW + timedelta(seconds=4)
    assert planned(WAITING, now=later) == Resume(OP.STARTING)
    trying = apply_plan(WAITING.spec, WAITING.status, Resume(OP.STARTING), later, op_id=NEW_OP_ID)
    assert (holdup(trying), trying.retry_at, trying.op_id) == (None, None, OP_ID)
    row = replace(WAITING, status=trying)
    assert planned(row, now=later) == START
    assert isinstance(rule_wish(row, D.STANDBY, later), Refused)
    again = apply_outcome(
        trying, START, OP_ID, Unreached(verbatim("still no route"), later), later, spec=row.spec, jitter=0.5
    )
    assert again.held_up == replace(held_up(), message=verbatim("still no route"))


def test_what_can_be_looked_at_again_goes_on() -> None:
    blind = replace(STARTING, status=replace(STARTING.status, held_up=held_up()))
    assert planned(blind) == Resume(OP.STARTING)


def test_an_end_that_is_seen_is_an_end() -> None:
    assert settled(WAITING, observation(HEALTHY_INSTANCE, OUR_VOLUME)).held_up is None


# Giving it up


@pytest.mark.parametrize("wish", [D.STANDBY, D.ARCHIVED, D.PENDING])
def test_a_start_that_is_held_up_is_let_go_by_another_wish(wish: DesiredState) -> None:
    asked = rule_wish(WAITING, wish, NOW)
    assert isinstance(asked, Accepted)
    row = replace(WAITING, spec=asked.spec)
    assert planned(row) == Abandon(OP.STARTING, Why.GIVEN_UP, forgives=True)
    assert not counts_as_running(replace(row, status=settled(row)))


def test_letting_a_start_go_deletes_what_it_made() -> None:
    row = wishing(WAITING, D.STANDBY)
    look = observation(UNHEALTHY_INSTANCE, OUR_VOLUME)
    let_go = replace(row, status=settled(row, look))
    assert let_go.status.operation is OP.NONE
    assert settled(let_go, look).operation is OP.STOPPING


def test_a_start_that_nobody_can_look_at_keeps_its_place_until_its_container_is_seen_gone() -> None:
    row = wishing(WAITING, D.STANDBY)
    blind = replace(row, status=replace(row.status, conditions=conditions(READY, ABSENT, UNKNOWN)))
    assert counts_as_running(blind)


def test_a_deletion_gives_it_up_and_steps_down() -> None:
    asked = rule_deletion(WAITING, NOW, trash_s=100)
    assert isinstance(asked, Accepted)
    row = replace(WAITING, spec=asked.spec)
    assert planned(row) == Abandon(OP.STARTING, Why.GIVEN_UP, forgives=True)
    assert settled(replace(row, status=settled(row))).operation is OP.ARCHIVING


GIVEN_UP = [
    # operation, phase, wish, look, row, what becomes of it
    (OP.PROVISIONING, P.PENDING, D.PENDING, observation(), {}, "let go"),
    (OP.PROVISIONING, P.PENDING, D.STANDBY, observation(), {}, "goes on"),
    (OP.CREATE_EMPTY_ARCHIVE, P.PENDING, D.RUNNING, observation(), {}, "let go"),
    (OP.RESTORING, P.ARCHIVED, D.ARCHIVED, None, {"archive_key": KEY, "home_ctx": home(None)}, "let go"),
    (OP.RESTORING, P.ARCHIVED, D.STANDBY, None, {"archive_key": KEY, "home_ctx": home(None)}, "goes on"),
    (OP.ARCHIVING, P.STANDBY, D.RUNNING, LOOK, {}, "let go"),
    (OP.ARCHIVING, P.STANDBY, D.PENDING, LOOK, {}, "goes on"),
    # What is saved and condemned is not used any more: its deletion is finished first.
    (OP.ARCHIVING, P.STANDBY, D.RUNNING, None, {"archive_key": KEY}, "goes on"),
    (OP.STOPPING, P.RUNNING, D.RUNNING, observation(HEALTHY_INSTANCE, OUR_VOLUME), {}, "let go"),
    (OP.STOPPING, P.RUNNING, D.ARCHIVED, observation(HEALTHY_INSTANCE, OUR_VOLUME), {}, "goes on"),
    (OP.DELETING, P.STANDBY, D.PENDING, LOOK, {"spec": DELETED}, "goes on"),
]


@pytest.mark.parametrize(("operation", "phase", "wish", "look", "row", "expected"), GIVEN_UP)
def test_what_another_wish_makes_of_an_operation_that_is_held_up(
    operation: Operation,
    phase: Phase,
    wish: DesiredState,
    look: Observation | None,
    row: dict[str, Any],
    expected: str,
) -> None:
    made = {"home_ctx": home(), **row}
    waiting_row = workspace(phase, wish, operation=operation, held_up=held_up(), **made)
    volume = None if phase is P.ARCHIVED else OUR_VOLUME
    found_plan = planned(waiting_row, look or observation(None, volume, COMMITTED))
    assert isinstance(found_plan, Abandon if expected == "let go" else Resume), found_plan


def test_a_half_restored_volume_does_not_lock_its_owner_out() -> None:
    row = workspace(
        P.ARCHIVED,
        D.ARCHIVED,
        operation=OP.RESTORING,
        held_up=held_up(),
        archive_key=KEY,
        home_ctx=home(None),
    )
    assert planned(row, observation(None, HALF_VOLUME, COMMITTED)) == Abandon(
        OP.RESTORING, Why.GIVEN_UP, forgives=True
    )


# The same wish again


def test_the_same_wish_again_is_a_try_at_once_and_counts_once() -> None:
    asked = rule_wish(WAITING, D.RUNNING, NOW)
    assert isinstance(asked, Accepted)
    assert asked.spec.revision == WAITING.spec.revision
    assert is_to_be_carried_out(WAITING.spec, asked.spec)
    assert [
        event.kind for event in events_of_request(WAITING.spec, asked.spec, actor="ann", reason=verbatim(""))
    ] == [EventKind.WISH]
    row = replace(WAITING, spec=asked.spec)
    assert planned(row) == Resume(OP.STARTING)
    failed = apply_outcome(
        settled(row),
        START,
        OP_ID,
        Unreached(verbatim("still no route"), NOW),
        NOW + timedelta(seconds=1),
        spec=row.spec,
        jitter=0.5,
    )
    later = NOW + timedelta(seconds=2)
    assert isinstance(planned(replace(row, status=failed), now=later), Wait)


def test_a_change_with_the_same_wish_asks_for_a_try_too() -> None:
    asked = rule_change(WAITING, {}, D.RUNNING, now=NOW)
    assert asked == Accepted(replace(WAITING.spec, asked_again_at=NOW))
    both = rule_change(WAITING, {"image_ref": "mine"}, D.RUNNING, now=NOW)
    assert both == Accepted(replace(WAITING.spec, asked_again_at=NOW, image_ref="mine", revision=2))


@pytest.mark.parametrize("wish", [D.RUNNING, D.STANDBY])
def test_nothing_automatic_gives_it_up_or_hurries_it(wish: DesiredState) -> None:
    assert isinstance(rule_wish(WAITING, wish, NOW, is_automatic=True), Refused)


def test_what_is_not_held_up_is_not_tried_at_once() -> None:
    resting = workspace(P.RUNNING, D.RUNNING)
    assert isinstance(rule_wish(resting, D.RUNNING, NOW), Unchanged)


# What people are told


def test_explain_offers_a_try_a_stop_and_a_deletion() -> None:
    explanation = explain(WAITING, NOW)
    assert [action.label for action in explanation.actions] == [
        Ask.TRY_NOW,
        Ask.STOP,
        Ask.ARCHIVE,
        Ask.DELETE,
        Ask.PURGE,
    ]
    assert explanation.actions[0].ask is Ask.START
