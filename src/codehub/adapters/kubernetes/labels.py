"""What our objects in the cluster are called, and the labels
and annotations that say whose and what they are.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

INSTALL, WORKSPACE, ROLE = "codehub.dev/install", "codehub.dev/workspace", "codehub.dev/role"
VOLUME_ID, COMPLETE, MADE_FROM = "codehub.dev/volume-id", "codehub.dev/complete", "codehub.dev/archive"
SPEC, IDE = "codehub.dev/spec", "codehub.dev/ide"

INSTANCE, HOME, HELPER, MARK = "instance", "home", "helper", "mark"
POLICY, PROBE, ISOLATION = "policy", "probe", "isolation"

JOB_UID = "batch.kubernetes.io/controller-uid"
"""On each Pod of a Job, by the cluster. Names come again."""

_POD = "codehub-ws-"

Manifest = Mapping[str, Any]


def pod_name(workspace_id: UUID) -> str:
    return f"{_POD}{workspace_id}"


def workspace_named(pod: str) -> UUID:
    """Return the workspace whose Pod is called so."""
    return UUID(pod.removeprefix(_POD))


def claim_name(workspace_id: UUID) -> str:
    return f"ws-{workspace_id}-home"


def job_name(workspace_id: UUID) -> str:
    return f"codehub-job-{workspace_id}"


def mark_name(installation: str) -> str:
    return f"codehub-{installation}"


def labels_of(installation: str, workspace_id: UUID, role: str) -> dict[str, str]:
    return {INSTALL: installation, WORKSPACE: str(workspace_id), ROLE: role}


def owns(installation: str, answer: Manifest, role: str) -> bool:
    """Whether an object of the cluster is this installation's, in this role."""
    labels = answer["metadata"].get("labels") or {}
    return (labels.get(INSTALL), labels.get(ROLE)) == (installation, role)


def workspace_of(answer: Manifest) -> UUID | None:
    """Return the workspace that an object says it belongs to."""
    try:
        return UUID((answer["metadata"].get("labels") or {}).get(WORKSPACE, ""))
    except ValueError:
        return None
