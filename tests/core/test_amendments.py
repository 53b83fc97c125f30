"""Amendments: who may ask, what is ruled within limits and ceilings, and what the history will say of it."""

from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

import pytest
from tests.support.workspaces import NOW, OWNER_ID, ago, workspace

from codehub.core.access import Person, Role, Scope, User
from codehub.core.amendments import (
    By,
    Denied,
    Running,
    admit_new,
    amend,
    amend_within_limits,
    change_within_ceilings,
    let_sleep,
    undelete_within_ceilings,
)
from codehub.core.ceilings import Ceilings
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.permissions import Denial
from codehub.core.requests import Accepted, Refusal, Refused, Unchanged, rule_wish
from codehub.core.visit import Visitor

CODEHUB = By("ttl", verbatim("It is time."), "request-1")
ALONE = Running([], 0)
CROWDED = Running([(UUID(int=1), "first", Phase.RUNNING)], 1, owned=1)
LIMITS, CEILINGS = Limits(1, 100), Ceilings(workspaces=1)
START = partial(rule_wish, wanted=DesiredState.RUNNING)
STOP = partial(rule_wish, wanted=DesiredState.STANDBY)
ASLEEP = workspace(Phase.STANDBY, wish=DesiredState.STANDBY)
AWAKE = workspace(Phase.RUNNING, wish=DesiredState.RUNNING)
DELETED = replace(ASLEEP, spec=replace(ASLEEP.spec, deleted_at=ago(10)))


def person(user_id: UUID) -> By:
    user = User(user_id, "ann", Role.MEMBER, disabled=False, created_at=NOW)
    return By(
        Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None), verbatim("Asked for it.")
    )


def test_who_asks_is_named_in_the_history() -> None:
    visitor = By(Visitor(OWNER_ID, "ann"), verbatim("Visited."))
    assert [by.actor for by in (person(OWNER_ID), visitor, CODEHUB)] == ["ann", "ann", "ttl"]


def test_an_accepted_request_is_recorded_with_who_asked_and_in_which_request() -> None:
    record = amend(ASLEEP, NOW, rule=START, by=CODEHUB)
    assert isinstance(record.ruling, Accepted)
    assert (record.ruling.spec.desired_state, record.ruling.spec.request_id) == ("RUNNING", "request-1")
    assert [(event.actor, event.after, event.request_id) for event in record.events] == [
        ("ttl", "RUNNING", "request-1")
    ]


def test_a_change_that_nothing_carries_out_leaves_the_request_as_it_was() -> None:
    renamed = Accepted(replace(ASLEEP.spec, memo="new", revision=ASLEEP.spec.revision + 1))
    assert amend(ASLEEP, NOW, rule=lambda _row, *, now: renamed, by=CODEHUB).ruling == renamed  # noqa: ARG005


def test_what_is_already_so_leaves_no_line() -> None:
    record = amend(ASLEEP, NOW, rule=STOP, by=CODEHUB)
    assert (record.ruling, record.events) == (Unchanged(), ())


def test_nobody_asks_anything_of_somebody_else_s_workspace() -> None:
    stranger = person(uuid4())
    for ask in (
        partial(amend, ASLEEP, NOW, rule=START),
        partial(amend_within_limits, ASLEEP, NOW, ALONE, rule=START, limits=LIMITS),
        partial(undelete_within_ceilings, DELETED, NOW, ALONE, ceilings=CEILINGS),
    ):
        with pytest.raises(Denied) as denied:
            ask(by=stranger)
        assert denied.value.denial is Denial.FOREIGN


def test_one_more_that_runs_is_refused_at_the_limit_unless_it_has_its_place() -> None:
    ask = partial(amend_within_limits, by=CODEHUB, limits=LIMITS)
    assert isinstance(ask(ASLEEP, NOW, ALONE, rule=START).ruling, Accepted)
    refused = ask(ASLEEP, NOW, CROWDED, rule=START).ruling
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.LIMIT_EXCEEDED
    assert ask(AWAKE, NOW, CROWDED, rule=START).ruling == Unchanged()
    assert isinstance(ask(AWAKE, NOW, CROWDED, rule=STOP).ruling, Accepted)


def test_a_deletion_is_undone_unless_its_owner_has_as_many_as_may_be() -> None:
    ask = partial(undelete_within_ceilings, by=person(OWNER_ID), ceilings=CEILINGS)
    assert isinstance(ask(DELETED, NOW, ALONE).ruling, Accepted)
    assert isinstance(ask(DELETED, NOW, CROWDED).ruling, Refused)
    assert not isinstance(ask(ASLEEP, NOW, CROWDED).ruling, Accepted)


def test_a_change_above_a_ceiling_is_refused() -> None:
    resources = replace(ASLEEP.spec.resources, memory_mb=2 * Ceilings().resources.memory_mb)
    ask = partial(change_within_ceilings, ASLEEP, now=NOW, wanted=None, revisions=None, ceilings=Ceilings())
    assert isinstance(ask(changes=lambda _spec: {"resources": resources}), Refused)
    assert isinstance(ask(changes=lambda _spec: {"memo": "new"}), Accepted)
    assert ask(changes=lambda _spec: {}) == Unchanged()


def test_only_what_is_idle_is_wished_to_sleep() -> None:
    used = replace(AWAKE, spec=replace(AWAKE.spec, last_access_at=ago(1)))
    idle = replace(
        AWAKE,
        spec=replace(AWAKE.spec, last_access_at=ago(10_000)),
        status=replace(AWAKE.status, phase_changed_at=ago(10_000)),
    )
    assert let_sleep(used, now=NOW) == Unchanged()
    ruling = let_sleep(idle, now=NOW)
    assert isinstance(ruling, Accepted)
    assert ruling.spec.desired_state is DesiredState.STANDBY


@pytest.mark.parametrize(
    ("others", "wish", "is_refused"),
    [
        (ALONE, DesiredState.RUNNING, False),
        (CROWDED, DesiredState.PENDING, True),
        (replace(CROWDED, owned=0), DesiredState.PENDING, False),
        (replace(CROWDED, owned=0), DesiredState.RUNNING, True),
    ],
)
def test_a_new_one_is_admitted_within_ceilings_and_limits(
    others: Running, wish: DesiredState, *, is_refused: bool
) -> None:
    refused = admit_new(others, limits=LIMITS, ceilings=CEILINGS, wish=wish)
    assert isinstance(refused, Refused) == is_refused
