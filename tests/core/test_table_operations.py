"""Spec §2.3 and §5: the steps of an operation, its end, and what a start-up finds."""

from datetime import timedelta

import pytest
from tests.support.workspaces import (
    ABSENT,
    COMMITTED,
    FOREIGN_VOLUME,
    HALF_VOLUME,
    HEALTHY_INSTANCE,
    KEY,
    NOW,
    OUR_VOLUME,
    UNHEALTHY_INSTANCE,
    UNKNOWN,
    ago,
    conditions,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.judge import judge, needs_archive_look
from codehub.core.observation import Archive, Instance, Observation, Unobserved, Volume
from codehub.core.operations import MOVES, DesiredState, Operation, Phase, Step
from codehub.core.plan import Abandon, Act, Begin, Complete, Plan, Rest, plan
from codehub.core.rules import DEFAULT_RULES
from codehub.core.workspace import Workspace

P, D, OP = Phase, DesiredState, Operation
DELETED = {"deleted_at": ago(10), "purge_at": ago(-1000)}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10)}


def decide(row: Workspace, look: Observation) -> Plan:
    return plan(row.spec, judge(row, look, NOW), look, NOW, is_mine=True)


# §2.3 Operations

MOVES_OF_THE_SPECIFICATION = [
    (OP.PROVISIONING, "PENDING → STANDBY", "provision"),
    (OP.CREATE_EMPTY_ARCHIVE, "PENDING → ARCHIVED", "create_empty_archive"),
    (OP.RESTORING, "ARCHIVED → STANDBY", "restore"),
    (OP.STARTING, "STANDBY → RUNNING", "start"),
    (OP.STOPPING, "RUNNING, STANDBY → STANDBY", "delete_instance"),
    (OP.ARCHIVING, "STANDBY → ARCHIVED", "archive, delete_volume"),
    (OP.DELETING, "PENDING, ARCHIVED → DELETED", "delete_instance, delete_volume, purge_archives"),
]


@pytest.mark.parametrize(("operation", "move", "steps"), MOVES_OF_THE_SPECIFICATION)
def test_every_operation_has_these_sources_target_and_steps(
    operation: Operation, move: str, steps: str
) -> None:
    entry = MOVES[operation]
    assert f"{', '.join(entry.sources)} → {entry.target}" == move
    assert ", ".join(entry.steps) == steps


def test_every_operation_has_a_move() -> None:
    assert set(MOVES) == set(Operation) - {OP.NONE}


DIRTY = home("v1", dirty=True)
CLEAN = home("v1")
RESTORED = home("v1", marker=KEY)
ORDER_OF_STEPS = [
    # operation, key, home, container, volume, archive, archives left, what follows
    (OP.PROVISIONING, None, home(None), None, None, None, False, Step.PROVISION),
    (OP.PROVISIONING, None, home(None), None, HALF_VOLUME, None, False, Step.PROVISION),
    (OP.PROVISIONING, None, CLEAN, None, OUR_VOLUME, None, False, "complete"),
    (OP.PROVISIONING, KEY, home(None), None, None, COMMITTED, False, "abandon"),
    (OP.CREATE_EMPTY_ARCHIVE, None, home(None), None, None, None, False, Step.CREATE_EMPTY_ARCHIVE),
    (OP.CREATE_EMPTY_ARCHIVE, KEY, home(None), None, None, COMMITTED, False, "complete"),
    (OP.CREATE_EMPTY_ARCHIVE, None, CLEAN, None, OUR_VOLUME, None, False, "abandon"),
    (OP.RESTORING, KEY, home(None), None, None, COMMITTED, False, Step.RESTORE),
    (OP.RESTORING, KEY, home(None), None, HALF_VOLUME, COMMITTED, False, Step.RESTORE),
    (OP.RESTORING, KEY, RESTORED, None, OUR_VOLUME, COMMITTED, False, "complete"),
    (OP.RESTORING, KEY, CLEAN, None, OUR_VOLUME, COMMITTED, False, "abandon"),
    (OP.RESTORING, None, home(None), None, None, None, False, "abandon"),
    (OP.STARTING, None, DIRTY, None, OUR_VOLUME, None, False, Step.START),
    (OP.STARTING, None, DIRTY, UNHEALTHY_INSTANCE, OUR_VOLUME, None, False, Step.START),
    (OP.STARTING, None, DIRTY, HEALTHY_INSTANCE, OUR_VOLUME, None, False, "complete"),
    (OP.STARTING, None, CLEAN, None, None, None, False, "abandon"),
    (OP.STOPPING, None, DIRTY, HEALTHY_INSTANCE, OUR_VOLUME, None, False, Step.DELETE_INSTANCE),
    (OP.STOPPING, None, DIRTY, UNHEALTHY_INSTANCE, OUR_VOLUME, None, False, Step.DELETE_INSTANCE),
    (OP.STOPPING, None, DIRTY, None, OUR_VOLUME, None, False, "complete"),
    (OP.ARCHIVING, None, DIRTY, None, OUR_VOLUME, None, False, Step.ARCHIVE),
    (OP.ARCHIVING, KEY, DIRTY, None, OUR_VOLUME, COMMITTED, False, Step.ARCHIVE),
    (OP.ARCHIVING, KEY, CLEAN, None, OUR_VOLUME, None, False, Step.ARCHIVE),
    (OP.ARCHIVING, KEY, CLEAN, None, OUR_VOLUME, COMMITTED, False, Step.DELETE_VOLUME),
    (OP.ARCHIVING, KEY, RESTORED, None, OUR_VOLUME, COMMITTED, False, Step.ARCHIVE),
    (OP.ARCHIVING, KEY, CLEAN, None, None, COMMITTED, False, "complete"),
    (OP.ARCHIVING, KEY, CLEAN, None, FOREIGN_VOLUME, COMMITTED, False, "abandon"),
    (OP.ARCHIVING, None, CLEAN, None, None, None, False, "abandon"),
    (OP.ARCHIVING, None, CLEAN, HEALTHY_INSTANCE, OUR_VOLUME, None, False, "abandon"),
    (OP.ARCHIVING, None, CLEAN, UNHEALTHY_INSTANCE, OUR_VOLUME, None, False, "abandon"),
    (OP.DELETING, KEY, home(None), HEALTHY_INSTANCE, None, COMMITTED, True, Step.DELETE_INSTANCE),
    (OP.DELETING, KEY, home(None), HEALTHY_INSTANCE, HALF_VOLUME, COMMITTED, True, "abandon"),
    (OP.DELETING, KEY, home(None), None, HALF_VOLUME, COMMITTED, True, Step.DELETE_VOLUME),
    (OP.DELETING, KEY, home(None), None, None, COMMITTED, True, "complete"),
    (OP.DELETING, KEY, DIRTY, None, OUR_VOLUME, COMMITTED, True, "abandon"),
    (OP.DELETING, KEY, CLEAN, None, OUR_VOLUME, None, True, "abandon"),
    (OP.DELETING, KEY, CLEAN, None, OUR_VOLUME, COMMITTED, True, Step.DELETE_VOLUME),
]


def follows(planned: Plan) -> str:
    match planned:
        case Act(step=step):
            return step
        case Complete():
            return "complete"
        case Abandon():
            return "abandon"
        case _:
            return repr(planned)


@pytest.mark.parametrize(
    ("operation", "key", "ctx", "instance", "volume", "archive", "left", "expected"), ORDER_OF_STEPS
)
def test_first_unfinished_step_and_completion(
    operation: Operation,
    key: str | None,
    ctx: object,
    instance: Instance | None,
    volume: Volume | None,
    archive: Archive | None,
    left: bool,
    expected: str,
) -> None:
    spec = DELETED if operation is OP.DELETING else None
    row = workspace(P.STANDBY, operation=operation, spec=spec, archive_key=key, home_ctx=ctx)
    assert follows(decide(row, observation(instance, volume, archive, left))) == expected


PURGING = [
    # container, volume, archives left, what follows
    (HEALTHY_INSTANCE, OUR_VOLUME, True, Step.DELETE_INSTANCE),
    (None, OUR_VOLUME, True, Step.DELETE_VOLUME),
    (None, None, True, Step.PURGE_ARCHIVES),
    (None, None, Unobserved.NOT_LOOKED, Step.PURGE_ARCHIVES),
    (None, None, False, "complete"),
]


@pytest.mark.parametrize(("instance", "volume", "left", "expected"), PURGING)
def test_a_purge_deletes_instance_volume_and_archives_in_this_order(
    instance: Instance | None, volume: Volume | None, left: bool | Unobserved, expected: str
) -> None:
    row = workspace(P.STANDBY, operation=OP.DELETING, spec=PURGED, archive_key=KEY, home_ctx=DIRTY)
    assert (
        follows(decide(row, observation(instance, volume, None if left is False else COMMITTED, left)))
        == expected
    )


def test_deleting_that_was_taken_back_is_abandoned() -> None:
    assert (
        follows(
            decide(
                workspace(P.ARCHIVED, operation=OP.DELETING, archive_key=KEY),
                observation(None, None, COMMITTED),
            )
        )
        == "abandon"
    )


def test_a_purge_does_not_wait_for_an_archive_that_nobody_wants_any_more() -> None:
    row = workspace(P.STANDBY, operation=OP.ARCHIVING, spec=PURGED, home_ctx=DIRTY)
    assert follows(decide(row, observation(None, OUR_VOLUME))) == "abandon"


# §5 Start-up

START_UP = [
    # left behind: phase, operation; seen: container, volume, archive; then
    (P.STANDBY, OP.STARTING, HEALTHY_INSTANCE, OUR_VOLUME, None, "complete RUNNING"),
    (P.STANDBY, OP.STARTING, UNHEALTHY_INSTANCE, OUR_VOLUME, None, "drive on"),
    (P.STANDBY, OP.STARTING, None, OUR_VOLUME, None, "drive on"),
    (P.RUNNING, OP.STOPPING, None, OUR_VOLUME, None, "complete STANDBY"),
    (P.RUNNING, OP.STOPPING, HEALTHY_INSTANCE, OUR_VOLUME, None, "drive on"),
    (P.PENDING, OP.PROVISIONING, None, OUR_VOLUME, None, "complete STANDBY"),
    (P.PENDING, OP.PROVISIONING, None, None, None, "drive on"),
    (P.ARCHIVED, OP.RESTORING, None, OUR_VOLUME, COMMITTED, "complete STANDBY"),
    (P.ARCHIVED, OP.RESTORING, None, HALF_VOLUME, COMMITTED, "drive on"),
    (P.STANDBY, OP.ARCHIVING, None, None, COMMITTED, "complete ARCHIVED"),
    (P.STANDBY, OP.ARCHIVING, None, OUR_VOLUME, COMMITTED, "drive on"),
    (P.PENDING, OP.CREATE_EMPTY_ARCHIVE, None, None, COMMITTED, "complete ARCHIVED"),
    (P.PENDING, OP.CREATE_EMPTY_ARCHIVE, None, None, None, "drive on"),
    (P.ARCHIVED, OP.DELETING, None, None, COMMITTED, "complete ARCHIVED"),
    (P.ARCHIVED, OP.DELETING, None, HALF_VOLUME, COMMITTED, "drive on"),
    (P.RUNNING, OP.NONE, HEALTHY_INSTANCE, OUR_VOLUME, None, "rest RUNNING"),
    (P.RUNNING, OP.NONE, UNHEALTHY_INSTANCE, OUR_VOLUME, None, "start STANDBY"),
    (P.RUNNING, OP.NONE, None, OUR_VOLUME, None, "start STANDBY"),
]


@pytest.mark.parametrize(("phase", "operation", "instance", "volume", "archive", "expected"), START_UP)
def test_start_up_settles_what_the_last_process_left(
    phase: Phase,
    operation: Operation,
    instance: Instance | None,
    volume: Volume | None,
    archive: Archive | None,
    expected: str,
) -> None:
    is_running = instance is not None or operation in (OP.STARTING, OP.STOPPING)
    row = workspace(
        phase,
        operation=operation,
        spec=DELETED if operation is OP.DELETING else None,
        archive_key=KEY if archive else None,
        home_ctx=home("v1", marker=KEY if archive else None, dirty=is_running),
    )
    look = observation(instance, volume, archive)
    verdict = judge(row, look, NOW, starting_up=True)
    match plan(row.spec, verdict, look, NOW, is_mine=False):
        case Complete():
            assert f"complete {verdict.status.phase}" == expected
        case Begin(operation=OP.STARTING):
            assert f"start {verdict.status.phase}" == expected
            assert verdict.status.restarts == ()
        case Rest():
            assert f"rest {verdict.status.phase}" == expected
        case planned:
            # Driving on begins with taking the operation over; then its first unfinished step is done.
            assert type(planned).__name__ == "TakeOver"
            assert isinstance(decide(row, look), Act)
            assert expected == "drive on"


TIME_LIMITS = [
    (OP.PROVISIONING, 60),
    (OP.CREATE_EMPTY_ARCHIVE, 60),
    (OP.STARTING, 300),
    (OP.STOPPING, 60),
    (OP.RESTORING, 1800),
    (OP.ARCHIVING, 1800),
    (OP.DELETING, 300),
]


@pytest.mark.parametrize(("operation", "seconds"), TIME_LIMITS)
def test_every_operation_has_this_time_limit(operation: Operation, seconds: int) -> None:
    assert DEFAULT_RULES.time_limits[operation] == timedelta(seconds=seconds)


ARCHIVE_LOOKS = [
    (workspace(P.STANDBY, operation=OP.ARCHIVING), True),
    (workspace(P.ARCHIVED, operation=OP.RESTORING), True),
    (workspace(P.PENDING, operation=OP.CREATE_EMPTY_ARCHIVE), True),
    (workspace(P.STANDBY, operation=OP.STARTING), False),
    (workspace(P.ARCHIVED), False),
    (workspace(P.ARCHIVED, conditions=conditions(ABSENT, UNKNOWN)), True),
    (workspace(P.ERROR, error_info=error()), False),
    (workspace(P.ERROR, error_info=error(), spec={"recover_at": ago(1)}), True),
    (workspace(P.DELETED, spec=DELETED), False),
    (workspace(P.DELETED), True),
]


@pytest.mark.parametrize(("row", "expected"), ARCHIVE_LOOKS)
def test_the_archive_is_looked_at_only_where_it_matters(row: Workspace, expected: bool) -> None:
    assert needs_archive_look(row) is expected
