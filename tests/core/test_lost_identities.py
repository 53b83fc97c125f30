"""A volume that is there without its identity: a person adopts it, or gives it up."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.workspaces import (
    COMMITTED,
    HALF_VOLUME,
    HEALTHY_INSTANCE,
    KEY,
    NOW,
    OP_ID,
    ago,
    decided,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.archives import CommittedArchive
from codehub.core.errors import ErrorReason
from codehub.core.explain import Ask, explain
from codehub.core.judge import judge
from codehub.core.messages import Code, Message
from codehub.core.observation import UNTOLD, Archive, Observation, Volume
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act, Begin, Complete, Plan, Why, plan
from codehub.core.transitions import Done, apply_outcome, apply_plan
from codehub.core.workspace import HomeCtx, RecoverChoice, Workspace

UNTOLD_VOLUME, BEARING_VOLUME = Volume(None, UNTOLD), Volume(None, "v1")
ADOPT = {"recover_at": ago(1), "recover_choice": RecoverChoice.ADOPT}
IDENTITY = [
    # the look, the volume that the row knows, the reason
    (UNTOLD_VOLUME, "v1", "Unidentified"),
    (BEARING_VOLUME, "v1", "Unidentified"),
    (BEARING_VOLUME, "v9", "Unidentified"),
    (BEARING_VOLUME, None, "Unidentified"),
    (UNTOLD_VOLUME, None, "Unidentified"),
    (HALF_VOLUME, "v1", "NotReady"),
    (HALF_VOLUME, None, "NotReady"),
]


@pytest.mark.parametrize(("look", "known", "reason"), IDENTITY)
def test_only_what_was_complete_once_has_lost_its_identity(
    look: Volume, known: str | None, reason: str
) -> None:
    row = workspace(Phase.STANDBY, home_ctx=home(known))
    assert judge(row, observation(None, look), NOW).status.conditions.volume_ready.reason == reason


def unidentified(**spec: Any) -> Workspace:
    lost = error(ErrorReason.DATA_LOST, at=ago(50))
    return workspace(
        Phase.ERROR,
        DesiredState.STANDBY,
        spec=spec,
        error_info=lost,
        home_ctx=home("v1", marker=KEY, dirty=True),
        archive_key=KEY,
    )


def test_files_that_are_there_are_said_to_be_there() -> None:
    row = workspace(Phase.STANDBY, home_ctx=home("v1", dirty=True))
    status = judge(row, observation(None, BEARING_VOLUME), NOW).status
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.DATA_LOST
    assert status.error_info.message == Message(Code.IDENTITY_LOST)
    asks = [action.ask for action in explain(replace(row, status=status), NOW).actions]
    assert Ask.ADOPT in asks
    assert Ask.ACCEPT_LOSS in asks


@pytest.mark.parametrize(
    ("archive", "operation"), [(COMMITTED, Operation.RESTORING), (None, Operation.PROVISIONING)]
)
def test_what_a_person_adopts_gets_an_identity_and_stays_dirty(
    archive: Archive | None, operation: Operation
) -> None:
    row = unidentified(**ADOPT)
    if archive is None:
        row = replace(row, status=replace(row.status, archive_key=None))
    look = observation(None, BEARING_VOLUME, archive)
    row = passed(row, look, Begin(operation, Why.ADOPTED, adopts=True))
    assert row.status.home_ctx == home("v1", marker=KEY, dirty=True)
    row = passed(row, look, Act(operation, Step.ADOPT), Done(volume_id="v2", restore_marker=KEY))
    row = passed(row, observation(None, Volume("v2"), archive), Complete(operation))
    assert (row.status.operation, row.status.phase) == (Operation.NONE, Phase.STANDBY)
    assert row.status.home_ctx == home("v2", marker=KEY, dirty=True)


@pytest.mark.parametrize("operation", [Operation.RESTORING, Operation.PROVISIONING])
@pytest.mark.parametrize(
    ("look", "replaces", "is_replaced"),
    [
        (HALF_VOLUME, None, True),
        (BEARING_VOLUME, None, False),
        (BEARING_VOLUME, "v9", False),
        (BEARING_VOLUME, "v1", True),
        (UNTOLD_VOLUME, None, False),
        (UNTOLD_VOLUME, UNTOLD, True),
    ],
)
def test_a_volume_that_was_complete_once_is_replaced_only_if_a_person_gave_up_this_very_one(
    operation: Operation, look: Volume, replaces: str | None, is_replaced: bool
) -> None:
    key = KEY if operation is Operation.RESTORING else None
    phase = Phase.PENDING if key is None else Phase.ARCHIVED
    row = workspace(phase, operation=operation, archive_key=key, home_ctx=HomeCtx(replaces=replaces))
    status = judge(row, observation(None, look, None if key is None else COMMITTED), NOW).status
    assert (status.phase is Phase.ERROR) is not is_replaced


@pytest.mark.parametrize(
    ("look", "known", "adopted"),
    [
        (BEARING_VOLUME, home("v1", marker=KEY), home("v1", marker=KEY, dirty=True)),
        (BEARING_VOLUME, home("v9", marker=KEY, dirty=True), home("v1", dirty=True)),
        (BEARING_VOLUME, HomeCtx(), home("v1", dirty=True)),
        (UNTOLD_VOLUME, HomeCtx(), home(str(OP_ID), dirty=True)),
    ],
)
def test_what_is_adopted_is_the_volume_that_is_there_whatever_the_row_knows(
    look: Volume, known: HomeCtx, adopted: HomeCtx
) -> None:
    row = unidentified(**ADOPT)
    row = replace(row, status=replace(row.status, home_ctx=known))
    assert passed(row, observation(None, look, COMMITTED), ADOPTION).status.home_ctx == adopted


@pytest.mark.parametrize("choice", [{"recover_accepts_loss": True}, {"recover_choice": RecoverChoice.NEWEST}])
def test_what_a_person_gives_up_is_the_volume_that_is_there(choice: dict[str, Any]) -> None:
    row = unidentified(recover_at=ago(1), **choice)
    look = observation(None, BEARING_VOLUME, COMMITTED, archives=(CommittedArchive(KEY, ago(90)),))
    row = passed(row, look, Begin(Operation.RESTORING, Why.MOVES_UP))
    assert row.status.home_ctx == HomeCtx(replaces="v1")
    row = passed(row, look, Act(Operation.RESTORING, Step.RESTORE), Done(volume_id="v2", restore_marker=KEY))
    assert row.status.home_ctx == home("v2", marker=KEY)


ADOPTION = Begin(Operation.RESTORING, Why.ADOPTED, adopts=True)


def passed(row: Workspace, look: Observation, expected: Plan, done: Done | None = None) -> Workspace:
    """Run a pass that must plan this, and return the row that it leaves."""
    verdict = judge(row, look, NOW)
    planned = plan(row.spec, verdict, look, NOW, is_mine=True)
    assert planned == expected
    if isinstance(planned, Act) and done is not None:
        status = apply_outcome(verdict.status, planned, OP_ID, done, NOW, spec=row.spec, jitter=0.5)
    else:
        status = apply_plan(row.spec, verdict.status, planned, NOW, op_id=OP_ID)
    return replace(row, status=status)


def test_a_word_to_adopt_counts_for_the_error_that_it_answers_alone() -> None:
    row = workspace(Phase.STANDBY, spec=ADOPT, home_ctx=home("v1", dirty=True))
    status = judge(row, observation(None, BEARING_VOLUME), NOW).status
    assert status.phase is Phase.ERROR
    again = judge(replace(row, status=status), observation(None, BEARING_VOLUME), NOW)
    assert (again.status.phase, again.is_adopted) == (Phase.ERROR, False)


NOT_ADOPTED = [
    observation(HEALTHY_INSTANCE, BEARING_VOLUME),
    observation(None, None),
    observation(None, HALF_VOLUME),
]


@pytest.mark.parametrize("look", NOT_ADOPTED)
def test_what_is_used_gone_or_half_is_not_adopted(look: Observation) -> None:
    row = unidentified(**ADOPT)
    verdict = judge(row, replace(look, archive=COMMITTED), NOW)
    assert (verdict.is_adopted, verdict.status.phase) == (False, Phase.ERROR)


def test_a_volume_that_goes_while_it_is_adopted_is_lost() -> None:
    row = unidentified(**ADOPT)
    begun = passed(row, observation(None, BEARING_VOLUME, COMMITTED), ADOPTION)
    status = decided(begun, observation(None, None, COMMITTED)).status
    assert status.error_info is not None
    assert (status.error_info.reason, status.operation) == (ErrorReason.DATA_LOST, Operation.NONE)


def test_a_purge_comes_before_an_adoption() -> None:
    row = unidentified(**ADOPT, deleted_at=ago(1), purge_at=ago(1))
    look = observation(None, BEARING_VOLUME, COMMITTED)
    assert plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True) == Begin(
        Operation.DELETING, Why.PURGE
    )
