"""Specs go in, Pods to create come out; the cluster's Pods go in,
values come out. Pure; no patch reaches the security floor.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.adapters.kubernetes.labels import (
    IDE,
    INSTANCE,
    JOB_UID,
    ROLE,
    SPEC,
    VOLUME_ID,
    Manifest,
    claim_name,
    labels_of,
    pod_name,
    workspace_of,
)
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.core.ides import IdeProfile, expand
from codehub.core.route import mount_of
from codehub.core.workspace import Resources
from codehub.ports.instances import InstanceSpec, TcpUpstream

HOME_PLACE, UID = "/home/coder", 1000
# The home is a directory of the claim: what lies beside it in there is out of its user's reach.
HOME_VOLUME, HOME_DIRECTORY = "home", "home"
CONTAINER = "codehub"
POD_VARIABLE = "CODEHUB_POD"
"""Where a Pod's processes read which Pod they are in: a name alone does not say."""
_FORMAT = 2
_GRACE_S = 5
# A Pod that fails one probe is not ready: then we ask it ourselves, and count.
_PROBE = {"periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 1}
# A probe of HTTP takes no status above this for healthy.
_PROBE_STATUS_MAX = 400
# An idle IDE takes next to nothing: processors can be shared, memory can't.
_CPU_SHARE = 10


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container has ended."""

    exit_code: int
    reason: str
    message: str = ""
    """Its termination message, at most 4,096 bytes."""
    at: datetime | None = None
    """By its node's clock, to the second."""


@dataclass(frozen=True, slots=True)
class PodCondition:
    """A condition of a Pod: "True", "False" or "Unknown", and why."""

    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


_NO_CONDITION = PodCondition("Unknown")


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod of ours as the cluster describes it."""

    uid: str
    name: str
    role: str
    job_uid: str | None
    """Of the Job that it works for."""
    workspace_id: UUID
    annotations: Mapping[str, str]
    phase: str
    image: str = ""
    memory: str = ""
    ip: str | None = None
    port: int | None = None
    node: str | None = None
    reason: str = ""
    """Of the Pod as a whole, as "Evicted"."""
    message: str = ""
    conditions: tuple[tuple[str, PodCondition], ...] = ()
    waiting: tuple[str, str] | None = None
    """Why its container does not run yet, and the kubelet's message."""
    ended: ContainerEnd | None = None
    has_running_container: bool = False
    """Whether its container runs, as far as its node has told."""
    started_at: datetime | None = None
    deleted_at: datetime | None = None
    """When it is to be gone at the latest. None: nobody asked for that."""
    grace_s: float = 0.0
    """How long before that it was asked for."""

    def condition(self, kind: str) -> PodCondition:
        return dict(self.conditions).get(kind, _NO_CONDITION)

    @property
    def is_instance(self) -> bool:
        return self.role == INSTANCE and self.name == pod_name(self.workspace_id)

    @property
    def has_ended(self) -> bool:
        return self.is_over or self.ended is not None

    @property
    def is_over(self) -> bool:
        """Whether the Pod as a whole has ended: only then all that has ended it is known."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def running(self) -> bool:
        return self.phase == "Running" and self.has_running_container and self.deleted_at is None

    @property
    def upstream(self) -> TcpUpstream | None:
        return None if self.ip is None or self.port is None else TcpUpstream(self.ip, self.port)


def fingerprint(spec: InstanceSpec, patch: PodPatch = NO_PATCH) -> str:
    """Return a value that differs between Pods of different specs."""
    resources = asdict(spec.resources)
    del resources["disk_mb"]  # the claim's, not the Pod's
    content = [_FORMAT, spec.image_ref, spec.ide, resources, patch.content]
    content += [spec.environment] if spec.environment else []  # else as an older codehub had it
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def pod_manifest(
    installation: str,
    spec: InstanceSpec,
    volume_id: str,
    ide: IdeProfile,
    patch: PodPatch = NO_PATCH,
) -> dict[str, Any]:
    """Return the Pod to create."""
    workspace_id = spec.workspace_id
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec.image_ref,
        "imagePullPolicy": "IfNotPresent",
        "workingDir": HOME_PLACE,
        "env": [
            {"name": "HOME", "value": HOME_PLACE},
            {"name": "USER", "value": "coder"},
            {"name": "LOGNAME", "value": "coder"},
            {"name": "CODEHUB_WORKSPACE", "value": str(workspace_id)},
            {"name": POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            # What a Pod makes of $( ) is not meant.
            *({"name": name, "value": value.replace("$", "$$")} for name, value in spec.environment),
        ],
        "ports": [{"name": "ide", "containerPort": ide.port}],
        "resources": _resources(spec.resources),
        "readinessProbe": {**_readiness(ide, workspace_id), **_PROBE},
        "securityContext": confined_container(),
        "volumeMounts": [{"name": HOME_VOLUME, "mountPath": HOME_PLACE, "subPath": HOME_DIRECTORY}],
    }
    if ide.image_args is not None:
        container["args"] = expand(ide.image_args, mount=mount_of(workspace_id), home=HOME_PLACE)
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(workspace_id),
            "labels": labels_of(installation, workspace_id, INSTANCE),
            "annotations": {VOLUME_ID: volume_id, SPEC: fingerprint(spec, patch), IDE: spec.ide},
        },
        "spec": {
            **confined_pod(),
            "hostname": "workspace",
            # Its first process is then the sandbox's own, which reaps what the IDE leaves behind.
            "shareProcessNamespace": True,
            "terminationGracePeriodSeconds": _GRACE_S,
            "volumes": [home_volume(workspace_id)],
            "containers": [container],
        },
    }
    return patch.apply_to(manifest)


def confined_pod() -> dict[str, Any]:
    """Return the floor of every Pod that we make: as strict as the
    Pod Security Standard "restricted", and stricter.
    """
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            # The home lies below: its modes stay what they are.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def confined_container() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def home_volume(workspace_id: UUID) -> dict[str, Any]:
    return {"name": HOME_VOLUME, "persistentVolumeClaim": {"claimName": claim_name(workspace_id)}}


def parse_pod(answer: Manifest) -> Pod | None:
    """Return what a Pod of ours is; None if it does not say of which workspace."""
    workspace_id = workspace_of(answer)
    if workspace_id is None:
        return None
    metadata, spec, status = answer["metadata"], answer.get("spec") or {}, answer.get("status") or {}
    container, container_status = (
        own_container(spec.get("containers")),
        own_container(status.get("containerStatuses")),
    )
    state = container_status.get("state") or {}
    waiting, running, ended = state.get("waiting"), state.get("running"), state.get("terminated")
    return Pod(
        metadata["uid"],
        metadata["name"],
        metadata["labels"].get(ROLE, ""),
        metadata["labels"].get(JOB_UID),
        workspace_id,
        metadata.get("annotations") or {},
        status.get("phase") or "Pending",
        container.get("image", ""),
        ((container.get("resources") or {}).get("limits") or {}).get("memory", ""),
        status.get("podIP") or None,
        next(
            (port["containerPort"] for port in container.get("ports") or () if port.get("name") == "ide"),
            None,
        ),
        spec.get("nodeName") or None,
        status.get("reason") or "",
        status.get("message") or "",
        tuple((item["type"], _condition(item)) for item in status.get("conditions") or ()),
        None if waiting is None else (waiting.get("reason") or "", waiting.get("message") or ""),
        None
        if ended is None
        else ContainerEnd(
            ended.get("exitCode", 0),
            ended.get("reason") or "",
            ended.get("message") or "",
            time_of(ended.get("finishedAt")),
        ),
        running is not None,
        time_of((running or {}).get("startedAt")),
        time_of(metadata.get("deletionTimestamp")),
        float(metadata.get("deletionGracePeriodSeconds") or 0),
    )


def time_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def own_container(containers: Sequence[Manifest] | None) -> Manifest:
    """Return the container that is ours: a cluster may add others."""
    return next((item for item in containers or () if item["name"] == CONTAINER), {})


def _condition(condition: Manifest) -> PodCondition:
    return PodCondition(
        condition["status"],
        condition.get("reason") or "",
        condition.get("message") or "",
        time_of(condition.get("lastTransitionTime")),
    )


def _resources(resources: Resources) -> dict[str, Any]:
    memory, millicpus = f"{resources.memory_mb}Mi", max(1, round(resources.cpus * 1000))
    return {
        "requests": {"memory": memory, "cpu": f"{max(1, millicpus // _CPU_SHARE)}m"},
        "limits": {"memory": memory, "cpu": f"{millicpus}m"},
    }


def is_probed_as_strictly(ide: IdeProfile) -> bool:
    """Return whether an IDE that its node's probe finds healthy is healthy for us, too."""
    return ide.healthy_below <= _PROBE_STATUS_MAX


def _readiness(ide: IdeProfile, workspace_id: UUID) -> dict[str, Any]:
    if not is_probed_as_strictly(ide):
        return {"tcpSocket": {"port": ide.port}}
    return {"httpGet": {"path": ide.health_path.format(mount=mount_of(workspace_id)), "port": ide.port}}
