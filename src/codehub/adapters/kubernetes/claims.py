"""Homes as claims: claims to create come out, the cluster's claims go in. Pure.

volume-id   on a claim from its beginning, and on no other ever: which home it is
complete    empty while it is being made; then when that was done, by the clock of the node that did it. A
            claim without it was complete, and has lost its identity
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.adapters.kubernetes.labels import (
    COMPLETE,
    HOME,
    MADE_FROM,
    VOLUME_ID,
    Manifest,
    claim_name,
    labels_of,
    workspace_of,
)
from codehub.adapters.kubernetes.pods import time_of
from codehub.adapters.kubernetes.quantities import parse_quantity
from codehub.core.observation import UNTOLD, Volume
from codehub.core.workspace import Resources

ONE_NODE = "ReadWriteOnce"
_BEING_MADE = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A home as the cluster describes it."""

    uid: str
    resource_version: str
    workspace_id: UUID
    volume_id: str | None
    complete: str | None
    """When it was completed; empty: it is being made; None: it was, and has lost its identity."""
    made_from: str | None
    size_bytes: int
    made_at: datetime
    deleted_at: datetime | None = None
    finalizers: tuple[str, ...] = ()

    @property
    def is_being_made(self) -> bool:
        return self.complete == _BEING_MADE

    @property
    def completed_at(self) -> datetime | None:
        return time_of(self.complete or None)

    @property
    def volume(self) -> Volume:
        """A claim that is being deleted is there until it is gone."""
        if self.volume_id is not None and self.complete:
            return Volume(self.volume_id, made_from=self.made_from)
        if self.is_being_made:
            return Volume(None)
        return Volume(None, self.volume_id or UNTOLD)


def is_home(claim: Claim | None, volume_id: str | None) -> bool:
    """Whether it is the home of this very id, complete or with its identity lost. None: any will do."""
    return claim is not None and volume_id in (None, claim.volume.name)


def claim_manifest(
    installation: str,
    workspace_id: UUID,
    volume_id: str,
    *,
    size_mb: int | None,
    storage_class: str | None,
    made_from: str | None,
    access_mode: str = ONE_NODE,
) -> dict[str, Any]:
    """Return the claim to create. It does not count before it is complete."""
    annotations = {VOLUME_ID: volume_id, COMPLETE: _BEING_MADE}
    if made_from is not None:
        annotations[MADE_FROM] = made_from
    spec: dict[str, Any] = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": f"{size_mb or Resources().disk_mb}Mi"}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(workspace_id),
            "labels": labels_of(installation, workspace_id, HOME),
            "annotations": annotations,
        },
        "spec": spec,
    }


def seal_change(volume_id: str, at: str) -> dict[str, Any]:
    """Return the change that makes a claim count."""
    return {"metadata": {"annotations": {VOLUME_ID: volume_id, COMPLETE: at}}}


def growth(claim: Claim, size_mb: int) -> dict[str, Any] | None:
    """Return the change that makes it larger; None if it is large enough."""
    if claim.size_bytes >= size_mb << 20:
        return None
    return {"spec": {"resources": {"requests": {"storage": f"{size_mb}Mi"}}}}


def parse_claim(answer: Manifest) -> Claim | None:
    """Return what a claim of ours is; None if it does not say of
    which workspace, or is not called as that one's home.
    """
    metadata, workspace_id = answer["metadata"], workspace_of(answer)
    if workspace_id is None or metadata["name"] != claim_name(workspace_id):
        return None
    annotations = metadata.get("annotations") or {}
    requests = ((answer.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return Claim(
        metadata["uid"],
        metadata["resourceVersion"],
        workspace_id,
        annotations.get(VOLUME_ID) or None,
        annotations.get(COMPLETE),
        annotations.get(MADE_FROM),
        int(parse_quantity(requests.get("storage", "0"))),
        datetime.fromisoformat(metadata["creationTimestamp"]),
        time_of(metadata.get("deletionTimestamp")),
        tuple(metadata.get("finalizers") or ()),
    )
