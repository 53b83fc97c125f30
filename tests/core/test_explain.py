"""Explaining: what comes next, what is waited for, and what a person can do."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.workspaces import (
    KEY,
    NOW,
    OUR_VOLUME,
    OWNER_ID,
    READY,
    UNKNOWN,
    WORKSPACE_ID,
    ago,
    conditions,
    error,
    home,
    observation,
    workspace,
)

from codehub.core.errors import NEWEST_ARCHIVE, ErrorReason, Remedy
from codehub.core.explain import Action, Ask, Waiting, WaitsFor, explain
from codehub.core.idle import sleeps_at
from codehub.core.judge import judge
from codehub.core.messages import Code, Message, verbatim
from codehub.core.observation import Instance, Unmarked
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.requests import Accepted, Refusal, Refused, Unchanged, rule_change
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace, home_key, is_deleted

RUNNING = conditions(volume=READY, container=READY)
DELETED = {"deleted_at": ago(10), "purge_at": NOW + timedelta(days=1)}


IN_A_DIRECTORY = f"users/{OWNER_ID}/workspaces/{WORKSPACE_ID}/home"
IN_A_VOLUME = f"ws-{WORKSPACE_ID}-home"


def labels(row: Workspace) -> list[str]:
    return [action.label for action in explain(row, NOW).actions]


def test_what_rests_waits_for_nothing() -> None:
    row = workspace(Phase.RUNNING, DesiredState.RUNNING, conditions=RUNNING, home_ctx=home())
    explanation = explain(row, NOW)
    assert (explanation.operation, explanation.waiting_for, explanation.since) == (
        Operation.NONE,
        None,
        ago(100),
    )
    assert labels(row) == ["Stop", "Archive", "KeepAwake", "Delete", "Purge"]


def test_a_missing_mark_is_named_with_what_makes_it_again() -> None:
    row = workspace(Phase.STANDBY, DesiredState.STANDBY, conditions=conditions(volume=READY), home_ctx=home())
    mark = Message(Code.MARK_OF_ENGINE, {"name": "codehub-x"})
    blind = judge(row, observation(volume=Unmarked(mark)), NOW)
    explanation = explain(replace(row, status=blind.status), NOW)
    assert (explanation.why, blind.status.phase) == (Why.CANNOT_LOOK, Phase.STANDBY)
    missing = Message(Code.MARK_MISSING, {"mark": mark})
    assert explanation.waiting_for == Waiting(WaitsFor.MARK, {"message": missing})


def test_a_host_that_fell_silent_is_named_and_nothing_takes_the_place_of_what_may_run_there() -> None:
    row = workspace(Phase.RUNNING, DesiredState.RUNNING, conditions=RUNNING, home_ctx=home())
    lost = Message(Code.NODE_LOST, {"node": "node-1"})
    instance = Instance(running=False, healthy=False, is_out_of_sight=True, why=lost)
    blind = judge(row, observation(instance, OUR_VOLUME), NOW)
    explanation = explain(replace(row, status=blind.status), NOW)
    assert (explanation.why, blind.status.phase) == (Why.CANNOT_LOOK, Phase.RUNNING)
    assert explanation.waiting_for == Waiting(WaitsFor.HOST, {"message": lost})


def test_what_keeps_an_instance_from_running_is_told_with_its_condition() -> None:
    row = workspace(Phase.STANDBY, DesiredState.RUNNING, conditions=conditions(volume=READY), home_ctx=home())
    why = Message(Code.UNSCHEDULABLE, {"nodes": "1", "lacks": [], "message": "no room"})
    seen = judge(row, observation(Instance(running=False, healthy=False, why=why), OUR_VOLUME), NOW)
    assert seen.status.conditions.container_ready.message == why
    assert seen.status.conditions.container_ready.is_present


def test_only_what_runs_can_be_stopped() -> None:
    row = workspace(
        Phase.ARCHIVED, DesiredState.ARCHIVED, conditions=conditions(archive=READY), archive_key=KEY
    )
    assert labels(row) == ["Start", "Delete", "Purge"]


def test_a_wish_waits_for_the_controller() -> None:
    explanation = explain(workspace(Phase.PENDING, DesiredState.RUNNING), NOW)
    assert (explanation.operation, explanation.waiting_for) == (
        Operation.PROVISIONING,
        Waiting(WaitsFor.NEXT_PASS),
    )


def test_an_operation_waits_to_be_seen_and_only_looking_is_left_to_do() -> None:
    row = workspace(Phase.STANDBY, operation=Operation.STARTING, conditions=conditions(volume=READY))
    explanation = explain(row, NOW)
    assert explanation.operation is Operation.STARTING
    assert explanation.waiting_for == Waiting(WaitsFor.END_SEEN, {"operation": "STARTING"})
    assert labels(row) == []


def test_a_pause_after_a_failure_says_how_long_and_what_was_said() -> None:
    row = workspace(
        Phase.STANDBY,
        operation=Operation.STARTING,
        conditions=conditions(volume=READY),
        retry_at=NOW + timedelta(seconds=7),
        error_info=error(ErrorReason.ACTION_FAILED),
    )
    facts = {"seconds": "7", "message": verbatim("as the test says")}
    assert explain(row, NOW).waiting_for == Waiting(WaitsFor.NEXT_TRY, facts)


def test_an_error_is_forgotten_when_its_image_was_changed_since() -> None:
    failed = replace(
        error(ErrorReason.IMAGE_PULL_FAILED), context={"image_ref": "wrong", "ide": "code-server"}
    )
    explanation = explain(workspace(Phase.ERROR, error_info=failed), NOW)
    assert explanation.error is None
    assert explanation.waiting_for == Waiting(WaitsFor.RECOVERY)
    same = replace(failed, context={"image_ref": "codercom/code-server", "ide": "code-server"})
    assert explain(workspace(Phase.ERROR, error_info=same), NOW).error == same


def test_a_next_try_with_another_ide_does_not_tell_what_the_last_one_said() -> None:
    failed = replace(error(ErrorReason.ACTION_FAILED), context={"ide": "jupyterlab"})
    row = workspace(
        Phase.STANDBY,
        operation=Operation.STARTING,
        conditions=conditions(volume=READY),
        retry_at=NOW + timedelta(seconds=7),
        error_info=failed,
    )
    assert explain(row, NOW).waiting_for == Waiting(WaitsFor.CHANGED_TRY, {"seconds": "7"})


def test_an_outage_is_named() -> None:
    row = workspace(Phase.RUNNING, conditions=conditions(volume=READY, container=UNKNOWN))
    explanation = explain(row, NOW)
    assert explanation.waiting_for == Waiting(WaitsFor.LOOK, {"conditions": ["infra.container_ready"]})


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (ErrorReason.TIMEOUT, ["Recover", "Delete", "Purge"]),
        (ErrorReason.DATA_LOST, ["Recover", "AcceptLoss", "Delete", "Purge"]),
    ],
)
def test_an_error_waits_for_a_person_and_says_what_to_do(reason: ErrorReason, expected: list[str]) -> None:
    row = workspace(Phase.ERROR, error_info=error(reason))
    assert explain(row, NOW).waiting_for == Waiting(WaitsFor.REMEDY, {"remedy": reason})
    assert labels(row) == expected


def test_a_deletion_whose_error_is_gone_waits_for_a_person_too() -> None:
    row = workspace(Phase.ERROR, DesiredState.PENDING, spec=DELETED)
    assert explain(row, NOW).waiting_for == Waiting(WaitsFor.PERSON)


def test_what_is_in_the_trash_can_be_taken_back_or_purged() -> None:
    row = workspace(Phase.DELETED, DesiredState.PENDING, spec=DELETED)
    assert labels(row) == ["Undelete", "Purge"]


def test_what_is_kept_in_the_trash_waits_for_a_person_to_purge_it() -> None:
    row = workspace(Phase.DELETED, DesiredState.PENDING, spec={"deleted_at": ago(10)}, archive_key=KEY)
    explanation = explain(row, NOW + timedelta(days=10_000))
    assert (explanation.why, explanation.waiting_for) == (Why.KEPT_IN_TRASH, Waiting(WaitsFor.PERSON))
    assert labels(row) == ["Undelete", "Purge"]


# Changing what people may set


def test_a_change_counts_a_revision_and_the_same_values_none() -> None:
    row = workspace(Phase.STANDBY, DesiredState.STANDBY)
    changed = rule_change(row, {"memo": "new"}, now=NOW)
    assert isinstance(changed, Accepted)
    assert (changed.spec.memo, changed.spec.revision) == ("new", 2)
    assert isinstance(rule_change(row, {"name": row.spec.name}, DesiredState.STANDBY, now=NOW), Unchanged)


def test_values_change_during_an_operation_but_a_wish_does_not() -> None:
    row = workspace(Phase.STANDBY, operation=Operation.STARTING)
    assert isinstance(rule_change(row, {"memo": "new"}, now=NOW), Accepted)
    refused = rule_change(row, {"memo": "new"}, DesiredState.STANDBY, now=NOW)
    assert isinstance(refused, Refused)
    assert refused.code is Refusal.OPERATION_IN_PROGRESS


def test_a_wish_and_values_change_together() -> None:
    changed = rule_change(
        workspace(Phase.STANDBY, DesiredState.STANDBY), {"memo": "x"}, DesiredState.RUNNING, now=NOW
    )
    assert isinstance(changed, Accepted)
    assert (changed.spec.desired_state, changed.spec.memo, changed.spec.revision) == (
        DesiredState.RUNNING,
        "x",
        2,
    )


def test_a_new_time_to_sleep_counts_from_now_and_shortens_no_promise_to_stay_awake() -> None:
    used = {"standby_ttl_seconds": 300, "last_access_at": ago(25)}
    row = workspace(Phase.RUNNING, DesiredState.RUNNING, spec=used)
    shortened = rule_change(row, {"standby_ttl_seconds": 10}, now=NOW)
    assert isinstance(shortened, Accepted)
    assert sleeps_at(replace(row, spec=shortened.spec)) == NOW + timedelta(seconds=10)
    until = NOW + timedelta(hours=1)
    row = workspace(Phase.RUNNING, DesiredState.RUNNING, spec={**used, "awake_until": until})
    kept = rule_change(row, {"standby_ttl_seconds": 10}, now=NOW)
    assert isinstance(kept, Accepted)
    assert kept.spec.awake_until == until


@pytest.mark.parametrize(
    ("revisions", "is_refused"), [(None, False), ({1}, False), ({1, 2}, False), ({2}, True), (set(), True)]
)
def test_what_somebody_else_changed_is_not_changed_unseen(
    revisions: set[int] | None, is_refused: bool
) -> None:
    ruling = rule_change(workspace(Phase.STANDBY), {"memo": "x"}, now=NOW, revisions=revisions)
    assert isinstance(ruling, Refused) is is_refused


@pytest.mark.parametrize(
    ("phase", "code"),
    [(Phase.STANDBY, Refusal.INVALID_STATE), (Phase.DELETED, Refusal.WORKSPACE_NOT_FOUND)],
)
def test_what_is_deleted_is_not_changed(phase: Phase, code: Refusal) -> None:
    ruling = rule_change(workspace(phase, DesiredState.PENDING, spec=DELETED), {"memo": "x"}, now=NOW)
    assert isinstance(ruling, Refused)
    assert ruling.code is code


@pytest.mark.parametrize(
    ("instance", "storage", "key"),
    [
        (InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, IN_A_DIRECTORY),
        (InstanceBackend.LOCAL_PROCESS, StorageBackend.OBJECT_STORE, IN_A_DIRECTORY),
        (InstanceBackend.LOCAL_DOCKER, StorageBackend.LOCAL_DIR, IN_A_DIRECTORY),
        (InstanceBackend.LOCAL_DOCKER, StorageBackend.DOCKER_VOLUME, IN_A_VOLUME),
        (InstanceBackend.LOCAL_DOCKER, StorageBackend.OBJECT_STORE, IN_A_VOLUME),
        (InstanceBackend.K8S, StorageBackend.K8S_PVC, IN_A_VOLUME),
        (InstanceBackend.K8S, StorageBackend.OBJECT_STORE, IN_A_VOLUME),
    ],
)
def test_a_home_s_key_follows_what_holds_it(
    instance: InstanceBackend, storage: StorageBackend, key: str
) -> None:
    assert home_key(instance, storage, OWNER_ID, WORKSPACE_ID) == key


def test_what_was_undeleted_is_there_at_once() -> None:
    assert is_deleted(workspace(Phase.DELETED, DesiredState.PENDING, spec=DELETED))
    assert not is_deleted(workspace(Phase.DELETED, DesiredState.PENDING))
    assert not is_deleted(workspace(Phase.STANDBY, DesiredState.PENDING, spec=DELETED))


def test_a_newer_archive_than_the_row_s_is_offered_and_not_of_what_is_being_deleted() -> None:
    error_info = replace(error(ErrorReason.DATA_LOST), context={NEWEST_ARCHIVE: KEY})
    row = workspace(Phase.ERROR, error_info=error_info)
    explained = explain(row, NOW)
    assert Action(Ask.TAKE_NEWEST) in explained.actions
    assert explained.waiting_for == Waiting(WaitsFor.REMEDY, {"remedy": Remedy.NEWER_ARCHIVE})
    over = {"deleted_at": ago(100), "purge_at": ago(60)}
    kept = explain(workspace(Phase.ERROR, DesiredState.PENDING, error_info=error_info, spec=over), NOW)
    offered = {action.label for action in kept.actions}
    assert Ask.TAKE_NEWEST not in offered
    assert {Ask.UNDELETE, Ask.PURGE} <= offered
    assert kept.waiting_for == Waiting(WaitsFor.REMEDY, {"remedy": Remedy.KEPT_ARCHIVE})
