"""The history: what requests and passes changed, and why."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.workspaces import (
    NEW_OP_ID,
    NOW,
    accepted,
    error,
    workspace,
)

from codehub.core.conditions import HEALTHY, Condition, Conditions
from codehub.core.errors import ErrorReason
from codehub.core.history import Event, EventKind, events_of_pass, events_of_request, is_to_be_carried_out
from codehub.core.messages import Message, verbatim
from codehub.core.observation import (
    ARCHIVE_READY,
    INSTANCE_READY,
    INSTANCE_STOPPED,
    VOLUME_ABSENT,
    VOLUME_READY,
)
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.plan import Why
from codehub.core.requests import (
    rule_change,
    rule_deletion,
    rule_keep_awake,
    rule_recovery,
    rule_wish,
)
from codehub.core.workspace import RecoverChoice


def kinds(events: Any) -> list[tuple[EventKind, str | None, str | None]]:
    return [(event.kind, event.before, event.after) for event in events]


def test_the_history_tells_what_was_asked_for() -> None:
    row = workspace(Phase.RUNNING)
    spec = accepted(rule_deletion(row, NOW, trash_s=700))
    assert list(
        events_of_request(row.spec, spec, actor="ann", reason=verbatim("delete"), request_id="r1")
    ) == [
        Event(EventKind.DELETION, None, "trash", "ann", verbatim("delete"), "r1"),
        Event(EventKind.WISH, "RUNNING", "PENDING", "ann", verbatim("delete"), "r1"),
    ]
    purged = accepted(rule_deletion(row, NOW, trash_s=700, purge=True))
    kept = accepted(rule_deletion(row, NOW, trash_s=None))
    for before in (spec, kept):
        assert kinds(events_of_request(before, purged, actor="ann", reason=verbatim(""))) == [
            (EventKind.DELETION, "trash", "purge")
        ]
    lost = workspace(Phase.ERROR, error_info=error())
    for accept, choice, word in (
        (False, None, "recover"),
        (True, None, "accept_loss"),
        (False, RecoverChoice.NEWEST, "take_newest"),
        (False, RecoverChoice.ADOPT, "adopt"),
    ):
        recovered = accepted(rule_recovery(lost, NOW, accept_loss=accept, choice=choice))
        assert kinds(events_of_request(lost.spec, recovered, actor="ann", reason=verbatim(""))) == [
            (EventKind.RECOVERY, None, word)
        ]


def test_a_wish_a_deletion_and_a_recovery_are_carried_out_and_nothing_else() -> None:
    row, lost = workspace(Phase.RUNNING), workspace(Phase.ERROR, error_info=error())
    for before, after in (
        (row.spec, accepted(rule_wish(row, DesiredState.STANDBY, NOW))),
        (row.spec, accepted(rule_deletion(row, NOW, trash_s=700))),
        (lost.spec, accepted(rule_recovery(lost, NOW))),
    ):
        assert is_to_be_carried_out(before, after)
    for after in (
        accepted(rule_keep_awake(row, NOW, seconds=60)),
        accepted(rule_change(row, {"memo": "x", "image_ref": "y"}, now=NOW)),
    ):
        assert not is_to_be_carried_out(row.spec, after)


def test_the_history_tells_what_a_pass_changed() -> None:
    before = workspace(Phase.STANDBY).status
    begun = replace(before, operation=Operation.STARTING, op_id=NEW_OP_ID)
    assert kinds(events_of_pass(before, begun, actor="c1", reason=verbatim(""))) == [
        (EventKind.OPERATION, "NONE", "STARTING")
    ]
    taken = replace(begun, op_id=None)
    assert kinds(events_of_pass(begun, taken, actor="c1", reason=verbatim(""))) == [
        (EventKind.OPERATION, "STARTING", "STARTING")
    ]
    failed = replace(before, phase=Phase.ERROR, error_info=error(ErrorReason.TIMEOUT))
    assert list(events_of_pass(before, failed, actor="c1", reason=verbatim("time is up"))) == [
        Event(EventKind.ERROR, None, "Timeout", "c1", verbatim("as the test says")),
        Event(EventKind.PHASE, "STANDBY", "ERROR", "c1", verbatim("time is up")),
    ]
    assert kinds(events_of_pass(failed, before, actor="c1", reason=verbatim(""))) == [
        (EventKind.ERROR, "Timeout", None),
        (EventKind.PHASE, "ERROR", "STANDBY"),
    ]
    assert list(events_of_pass(before, before, actor="c1", reason=verbatim(""))) == []


@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        (Phase.STANDBY, Phase.RUNNING, INSTANCE_READY),
        (Phase.RUNNING, Phase.STANDBY, INSTANCE_STOPPED),
        (Phase.PENDING, Phase.STANDBY, VOLUME_READY),
        (Phase.STANDBY, Phase.ARCHIVED, ARCHIVE_READY),
        (Phase.ARCHIVED, Phase.PENDING, VOLUME_ABSENT),
    ],
)
def test_a_phase_changes_because_of_what_was_seen(before: Phase, after: Phase, because: Condition) -> None:
    observation = Conditions(
        volume_ready=VOLUME_ABSENT if after is Phase.PENDING else VOLUME_READY,
        archive_ready=ARCHIVE_READY,
        container_ready=INSTANCE_READY if after is Phase.RUNNING else INSTANCE_STOPPED,
        healthy=HEALTHY,
    )
    (event,) = events_of_pass(
        workspace(before).status,
        workspace(after, conditions=observation).status,
        actor="c1",
        reason=verbatim("what comes next"),
    )
    assert event.reason == because.message


def test_a_deletion_is_done_because_its_end_was_seen() -> None:
    (event,) = events_of_pass(
        workspace(Phase.ARCHIVED).status,
        workspace(Phase.DELETED).status,
        actor="c1",
        reason=Message(Why.SEEN),
    )
    assert event.reason == Message(Why.SEEN)
