"""Spec §2.1 and §2.2: what was seen, and the phase that it means."""

from dataclasses import replace

import pytest
from tests.support.workspaces import (
    ABSENT,
    COMMITTED,
    FOREIGN_VOLUME,
    HALF_ARCHIVE,
    HALF_VOLUME,
    HEALTHY_INSTANCE,
    KEY,
    NOT_READY,
    NOW,
    OUR_VOLUME,
    READY,
    UNHEALTHY_INSTANCE,
    UNKNOWN,
    UNREACHABLE,
    ago,
    conditions,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.conditions import Condition, Truth
from codehub.core.errors import ErrorReason
from codehub.core.judge import judge
from codehub.core.messages import Code, Message
from codehub.core.observation import Archive, Instance, Observation, Unmarked, Unobserved, Volume
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import HealthStatus, ObservedStatus, health_status, observed_status

P, D, OP = Phase, DesiredState, Operation
DELETED = {"deleted_at": ago(10), "purge_at": ago(-1000)}
PURGED = {"deleted_at": ago(10), "purge_at": ago(10)}


# §2.1 Conditions

VOLUME_READY = [
    (OUR_VOLUME, "True", "Ready"),
    (FOREIGN_VOLUME, "False", "NotReady"),
    (HALF_VOLUME, "False", "NotReady"),
    (None, "False", "Absent"),
    (UNREACHABLE, "Unknown", "Unreachable"),
    (Unmarked(Message(Code.MARK_OF_ENGINE, {"name": "codehub-x"})), "Unknown", "MarkMissing"),
]


@pytest.mark.parametrize(("look", "status", "reason"), VOLUME_READY)
def test_the_condition_of_the_volume_follows_what_was_seen(
    look: Volume | Unobserved | Unmarked | None, status: str, reason: str
) -> None:
    condition = judge(
        workspace(home_ctx=home("v1")), observation(volume=look), NOW
    ).status.conditions.volume_ready
    assert (condition.status, condition.reason) == (status, reason)


ARCHIVE_READY = [
    (KEY, COMMITTED, "True", "Ready"),
    (KEY, HALF_ARCHIVE, "False", "NotReady"),
    (KEY, None, "False", "Absent"),
    (KEY, UNREACHABLE, "Unknown", "Unreachable"),
    (None, UNREACHABLE, "False", "Absent"),
]


@pytest.mark.parametrize(("key", "look", "status", "reason"), ARCHIVE_READY)
def test_the_condition_of_the_archive_follows_what_was_seen(
    key: str | None, look: Archive | Unobserved | None, status: str, reason: str
) -> None:
    condition = judge(
        workspace(archive_key=key), observation(archive=look), NOW
    ).status.conditions.archive_ready
    assert (condition.status, condition.reason) == (status, reason)


CONTAINER_READY = [
    # before, look, status, reason
    (ABSENT, None, "False", "Absent"),
    (ABSENT, Instance(running=True, healthy=True), "True", "Ready"),
    (ABSENT, Instance(running=True, healthy=False), "False", "NotReady"),
    (ABSENT, Instance(running=False, healthy=False), "False", "NotReady"),
    (ABSENT, UNREACHABLE, "Unknown", "Unreachable"),
    (READY, Instance(running=True, healthy=False, failed_checks=1), "True", "Ready"),
    (READY, Instance(running=True, healthy=False, failed_checks=2), "True", "Ready"),
    (READY, Instance(running=True, healthy=False, failed_checks=3), "False", "NotReady"),
    (NOT_READY, Instance(running=True, healthy=False, failed_checks=1), "False", "NotReady"),
    (READY, Instance(running=False, healthy=False, failed_checks=0), "False", "NotReady"),
]


@pytest.mark.parametrize(("before", "look", "status", "reason"), CONTAINER_READY)
def test_the_condition_of_the_container_follows_what_was_seen(
    before: Condition, look: Instance | Unobserved | None, status: str, reason: str
) -> None:
    row = workspace(home_ctx=home("v1"), conditions=replace(conditions(), container_ready=before))
    condition = judge(row, observation(look, OUR_VOLUME), NOW).status.conditions.container_ready
    assert (condition.status, condition.reason) == (status, reason)


def test_a_condition_that_is_not_looked_at_stays_as_it_was() -> None:
    row = workspace(
        P.RUNNING,
        archive_key=KEY,
        home_ctx=home("v1", dirty=True),
        conditions=conditions(READY, READY, READY),
    )
    look = Observation(Unobserved.NOT_LOOKED, Unobserved.NOT_LOOKED, Unobserved.NOT_LOOKED)
    assert judge(row, look, NOW).status.conditions == replace(
        row.status.conditions, healthy=judge(row, look, NOW).status.conditions.healthy
    )


def test_the_transition_time_moves_only_when_the_status_does() -> None:
    row = workspace(P.STANDBY, home_ctx=home("v1"), conditions=conditions(READY))
    observed = judge(row, observation(None, OUR_VOLUME), NOW).status.conditions
    assert observed.volume_ready.last_transition_time == ago(100)
    gone = judge(row, observation(None, None), NOW).status.conditions
    assert gone.volume_ready.last_transition_time == NOW


HEALTHY = [
    # error, recover_at, deleted_at, healthy
    (None, None, None, "True"),
    (error(ErrorReason.TIMEOUT, at=ago(50)), None, None, "False"),
    (error(ErrorReason.TIMEOUT, at=ago(50)), ago(60), None, "False"),
    (error(ErrorReason.TIMEOUT, at=ago(50)), ago(40), None, "True"),
    (error(ErrorReason.TIMEOUT, at=ago(50)), None, ago(60), "False"),
    (error(ErrorReason.TIMEOUT, at=ago(50)), None, ago(40), "True"),
    (error(ErrorReason.ACTION_FAILED, at=ago(50)), None, None, "True"),
    (error(ErrorReason.UNREACHABLE, at=ago(50)), None, None, "True"),
]


@pytest.mark.parametrize(("error_info", "recover_at", "deleted_at", "expected"), HEALTHY)
def test_the_policy_is_healthy_unless_an_error_is_in_force(
    error_info: object, recover_at: object, deleted_at: object, expected: str
) -> None:
    purge_at = deleted_at and ago(-1000)
    row = workspace(
        P.STANDBY,
        spec={"recover_at": recover_at, "deleted_at": deleted_at, "purge_at": purge_at},
        error_info=error_info,
        home_ctx=home("v1"),
    )
    assert judge(row, observation(None, OUR_VOLUME), NOW).status.conditions.healthy.status == expected


# §2.2 Phase

PHASES = [
    # container, volume, archive key, archive, phase, observed_status
    (HEALTHY_INSTANCE, OUR_VOLUME, None, None, P.RUNNING, ObservedStatus.RUNNING),
    (HEALTHY_INSTANCE, OUR_VOLUME, KEY, COMMITTED, P.RUNNING, ObservedStatus.RUNNING),
    (UNHEALTHY_INSTANCE, OUR_VOLUME, None, None, P.STANDBY, ObservedStatus.STANDBY),
    (None, OUR_VOLUME, None, None, P.STANDBY, ObservedStatus.STANDBY),
    (None, OUR_VOLUME, KEY, None, P.STANDBY, ObservedStatus.STANDBY),
    (None, None, KEY, COMMITTED, P.ARCHIVED, ObservedStatus.PENDING),
    (None, HALF_VOLUME, KEY, COMMITTED, P.ARCHIVED, ObservedStatus.PENDING),
    (None, None, None, None, P.PENDING, ObservedStatus.PENDING),
    (None, HALF_VOLUME, None, None, P.PENDING, ObservedStatus.PENDING),
    (None, None, KEY, None, P.ERROR, ObservedStatus.PENDING),
    (HEALTHY_INSTANCE, None, None, None, P.ERROR, ObservedStatus.PENDING),
]


@pytest.mark.parametrize(("instance", "volume", "key", "archive", "phase", "projection"), PHASES)
def test_the_phase_follows_from_what_is_there(
    instance: Instance | None,
    volume: Volume | None,
    key: str | None,
    archive: Archive | None,
    phase: Phase,
    projection: ObservedStatus,
) -> None:
    row = workspace(archive_key=key, home_ctx=home("v1"))
    status = judge(row, observation(instance, volume, archive), NOW).status
    assert status.phase is phase
    assert observed_status(status) is projection
    assert health_status(status) is (HealthStatus.ERROR if phase is P.ERROR else HealthStatus.OK)


@pytest.mark.parametrize(
    ("container", "volume", "expected"),
    [
        (READY, READY, ObservedStatus.RUNNING),
        (NOT_READY, READY, ObservedStatus.STANDBY),
        (READY, ABSENT, ObservedStatus.PENDING),
        (UNKNOWN, UNKNOWN, ObservedStatus.PENDING),
    ],
)
def test_in_error_the_observed_status_tells_the_resources(
    container: Condition, volume: Condition, expected: ObservedStatus
) -> None:
    row = workspace(P.ERROR, conditions=replace(conditions(), container_ready=container, volume_ready=volume))
    assert observed_status(row.status) is expected


UNKNOWN_DECIDES = [
    # container, volume, archive, the phase stays
    (UNREACHABLE, OUR_VOLUME, COMMITTED, True),
    (HEALTHY_INSTANCE, UNREACHABLE, COMMITTED, True),
    (None, UNREACHABLE, COMMITTED, True),
    (None, None, UNREACHABLE, True),
    (HEALTHY_INSTANCE, OUR_VOLUME, UNREACHABLE, False),
    (None, OUR_VOLUME, UNREACHABLE, False),
]


@pytest.mark.parametrize(("instance", "volume", "archive", "stays"), UNKNOWN_DECIDES)
def test_the_phase_stays_while_a_condition_that_decides_is_unknown(
    instance: Instance | Unobserved | None,
    volume: Volume | Unobserved | None,
    archive: Archive | Unobserved,
    stays: bool,
) -> None:
    row = workspace(P.PENDING, archive_key=KEY, home_ctx=home("v1"))
    verdict = judge(row, observation(instance, volume, archive), NOW)
    assert bool(verdict.unknown) is stays
    assert (verdict.status.phase is P.PENDING) is stays


DELETED_PHASE = [
    # stored phase, deletion asked for, container, volume, phase
    (P.DELETED, True, None, None, P.DELETED),
    (P.DELETED, True, None, HALF_VOLUME, P.PENDING),
    (P.DELETED, True, HEALTHY_INSTANCE, None, P.PENDING),
    (P.DELETED, False, None, None, P.PENDING),
    (P.PENDING, True, None, None, P.PENDING),
]


@pytest.mark.parametrize(("stored", "asked", "instance", "volume", "phase"), DELETED_PHASE)
def test_deleted_stays_deleted_only_while_nothing_is_there(
    stored: Phase, asked: bool, instance: Instance | None, volume: Volume | None, phase: Phase
) -> None:
    row = workspace(stored, spec=DELETED if asked else None)
    assert judge(row, observation(instance, volume), NOW).status.phase is phase


def test_truth_has_the_three_words_of_the_specification() -> None:
    assert [truth.value for truth in Truth] == ["True", "False", "Unknown"]
