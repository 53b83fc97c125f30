"""Contract 11 with a database that is older than the world: an
archive is there that is newer than the one the row names.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.workspaces import (
    COMMITTED,
    KEY,
    NEW_OP_ID,
    NOW,
    OP_ID,
    OUR_VOLUME,
    WORKSPACE_ID,
    accepted,
    ago,
    decided,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.archives import CLOCKS_APART, CommittedArchive, archive_made_since, work_counts_from
from codehub.core.conditions import Truth
from codehub.core.errors import NEWEST_ARCHIVE, NEWEST_ARCHIVE_AT, ErrorInfo, ErrorReason
from codehub.core.judge import judge, needs_archives_look
from codehub.core.messages import Code, verbatim
from codehub.core.observation import Observation, Unobserved, Volume
from codehub.core.operations import DesiredState, Operation, Phase, Step
from codehub.core.plan import Act, Hold, TakeOver, plan
from codehub.core.requests import rule_recovery
from codehub.core.transitions import Done, apply_outcome, apply_plan
from codehub.core.workspace import HomeCtx, RecoverChoice, Workspace


def key_of(number: int) -> str:
    return f"{WORKSPACE_ID}/{UUID(int=number)}/home.tar.zst"


OTHER, THIRD = key_of(7), key_of(8)
OWN = CommittedArchive(KEY, ago(500))
NEWER = CommittedArchive(OTHER, ago(400))
OLDER = CommittedArchive(OTHER, ago(600))
OLDEST = CommittedArchive(THIRD, ago(700))
TIMELESS = CommittedArchive(OTHER, None)
NEWER_EMPTY = CommittedArchive(OTHER, ago(400), is_empty=True)
COPY = CommittedArchive(THIRD, ago(30), digest="of what its own holds")
OF_OPERATION = CommittedArchive(f"{WORKSPACE_ID}/{NEW_OP_ID}/home.tar.zst", ago(1))
SOURCES = {
    Operation.RESTORING: Phase.ARCHIVED,
    Operation.PROVISIONING: Phase.PENDING,
    Operation.CREATE_EMPTY_ARCHIVE: Phase.PENDING,
}


def at_work(operation: Operation, key: str | None, **more: Any) -> Workspace:
    return workspace(
        SOURCES[operation],
        operation=operation,
        op_id=NEW_OP_ID,
        archive_key=key,
        **({"home_ctx": home(None)} | more),
    )


def look(key: str | None, *archives: CommittedArchive) -> Observation:
    return observation(None, None, None if key is None else COMMITTED, archives=archives)


@pytest.mark.parametrize(
    ("operation", "key", "archives", "newest"),
    [
        (Operation.RESTORING, KEY, (OWN, NEWER), NEWER),
        (Operation.RESTORING, KEY, (OWN,), None),
        (Operation.RESTORING, KEY, (OWN, OLDER), None),
        (Operation.RESTORING, KEY, (OWN, TIMELESS), None),
        (Operation.RESTORING, KEY, (replace(OWN, committed_at=None), NEWER), NEWER),
        (Operation.RESTORING, KEY, (replace(OWN, committed_at=None), TIMELESS), None),
        (Operation.RESTORING, KEY, (OWN, NEWER_EMPTY), NEWER_EMPTY),
        (Operation.RESTORING, KEY, (OWN, OF_OPERATION), None),
        (Operation.RESTORING, KEY, (replace(OWN, digest=COPY.digest), COPY), None),
        (Operation.RESTORING, KEY, (replace(OWN, digest=COPY.digest), NEWER, COPY), None),  # it was chosen
        (Operation.RESTORING, KEY, (replace(OWN, digest="of else"), NEWER, COPY), COPY),
        (Operation.RESTORING, KEY, (OWN, replace(COPY, digest=None)), COPY),
        (Operation.RESTORING, KEY, (NEWER,), NEWER),  # looked at again, its own is there by now
        (Operation.RESTORING, KEY, (TIMELESS,), None),
        (Operation.PROVISIONING, None, (NEWER,), NEWER),
        (Operation.PROVISIONING, None, (TIMELESS,), TIMELESS),
        (Operation.PROVISIONING, None, (NEWER_EMPTY,), None),
        (Operation.PROVISIONING, None, (), None),
        (Operation.CREATE_EMPTY_ARCHIVE, None, (NEWER,), NEWER),
        (Operation.CREATE_EMPTY_ARCHIVE, None, (OF_OPERATION,), None),
    ],
)
def test_an_archive_that_is_newer_than_the_row_s_stops_what_would_go_on_without_it(
    operation: Operation,
    key: str | None,
    archives: tuple[CommittedArchive, ...],
    newest: CommittedArchive | None,
) -> None:
    status = decided(at_work(operation, key), look(key, *archives)).status
    if newest is None:
        assert (status.operation, status.error_info) == (operation, None)
        return
    assert (status.phase, status.operation) == (Phase.ERROR, Operation.NONE)
    assert status.error_info is not None
    assert (status.error_info.reason, status.error_info.operation) == (ErrorReason.DATA_LOST, operation)
    assert status.error_info.context[NEWEST_ARCHIVE] == newest.key
    said_at = None if newest.committed_at is None else newest.committed_at.isoformat()
    assert status.error_info.context.get(NEWEST_ARCHIVE_AT) == said_at


@pytest.mark.parametrize("blind", list(Unobserved))
@pytest.mark.parametrize("operation", SOURCES)
def test_nothing_is_made_anew_while_the_archives_were_not_looked_at(
    operation: Operation, blind: Unobserved
) -> None:
    key = KEY if operation is Operation.RESTORING else None
    row = at_work(operation, key)
    blind_look = replace(look(key), archives=blind)
    verdict = judge(row, blind_look, NOW)
    assert isinstance(plan(row.spec, verdict, blind_look, NOW, is_mine=True), Hold)


def answered(key: str | None, *, newest: CommittedArchive | None = NEWER, **spec: Any) -> Workspace:
    context = {} if newest is None else {NEWEST_ARCHIVE: newest.key}
    error_info = ErrorInfo(ErrorReason.DATA_LOST, verbatim(""), Operation.RESTORING, 0, ago(50), context)
    return workspace(
        Phase.ERROR,
        DesiredState.STANDBY,
        op_id=UUID(int=9),
        archive_key=key,
        home_ctx=home(None),
        error_info=error_info,
        spec={"recover_at": ago(20)} | spec,
    )


TAKEN: dict[str, Any] = {"recover_choice": RecoverChoice.NEWEST}
ACCEPTED: dict[str, Any] = {"recover_accepts_loss": True}


@pytest.mark.parametrize(
    ("key", "archives", "taken"),
    [
        (KEY, (OWN, NEWER), OTHER),
        (None, (NEWER,), OTHER),
        (None, (CommittedArchive(THIRD, ago(500)), NEWER_EMPTY), THIRD),
        (None, (NEWER_EMPTY,), OTHER),
        (KEY, (OWN,), KEY),
    ],
)
def test_who_takes_the_newest_goes_on_with_it(
    key: str | None, archives: tuple[CommittedArchive, ...], taken: str
) -> None:
    row = answered(key, **TAKEN)
    status = judge(row, look(key, *archives), NOW).status
    assert (status.phase, status.archive_key, status.error_info) == (Phase.ARCHIVED, taken, None)


@pytest.mark.parametrize(
    ("key", "archives", "step"),
    [
        (KEY, (OWN, NEWER), Step.RESTORE),
        (KEY, (OWN,), Step.RESTORE),
        (KEY, (OLDER,), Step.COPY_ARCHIVE),
        (KEY, (TIMELESS,), Step.COPY_ARCHIVE),
        (None, (NEWER,), Step.COPY_ARCHIVE),
    ],
    ids=["a newer one", "its own", "an older one", "one without a time", "one after a loss"],
)
def test_what_is_taken_is_committed_anew_first_where_a_newer_one_may_have_been_lost(
    key: str | None, archives: tuple[CommittedArchive, ...], step: Step
) -> None:
    """Its removal may be under way: it had been replaced by what is gone."""
    status = judge(answered(key, newest=None, **TAKEN), look(None, *archives), NOW).status
    row = at_work(Operation.RESTORING, status.archive_key, home_ctx=status.home_ctx)
    observed = look(status.archive_key, *archives)
    verdict = judge(row, observed, NOW)
    assert plan(row.spec, verdict, observed, NOW, is_mine=True) == Act(Operation.RESTORING, step)


def test_what_is_taken_gives_up_nothing_that_is_newer() -> None:
    status = judge(answered(KEY, newest=None, **TAKEN), look(None, OLDER), NOW).status
    row = at_work(Operation.RESTORING, OLDER.key, home_ctx=status.home_ctx)
    error_info = judge(row, look(OLDER.key, OLDER, COPY), NOW).status.error_info
    assert error_info is not None
    assert error_info.context[NEWEST_ARCHIVE] == COPY.key


@pytest.mark.parametrize("left", [OLDEST, replace(OLDEST, committed_at=None)], ids=["older", "timeless"])
def test_what_is_taken_and_lost_before_its_copy_gives_up_nothing_that_is_older(
    left: CommittedArchive,
) -> None:
    taken = judge(answered(KEY, newest=None, **TAKEN), look(None, OLDER, left), NOW).status
    lost = replace(answered(OLDER.key, newest=None, **ACCEPTED).status, home_ctx=taken.home_ctx)
    row = replace(answered(OLDER.key, newest=None, **ACCEPTED), status=lost)
    status = judge(row, look(None, left), NOW).status
    assert status.archive_key is None
    begun = at_work(Operation.PROVISIONING, None, home_ctx=status.home_ctx)
    error_info = judge(begun, look(None, left), NOW).status.error_info
    assert error_info is not None
    assert error_info.context[NEWEST_ARCHIVE] == left.key


@pytest.mark.parametrize(
    ("offered", "archives"),
    [(OTHER, (OWN,)), (KEY, (OLDER,)), (KEY, ())],
    ids=["the one that the error named", "the row's own", "the only one"],
)
def test_who_took_an_archive_that_has_vanished_since_is_asked_again(
    offered: str, archives: tuple[CommittedArchive, ...]
) -> None:
    row = answered(KEY, **TAKEN, recover_offered_key=offered)
    row = replace(row, status=replace(row.status, home_ctx=home("v1", dirty=True)))
    status = decided(row, look(KEY if OWN in archives else None, *archives)).status
    assert (status.phase, status.operation, status.archive_key) == (Phase.ERROR, Operation.NONE, offered)
    assert status.error_info is not None
    assert status.error_info.reason is ErrorReason.DATA_LOST
    assert status.error_info.message.code is Code.ARCHIVE_LOST
    assert status.error_info.occurred_at == NOW


def test_who_then_takes_the_newest_of_those_that_are_left_gets_it() -> None:
    row = answered(KEY, **TAKEN, recover_offered_key=OTHER)
    asked = replace(row, status=decided(row, look(KEY, OWN)).status)
    spec = accepted(rule_recovery(asked, NOW, choice=RecoverChoice.NEWEST))
    assert spec.recover_offered_key is None
    status = decided(replace(asked, spec=spec), look(None, OWN)).status
    assert (status.phase, status.archive_key, status.error_info) == (Phase.ARCHIVED, KEY, None)


def test_files_without_an_identity_are_not_given_up_for_an_archive_that_has_vanished() -> None:
    row = answered(KEY, newest=None, **TAKEN, recover_offered_key=KEY)
    row = replace(row, status=replace(row.status, home_ctx=home("v1", dirty=True)))
    unidentified = observation(None, Volume(None, "v1"), None, archives=(OLDER,))
    status = decided(row, unidentified).status
    assert (status.phase, status.home_ctx) == (Phase.ERROR, home("v1", dirty=True))
    assert status.error_info is not None
    assert status.error_info.message.code is Code.IDENTITY_LOST


@pytest.mark.parametrize(
    ("archive_ready", "newest", "offered"),
    [
        (Truth.TRUE, NEWER, NEWER.key),
        (Truth.FALSE, NEWER, NEWER.key),
        (Truth.TRUE, None, KEY),
        (Truth.UNKNOWN, None, KEY),
        (Truth.FALSE, None, None),
    ],
)
def test_what_is_offered_is_what_the_row_knows_of(
    archive_ready: Truth, newest: CommittedArchive | None, offered: str | None
) -> None:
    row = answered(KEY, newest=newest)
    conditions = row.status.conditions
    ready = replace(conditions.archive_ready, status=archive_ready)
    row = replace(row, status=replace(row.status, conditions=replace(conditions, archive_ready=ready)))
    for choice in (RecoverChoice.NEWEST, RecoverChoice.ADOPT, None):
        spec = accepted(rule_recovery(row, NOW, choice=choice))
        assert spec.recover_offered_key == (offered if choice is RecoverChoice.NEWEST else None)


def test_who_takes_the_newest_where_there_is_none_is_judged_anew() -> None:
    status = judge(answered(None, **TAKEN), look(None), NOW).status
    assert (status.phase, status.archive_key) == (Phase.PENDING, None)


def test_a_home_that_is_there_is_not_left_for_an_archive() -> None:
    row = answered(KEY, **TAKEN)
    row = replace(row, status=replace(row.status, home_ctx=home("v1", dirty=True)))
    status = judge(row, replace(look(KEY, OWN, NEWER), volume=OUR_VOLUME), NOW).status
    assert (status.phase, status.archive_key, status.home_ctx.dirty) == (Phase.STANDBY, KEY, True)


@pytest.mark.parametrize(
    ("key", "phase", "operation", "step"),
    [
        (KEY, Phase.ARCHIVED, Operation.RESTORING, Step.COPY_ARCHIVE),
        (None, Phase.PENDING, Operation.PROVISIONING, Step.CREATE_EMPTY_ARCHIVE),
    ],
)
def test_who_accepts_the_loss_gets_what_was_chosen_committed_as_the_newest_first(
    key: str | None, phase: Phase, operation: Operation, step: Step
) -> None:
    archives = (NEWER,) if key is None else (OWN, NEWER)
    status = judge(answered(key, **ACCEPTED), look(key, *archives), NOW).status
    assert (status.phase, status.archive_key, status.home_ctx.given_up_at) == (phase, key, ago(50))
    row = at_work(operation, key, home_ctx=status.home_ctx)
    verdict = judge(row, look(key, *archives), NOW)
    act = plan(row.spec, verdict, look(key, *archives), NOW, is_mine=True)
    assert act == Act(operation, step)
    done = Done(archive_key=OF_OPERATION.key)
    after = apply_outcome(verdict.status, Act(operation, step), NEW_OP_ID, done, NOW, spec=row.spec, jitter=0)
    assert (after.archive_key, after.home_ctx.given_up_at) == (OF_OPERATION.key, None)


def test_what_was_given_up_is_what_was_there_then() -> None:
    row = at_work(Operation.RESTORING, KEY, home_ctx=HomeCtx(given_up_at=ago(50)))
    later = CommittedArchive(THIRD, ago(40))
    status = judge(row, look(KEY, OWN, NEWER, later), NOW).status
    assert status.error_info is not None
    assert status.error_info.context[NEWEST_ARCHIVE] == THIRD


def test_who_takes_over_gives_up_no_more_than_the_person_did() -> None:
    row = at_work(Operation.RESTORING, KEY, home_ctx=HomeCtx(given_up_at=ago(50)))
    blind = replace(look(KEY), archives=Unobserved.UNREACHABLE)
    verdict = judge(row, blind, NOW)
    planned = plan(row.spec, verdict, blind, NOW, is_mine=False)
    assert planned == TakeOver(Operation.RESTORING)
    taken = replace(row, status=apply_plan(row.spec, verdict.status, planned, NOW, op_id=OP_ID))
    later = CommittedArchive(THIRD, ago(40))
    error_info = judge(taken, look(KEY, OWN, NEWER, later), NOW).status.error_info
    assert error_info is not None
    assert error_info.context[NEWEST_ARCHIVE] == THIRD


def test_who_accepted_another_loss_was_not_asked_about_a_newer_archive() -> None:
    status = judge(answered(KEY, newest=None, **ACCEPTED), look(KEY, OWN, NEWER), NOW).status
    assert (status.phase, status.home_ctx.given_up_at) == (Phase.ARCHIVED, None)


def test_what_is_corrupted_is_given_up_with_its_archive() -> None:
    row = workspace(
        Phase.ERROR,
        archive_key=KEY,
        home_ctx=home(None),
        error_info=error(ErrorReason.ARCHIVE_CORRUPTED),
        spec={"recover_at": ago(20)} | ACCEPTED,
    )
    status = judge(row, look(KEY, OWN), NOW).status
    assert (status.archive_key, status.home_ctx.given_up_at) == (None, ago(50))
    begun = at_work(Operation.PROVISIONING, None, home_ctx=status.home_ctx)
    assert judge(begun, look(None, OWN), NOW).status.error_info is None


@pytest.mark.parametrize(
    ("row", "is_looked_at"),
    [
        *((at_work(operation, None), True) for operation in SOURCES),
        (answered(KEY), True),
        (workspace(Phase.ERROR, error_info=error()), False),
        (workspace(Phase.ARCHIVED, archive_key=KEY), False),
        (workspace(Phase.STANDBY, operation=Operation.ARCHIVING), False),
    ],
)
def test_the_archives_of_few_are_listed(row: Workspace, is_looked_at: bool) -> None:
    assert needs_archives_look(row) is is_looked_at


@pytest.mark.parametrize(("since_s", "is_found"), [(450, True), (400, False), (300, False)])
def test_an_archive_since_the_deletion_is_newer_than_it_and_than_the_row_s(
    since_s: int, is_found: bool
) -> None:
    row = workspace(Phase.DELETED, archive_key=KEY)
    archive = archive_made_since(row.status, [OWN, NEWER], ago(since_s))
    assert (archive is not None) is is_found


def test_what_a_slow_clock_may_have_dated_before_the_deletion_counts_as_made_after_it() -> None:
    deleted_at = datetime(2026, 11, 16, 12, tzinfo=UTC)
    assert work_counts_from(deleted_at) == deleted_at - CLOCKS_APART
    assert timedelta(seconds=30) < CLOCKS_APART < timedelta(minutes=5)
