"""The kinds of objects that codehub speaks of, and where the API keeps each."""

from dataclasses import dataclass
from urllib.parse import quote

_CORE = "v1"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, as an object's `apiVersion` and `kind` say it, and its name in addresses."""

    api_version: str
    name: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str, name: str | None = None, *more: str) -> str:
        """Return the address of all objects of this kind, of one of them, or of what is below it."""
        parts = ["api" if self.api_version == _CORE else "apis", self.api_version]
        if self.is_namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts += [quote(name, safe=""), *more]
        return "/" + "/".join(parts)


PODS = Kind(_CORE, "Pod", "pods")
CLAIMS = Kind(_CORE, "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = Kind(_CORE, "PersistentVolume", "persistentvolumes", is_namespaced=False)
SECRETS = Kind(_CORE, "Secret", "secrets")
CONFIG_MAPS = Kind(_CORE, "ConfigMap", "configmaps")
SERVICES = Kind(_CORE, "Service", "services")
SERVICE_ACCOUNTS = Kind(_CORE, "ServiceAccount", "serviceaccounts")
EVENTS = Kind(_CORE, "Event", "events")
QUOTAS = Kind(_CORE, "ResourceQuota", "resourcequotas")
NODES = Kind(_CORE, "Node", "nodes", is_namespaced=False)
NAMESPACES = Kind(_CORE, "Namespace", "namespaces", is_namespaced=False)
JOBS = Kind("batch/v1", "Job", "jobs")
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
ROLES = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
STORAGE_CLASSES = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", is_namespaced=False)
VOLUME_ATTACHMENTS = Kind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", is_namespaced=False)
POD_METRICS = Kind("metrics.k8s.io/v1beta1", "PodMetrics", "pods")
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", is_namespaced=False
)
