"""What works in a home beside its instance: a command goes in, a Job to create comes out. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from codehub.adapters.kubernetes.labels import HELPER, HOME, claim_name, job_name, labels_of
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import CONTAINER, HOME_DIRECTORY, confined_container, confined_pod

PLACE = "/claim"
GRANTS, NAMES = "grants.json", "names"
_GRACE_S = 10
_MEMORY_BYTES = 64 << 20
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """A command that sees a claim's root at /claim, and what it needs."""

    command: Sequence[str]
    time_limit_s: int
    read_only: bool = False
    memory_bytes: int = _MEMORY_BYTES
    grants: str | None = None
    """What opens single objects of the store, as a file at /grants."""
    archive_directory: str | None = None
    """The directory of the volume with archives that it sees at /archives."""


def provision_work(time_limit_s: int) -> Work:
    """Return the work that makes the home, its user's alone. A home that is there stays as it is."""
    script = f"[ -d {HOME_DIRECTORY} ] || {{ mkdir {HOME_DIRECTORY} && chmod 00700 {HOME_DIRECTORY}; }} && sync -f ."
    return Work(("/bin/sh", "-c", script), time_limit_s)


AS_MADE, CHANGED = "as-made", "changed"


def look_for_change(moment_s: float, time_limit_s: int) -> Work:
    """Return the work that says whether anything in the home was changed after a moment."""
    find = f"find {HOME_DIRECTORY} -newerct @{moment_s:.6f} -printf {CHANGED} -quit"
    script = f'found=$({find}) && printf %s "${{found:-{AS_MADE}}}" > /dev/termination-log'
    return Work(("/bin/sh", "-c", script), time_limit_s, read_only=True)


def archive_work(grants: str, memory_bytes: int, directory: str | None, time_limit_s: int) -> Work:
    return Work(
        ("python", "-m", "codehub.job", "archive", "--home", f"{PLACE}/{HOME_DIRECTORY}"),
        time_limit_s,
        True,
        memory_bytes,
        grants,
        directory,
    )


def restore_work(
    grants: str, memory_bytes: int, directory: str | None, time_limit_s: int, *, into: str = HOME_DIRECTORY
) -> Work:
    return Work(
        ("python", "-m", "codehub.job", "restore", "--home", f"{PLACE}/{into}"),
        time_limit_s,
        False,
        memory_bytes,
        grants,
        directory,
    )


def job_manifest(
    installation: str,
    workspace_id: UUID,
    image: str,
    work: Work,
    *,
    secret: str = "",
    archive_claim: str | None = None,
    patch: PodPatch = NO_PATCH,
) -> dict[str, Any]:
    """Return the Job to create. `secret` is of its own: of one that had this name
    before, its node may remember what that held. It runs once it is no longer
    suspended: what it needs is made in between, and goes with it.
    """
    name, labels = job_name(workspace_id), labels_of(installation, workspace_id, HELPER)
    memory = f"{max(1, -(-work.memory_bytes // _MB))}Mi"
    mounts = [{"name": HOME, "mountPath": PLACE, "readOnly": work.read_only}]
    volumes: list[dict[str, Any]] = [
        {
            "name": HOME,
            "persistentVolumeClaim": {"claimName": claim_name(workspace_id), "readOnly": work.read_only},
        }
    ]
    if work.grants is not None:
        volumes.append({"name": "grants", "secret": {"secretName": secret, "defaultMode": 0o440}})
        mounts.append({"name": "grants", "mountPath": "/grants", "readOnly": True})
        # No user names of the image: a home's owners are numbers.
        mounts += [
            {"name": "grants", "mountPath": f"/etc/{names}", "subPath": NAMES, "readOnly": True}
            for names in ("passwd", "group")
        ]
    if work.archive_directory is not None:
        volumes.append({"name": "archives", "persistentVolumeClaim": {"claimName": archive_claim}})
        mounts.append({"name": "archives", "mountPath": "/archives", "subPath": work.archive_directory})
    pod = {
        **confined_pod(),
        "terminationGracePeriodSeconds": _GRACE_S,
        "volumes": volumes,
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "workingDir": PLACE,
                "command": list(work.command),
                "env": [{"name": "LC_ALL", "value": "C"}],
                "resources": {"requests": {"memory": memory, "cpu": "100m"}, "limits": {"memory": memory}},
                "securityContext": {**confined_container(), "readOnlyRootFilesystem": True},
                "volumeMounts": mounts,
            }
        ],
    }
    template = {"metadata": {"labels": labels}, "spec": {**patch.placement, **pod}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "completions": 1,
            "activeDeadlineSeconds": max(1, work.time_limit_s),
            "template": template,
        },
    }


def grants_manifest(
    installation: str, workspace_id: UUID, job: Mapping[str, Any], secret: str, grants: str
) -> dict[str, Any]:
    """Return the Secret of a Job, which goes with it."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {
        "metadata": {
            "name": secret,
            "labels": labels_of(installation, workspace_id, HELPER),
            "ownerReferences": [owner],
        },
        "stringData": {GRANTS: grants, NAMES: ""},
    }
