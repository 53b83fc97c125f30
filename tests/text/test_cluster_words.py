"""What a cluster says, as people read it: every cause has its facts in it, and what can be done."""

import pytest

from codehub.core.messages import Code, Message
from codehub.text import LANGUAGES
from codehub.web.domain_text import message_text

_LACKS = [
    Message(Code.LACKS_RESOURCE, {"nodes": "2", "resource": "memory"}),
    Message(Code.NODES_REFUSE, {"nodes": "1", "why": "node(s) were unschedulable"}),
]
_LACKS_OF_ONE = [Message(Code.LACKS_RESOURCE, {"nodes": "1", "resource": "memory"})]
_SAYS = {"message": "what the cluster says."}
_IMAGE = {"image": "example.org/image:1", **_SAYS}

CAUSES = {
    "unschedulable": (
        Message(Code.UNSCHEDULABLE, {"nodes": "3", "lacks": _LACKS, "message": "0/3 nodes"}),
        "an admin adds a node",
        "관리자가 노드를 추가",
    ),
    "ImagePullBackOff": (
        Message(Code.IMAGE_NOT_PULLED, _IMAGE),
        "choose another image",
        "다른 이미지를 고르",
    ),
    "one node": (
        Message(Code.UNSCHEDULABLE, {"nodes": "1", "lacks": _LACKS_OF_ONE, "message": "0/1 nodes"}),
        "Of 1 node: 1 lacks memory.",
        "노드 1개: 1개는 memory 부족.",
    ),
    "what the scheduler says otherwise": (
        Message(Code.UNSCHEDULABLE, {"nodes": "?", "lacks": [], "message": "no nodes available."}),
        "for it now: no nodes available. It starts",
        "자리가 없습니다. no nodes available.",
    ),
    "ErrImageNeverPull": (Message(Code.IMAGE_REFUSED, _IMAGE), "Choose another one", "다른 이미지를 고른 뒤"),
    "FailedMount": (Message(Code.VOLUME_NOT_MOUNTED, _SAYS), "The cluster goes on trying", "계속 시도"),
    "FailedAttach": (
        Message(Code.VOLUME_NOT_ATTACHED, _SAYS),
        "an admin can mark that one as out of service",
        "out-of-service",
    ),
    "no volume": (
        Message(Code.VOLUME_UNBOUND, _SAYS),
        "mended the storage class",
        "스토리지 클래스를 고치면",
    ),
    "OOMKilled": (Message(Code.OUT_OF_MEMORY, {"memory": "64Mi"}), "Give it more", "메모리를 늘린 뒤"),
    "Evicted": (Message(Code.EVICTED, _SAYS), "It can be started again", "다시 시작할 수"),
    "preemption": (Message(Code.PREEMPTED, _SAYS), "It can be started again", "다시 시작할 수"),
    "a place that was taken": (
        Message(
            Code.PLACE_TAKEN,
            {**_SAYS, "why": Message(Code.UNSCHEDULABLE, {"nodes": "3", "lacks": _LACKS, "message": ""})},
        ),
        "an admin adds a node",
        "관리자가 노드를 추가",
    ),
    "quota": (Message(Code.QUOTA_EXCEEDED, _SAYS), "an admin raises the quota", "할당량을 늘리면"),
    "admission": (Message(Code.ADMISSION_REFUSED, _SAYS), "An admin has to change", "관리자가"),
    "a missing right": (Message(Code.NOT_PERMITTED, _SAYS), "An admin has to give", "관리자가 권한을"),
    "node lost": (
        Message(Code.NODE_LOST, {"node": "node-7"}),
        "kubectl taint node node-7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
        "kubectl taint node node-7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_told_with_its_facts_and_what_can_be_done(cause: str) -> None:
    message, *remedies = CAUSES[cause]
    for language, remedy in zip(LANGUAGES, remedies, strict=True):
        shown = message_text(message, language)
        assert remedy in shown
        facts = [fact for fact in message.facts.values() if isinstance(fact, str) and fact != "?"]
        is_summed_up = message.code == Code.UNSCHEDULABLE  # its own words stand for the scheduler's
        assert all(fact in shown for fact in facts if not (is_summed_up and fact.startswith("0/")))
