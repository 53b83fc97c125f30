"""Why a Pod that should run does not: a Pod, its events and its
claim's go in, a code with facts comes out. Pure.

What waiting can mend is held up, as an outage is; anything else is a failure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from codehub.adapters.kubernetes.answers import AdmissionRefused, Forbidden, QuotaExceeded, Refusal
from codehub.adapters.kubernetes.labels import Manifest
from codehub.adapters.kubernetes.pods import Pod, PodCondition, time_of
from codehub.adapters.kubernetes.sightings import Sightings
from codehub.adapters.registries import has_refused, is_away
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message, verbatim
from codehub.ports.backends import ActionFailed, BackendUnreachable

# So long before a Pod was made what had its name before lost its place to another.
_BEFORE_MAX = timedelta(minutes=2)
# Not before a deletion is so late does it say that nobody carries it out.
_LATE_S = 30.0
_EVENTS = {
    "FailedMount": Code.VOLUME_NOT_MOUNTED,
    "FailedMapVolume": Code.VOLUME_NOT_MOUNTED,
    "FailedAttachVolume": Code.VOLUME_NOT_ATTACHED,
    "FailedCreatePodSandBox": Code.SANDBOX_FAILED,
    "ProvisioningFailed": Code.VOLUME_UNBOUND,
}
# A node's word every two minutes that it still waits for a volume, whatever the cause is.
_STILL_WAITS = "Unable to attach or mount volumes"
_ENDS = {"Evicted": Code.EVICTED, "Preempted": Code.PREEMPTED}
_PULLS = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_NEVER_THERE = frozenset({"ErrImageNeverPull", "InvalidImageName", "ImageInspectError"})
_NOT_MADE = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"}
)
# How the scheduler puts it: of so many nodes, so many lack something, so many others refuse.
_NODES = re.compile(
    r"0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*?)\.?(?: preemption: .*)?", re.DOTALL
)
_REASON = re.compile(r"(?P<nodes>\d+) (?P<why>.+)")
_LACKS = re.compile(r"Insufficient (?P<resource>\S+)|Too many pods")


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps an instance from running."""

    message: Message
    waits: bool
    """Whether waiting may help."""
    reason: ErrorReason = ErrorReason.ACTION_FAILED

    def error(self) -> BackendUnreachable | ActionFailed:
        return (
            BackendUnreachable(self.message) if self.waits else ActionFailed(self.message, reason=self.reason)
        )


def why_not_running(pod: Pod, events: Iterable[Manifest] = ()) -> Trouble | None:
    """Return what keeps a Pod that was made from running, if that can be told. `events`: of Pods
    of its name, since it may have taken the place of another one, and of its claim.
    """
    scheduled, every = pod.condition("PodScheduled"), list(events)
    earlier = [event for event in every if _is_of_another(pod, event)]
    by_events = _trouble_in(event for event in every if event not in earlier)
    if scheduled.status == "False":
        is_unbound = by_events is not None and by_events.message.code == Code.VOLUME_UNBOUND
        return by_events if is_unbound else Trouble(_why_unplaced(scheduled, earlier), waits=True)
    if pod.waiting is not None and (trouble := _why_waiting(pod, *pod.waiting)) is not None:
        return trouble
    return None if pod.has_running_container or pod.has_ended else by_events


def why_unmade(message: str) -> Trouble:
    """Return why the cluster makes no Pod for a Job, by what it says of that."""
    if "quota" in message:
        return Trouble(Message(Code.QUOTA_EXCEEDED, {"message": message}), waits=True)
    return Trouble(Message(Code.ADMISSION_REFUSED, {"message": message}), waits=False)


def why_ended(pod: Pod) -> Message | None:
    """Return why a Pod has ended, if not by itself."""
    disrupted = pod.condition("DisruptionTarget")
    if pod.reason == "Preempting" or disrupted.reason == "PreemptionByScheduler":
        return Message(Code.PREEMPTED, {"message": pod.message or disrupted.message})
    if pod.reason == "Evicted" or disrupted.reason == "TerminationByKubelet":
        return Message(Code.EVICTED, {"message": pod.message or disrupted.message})
    if pod.ended is not None and pod.ended.reason == "OOMKilled":
        return Message(Code.OUT_OF_MEMORY, {"memory": pod.memory})
    if pod.reason:
        return verbatim(f"{pod.reason}: {pod.message}" if pod.message else pod.reason)
    return None


def why_ended_by(events: Iterable[Manifest]) -> Message | None:
    """Return who has ended a Pod, by its events: of one that ended well
    when it was told to go, the Pod itself says nothing.
    """
    for event in events:
        if (code := _ENDS.get(event.get("reason") or "")) is not None:
            return Message(code, {"message": event.get("message") or ""})
    return None


def why_out_of_sight(pod: Pod, sightings: Sightings) -> Message | None:
    """Return why nobody can tell whether a Pod runs, if so: its node has fallen silent. It may be running
    there all the same. `sightings`: of this Pod, from one look to the next.
    """
    if pod.node is None or pod.has_ended:
        return None
    # The cluster marks a Pod whose node is silent as not ready; what its node said of it last stays.
    is_silent = pod.condition("Ready").status == "False" and pod.condition("ContainersReady").status == "True"
    is_late = (
        pod.deleted_at is not None
        and sightings.seconds(pod.uid, "deletion", pod.deleted_at) > pod.grace_s + _LATE_S
    )
    return node_lost(pod) if is_silent or is_late or pod.phase == "Unknown" else None


def node_lost(pod: Pod) -> Message:
    return Message(Code.NODE_LOST, {"node": pod.node or "?"})


def explain_refusal(refusal: Refusal) -> BackendUnreachable | ActionFailed:
    """Return what a refusal of the API server means: a quota, or a missing
    right, holds it up; a rule of the cluster's makes it fail.
    """
    facts = {"message": str(refusal)}
    match refusal:
        case QuotaExceeded():
            return BackendUnreachable(Message(Code.QUOTA_EXCEEDED, facts))
        case AdmissionRefused():
            return ActionFailed(Message(Code.ADMISSION_REFUSED, facts))
        case Forbidden():
            return BackendUnreachable(Message(Code.NOT_PERMITTED, facts))
        case _:
            return refusal


def unschedulable(message: str) -> Message:
    """Return the scheduler's refusal: what is lacking, and on how many nodes."""
    match = _NODES.fullmatch(message.strip())
    if match is None:
        return Message(Code.UNSCHEDULABLE, {"nodes": "?", "lacks": [], "message": message})
    lacks = [_parse_lack(part) for part in re.split(r", (?=\d+ )", match["reasons"])]
    return Message(Code.UNSCHEDULABLE, {"nodes": match["nodes"], "lacks": lacks, "message": message})


def _why_unplaced(scheduled: PodCondition, earlier: Iterable[Manifest]) -> Message:
    """Return why a Pod gets no place, and whether another has just lost that to something more important."""
    why, made_at = unschedulable(scheduled.message), scheduled.since
    for event in earlier:
        at = time_of(_time(event) or None)
        is_recent = made_at is None or at is None or made_at - at < _BEFORE_MAX
        if event.get("reason") == "Preempted" and is_recent:
            return Message(Code.PLACE_TAKEN, {"message": event.get("message") or "", "why": why})
    return why


def _is_of_another(pod: Pod, event: Manifest) -> bool:
    about = event.get("involvedObject") or {}
    return about.get("kind") == "Pod" and about.get("uid") != pod.uid


def _parse_lack(part: str) -> Message:
    reason = _REASON.fullmatch(part)
    if reason is None:
        return verbatim(part)
    lacks = _LACKS.fullmatch(reason["why"])
    if lacks is not None:
        return Message(
            Code.LACKS_RESOURCE, {"nodes": reason["nodes"], "resource": lacks["resource"] or "pods"}
        )
    return Message(Code.NODES_REFUSE, {"nodes": reason["nodes"], "why": reason["why"]})


def _why_waiting(pod: Pod, reason: str, message: str) -> Trouble | None:
    facts = {"image": pod.image, "message": message or reason}
    if reason in _NEVER_THERE:
        return Trouble(Message(Code.IMAGE_REFUSED, facts), waits=False, reason=ErrorReason.IMAGE_PULL_FAILED)
    if reason in _PULLS:
        if has_refused(message) and not is_away(message):
            return Trouble(
                Message(Code.IMAGE_REFUSED, facts), waits=False, reason=ErrorReason.IMAGE_PULL_FAILED
            )
        return Trouble(Message(Code.IMAGE_NOT_PULLED, facts), waits=True)
    if reason in _NOT_MADE:
        return Trouble(Message(Code.CONTAINER_NOT_MADE, {"message": message or reason}), waits=False)
    return None


def _trouble_in(events: Iterable[Manifest]) -> Trouble | None:
    """Return what the latest of these events says that is known to keep a Pod from running."""
    known: Sequence[Manifest] = [event for event in events if event.get("reason") in _EVENTS]
    if not known:
        return None
    latest = max(known, key=lambda event: (_is_a_cause(event), _time(event)))
    return Trouble(Message(_EVENTS[latest["reason"]], {"message": latest.get("message") or ""}), waits=True)


def _is_a_cause(event: Manifest) -> bool:
    return not (event.get("message") or "").startswith(_STILL_WAITS)


def _time(event: Manifest) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max(time or "" for time in times)
