"""The operator's patch goes to the API, which only says whether it would take a Pod that is patched so;
why not comes out. Makes nothing.
"""

from uuid import UUID

from codehub.adapters.kubernetes.answers import AdmissionRefused, Invalid, Refusal
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import pod_manifest
from codehub.core.ides import IDES
from codehub.core.workspace import Resources, StorageBackend
from codehub.ports.instances import InstanceSpec

_NOBODY = UUID(int=0)
# A webhook that can't be asked without effect says nothing about the patch.
_NO_TRIALS = "does not support dry run"


async def why_not_taken(client: KubernetesClient, patch: PodPatch, image: str) -> Refusal | None:
    """Return why the cluster would refuse such a Pod now. What is short now (a quota) is no reason."""
    if patch is NO_PATCH:
        return None
    ide = next(iter(IDES))
    spec = InstanceSpec(_NOBODY, StorageBackend.K8S_PVC, "trial", image, ide, Resources(512, 1.0, 128))
    try:
        await client.create(PODS, pod_manifest("trial", spec, "trial", IDES[ide], patch), dry_run=True)
    except (AdmissionRefused, Invalid) as refusal:
        return None if _NO_TRIALS in refusal.message.facts["text"] else refusal
    return None
