"""Why a Pod does not run, from what clusters really say: a code with facts, held up or failed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.contracts.test_kubernetes_pods import WORKSPACE
from tests.support.engine import ManualClock

from codehub.adapters.kubernetes.pods import ContainerEnd, Pod, PodCondition
from codehub.adapters.kubernetes.sightings import Sightings
from codehub.adapters.kubernetes.why import (
    why_ended,
    why_not_running,
    why_out_of_sight,
    why_unmade,
)
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message, verbatim

NOW = datetime(2026, 11, 18, 20, tzinfo=UTC)
NO_HOST = (
    "failed to do request: Head https://nowhere.invalid/v2/x: dial tcp: lookup nowhere.invalid: no such host"
)
NOT_THERE = (
    "failed to pull and unpack image: failed to resolve reference: docker.io/library/x:none: not found"
)


def pod(**fields: Any) -> Pod:
    base: dict[str, Any] = {
        "uid": "uid",
        "name": f"codehub-ws-{WORKSPACE}",
        "role": "instance",
        "job_uid": None,
        "workspace_id": WORKSPACE,
        "annotations": {},
        "phase": "Pending",
        "image": "image",
    }
    return Pod(**(base | fields))


def unscheduled(message: str) -> Pod:
    return pod(conditions=(("PodScheduled", PodCondition("False", "Unschedulable", message)),))


def event(reason: str, message: str, at: str = "2026-11-18T20:00:00Z") -> dict[str, str]:
    return {"reason": reason, "message": message, "lastTimestamp": at}


@pytest.mark.parametrize(
    ("message", "nodes", "lacks"),
    [
        (
            (
                "0/3 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint {a: b}. "
                "preemption: 0/3 nodes are available."
            ),
            "3",
            [
                Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": "memory"}),
                Message(Code.NODES_REFUSE, {"nodes": "2", "why": "node(s) had untolerated taint {a: b}"}),
            ],
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu.",
            "1",
            [
                Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": "cpu"}),
                Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": "nvidia.com/gpu"}),
            ],
        ),
        (
            '0/2 nodes are available: persistentvolumeclaim "x" is being deleted. preemption: no',
            "2",
            [verbatim('persistentvolumeclaim "x" is being deleted')],
        ),
        ("no nodes available to schedule pods", "?", []),
    ],
)
def test_what_no_node_has_is_told_and_waited_for(message: str, nodes: str, lacks: list[Message]) -> None:
    trouble = why_not_running(unscheduled(message))
    assert trouble is not None
    assert trouble.waits
    assert trouble.message == Message(
        Code.UNSCHEDULABLE, {"nodes": nodes, "lacks": lacks, "message": message}
    )


@pytest.mark.parametrize(
    ("reason", "message", "code", "waits"),
    [
        ("ErrImagePull", NO_HOST, Code.IMAGE_NOT_PULLED, True),
        (
            "ImagePullBackOff",
            f'Back-off pulling image "x": ErrImagePull: {NO_HOST}',
            Code.IMAGE_NOT_PULLED,
            True,
        ),
        ("ImagePullBackOff", 'Back-off pulling image "x"', Code.IMAGE_NOT_PULLED, True),
        ("ErrImagePull", NOT_THERE, Code.IMAGE_REFUSED, False),
        ("ErrImageNeverPull", 'Container image "x" is not present', Code.IMAGE_REFUSED, False),
        ("InvalidImageName", "", Code.IMAGE_REFUSED, False),
        ("CreateContainerError", "no such mount", Code.CONTAINER_NOT_MADE, False),
    ],
)
def test_an_image_that_may_come_is_waited_for_and_any_other_fails(
    reason: str, message: str, code: Code, waits: bool
) -> None:
    trouble = why_not_running(pod(waiting=(reason, message)))
    assert trouble is not None
    assert (trouble.message.code, trouble.waits) == (code, waits)
    assert trouble.message.facts["message"] == (message or reason)
    is_image = code == Code.IMAGE_REFUSED
    assert trouble.reason is (ErrorReason.IMAGE_PULL_FAILED if is_image else ErrorReason.ACTION_FAILED)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("FailedMount", Code.VOLUME_NOT_MOUNTED),
        ("FailedAttachVolume", Code.VOLUME_NOT_ATTACHED),
        ("FailedCreatePodSandBox", Code.SANDBOX_FAILED),
    ],
)
def test_what_happened_last_tells_why_nothing_is_made_yet(reason: str, code: Code) -> None:
    events = [
        event(reason, "now", "2026-11-18T20:00:09Z"),
        event("FailedMount", "before"),
        event("Scheduled", "to a node", "2026-11-18T20:00:10Z"),
    ]
    trouble = why_not_running(pod(waiting=("ContainerCreating", "")), events)
    assert trouble is not None
    assert trouble.message == Message(code, {"message": "now"})
    assert trouble.waits


def test_a_node_s_word_that_it_still_waits_does_not_hide_for_what() -> None:
    cause = event("FailedAttachVolume", "the disk is attached to node-2")
    waits = "Unable to attach or mount volumes: unmounted volumes=[home]: context deadline exceeded"
    later = event("FailedMount", waits, "2026-11-18T20:02:00Z")
    for events, code in (([cause, later], Code.VOLUME_NOT_ATTACHED), ([later], Code.VOLUME_NOT_MOUNTED)):
        trouble = why_not_running(pod(), events)
        assert trouble is not None
        assert trouble.message.code == code


def test_a_claim_that_can_not_be_made_is_told_before_the_scheduler_s_word() -> None:
    waiting = unscheduled("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
    trouble = why_not_running(waiting, [event("ProvisioningFailed", "no space")])
    assert trouble is not None
    assert trouble.message == Message(Code.VOLUME_UNBOUND, {"message": "no space"})


def of_pod(uid: str, reason: str, message: str, at: str = "2026-11-18T20:00:00Z") -> dict[str, Any]:
    return {**event(reason, message, at), "involvedObject": {"kind": "Pod", "uid": uid}}


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([of_pod("before", "Preempted", "by pod x on node-1")], Code.PLACE_TAKEN),
        ([of_pod("before", "Preempted", "by pod x", "2026-11-18T19:50:00Z")], Code.UNSCHEDULABLE),
        ([of_pod("before", "FailedMount", "before")], Code.UNSCHEDULABLE),
        ([of_pod("uid", "FailedScheduling", "no room")], Code.UNSCHEDULABLE),
    ],
)
def test_who_lost_a_place_just_now_is_told_to_whom_and_what_has_to_be_free_again(
    events: list[dict[str, Any]], code: Code
) -> None:
    message = "0/1 nodes are available: 1 Insufficient memory."
    condition = PodCondition("False", "Unschedulable", message, NOW + timedelta(seconds=5))
    trouble = why_not_running(pod(conditions=(("PodScheduled", condition),)), events)
    assert trouble is not None
    assert (trouble.message.code, trouble.waits) == (code, True)
    if code == Code.PLACE_TAKEN:
        why = trouble.message.facts["why"]
        assert (trouble.message.facts["message"], why.code) == ("by pod x on node-1", Code.UNSCHEDULABLE)


def test_what_another_pod_of_its_name_was_told_is_not_its_own() -> None:
    waiting = pod(waiting=("ContainerCreating", ""))
    assert why_not_running(waiting, [of_pod("before", "FailedMount", "before")]) is None


def test_what_was_told_before_it_ran_is_no_trouble_any_more() -> None:
    running = pod(phase="Running", has_running_container=True)
    assert why_not_running(running, [event("FailedMount", "before")]) is None


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (pod(phase="Failed", memory="64Mi", ended=ContainerEnd(137, "OOMKilled")), Code.OUT_OF_MEMORY),
        (pod(phase="Failed", reason="Evicted", message="low on memory"), Code.EVICTED),
        (
            pod(
                phase="Failed",
                conditions=(("DisruptionTarget", PodCondition("True", "PreemptionByScheduler")),),
            ),
            Code.PREEMPTED,
        ),
        (pod(phase="Failed", reason="Shutdown", message="node"), Code.VERBATIM),
    ],
)
def test_what_ended_it_is_told(ended: Pod, code: Code) -> None:
    why = why_ended(ended)
    assert why is not None
    assert why.code == code


def test_what_ended_by_itself_has_no_other_reason() -> None:
    assert why_ended(pod(phase="Failed", ended=ContainerEnd(1, "Error"))) is None


def sightings() -> Sightings:
    return Sightings(ManualClock())


def silent(**fields: Any) -> Pod:
    conditions = (("Ready", PodCondition("False")), ("ContainersReady", PodCondition("True")))
    return pod(phase="Running", node="node-1", conditions=conditions, has_running_container=True, **fields)


def test_a_pod_on_a_silent_node_is_out_of_sight() -> None:
    assert why_out_of_sight(silent(), sightings()) == Message(Code.NODE_LOST, {"node": "node-1"})


def test_a_pod_whose_deletion_nobody_carries_out_is_out_of_sight() -> None:
    clock = ManualClock()
    seen = Sightings(clock)
    going = pod(phase="Running", node="node-1", deleted_at=NOW, grace_s=5.0)
    assert why_out_of_sight(going, seen) is None
    clock.seconds += 34
    assert why_out_of_sight(going, seen) is None
    clock.seconds += 2
    assert why_out_of_sight(going, seen) is not None
    sooner = replace(going, deleted_at=NOW - timedelta(seconds=5), grace_s=0.0)
    assert why_out_of_sight(sooner, seen) is None, "somebody has just asked for it anew"


def test_a_pod_that_is_not_ready_by_itself_or_has_ended_is_in_sight() -> None:
    ill = (("Ready", PodCondition("False")), ("ContainersReady", PodCondition("False")))
    assert why_out_of_sight(pod(phase="Running", node="node-1", conditions=ill), sightings()) is None
    assert why_out_of_sight(silent(ended=ContainerEnd(0, "Completed")), sightings()) is None


@pytest.mark.parametrize(
    ("message", "code", "waits"),
    [
        ('pods "x" is forbidden: exceeded quota: pods, requested: pods=1', Code.QUOTA_EXCEEDED, True),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', Code.ADMISSION_REFUSED, False),
    ],
)
def test_why_a_job_gets_no_pod_is_told_by_its_events(message: str, code: Code, waits: bool) -> None:
    trouble = why_unmade(message)
    assert (trouble.message.code, trouble.waits) == (code, waits)
