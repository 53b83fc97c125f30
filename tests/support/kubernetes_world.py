"""An installation in a test cluster, as the contracts of instances and of
storage want it. What tests do to a home they do on its node's disk.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.images import light_images
from tests.support.cluster.job_image import JOB, write_job_image
from tests.support.docker import LIGHT
from tests.support.hands import PASSWORD
from tests.support.instances import become_healthy, new_spec, post_to
from tests.support.patience import block_until
from tests.support.program import Running, running
from tests.support.storages import Files, InDirectory, read_files, write_files

from codehub.adapters.kubernetes.access import from_kubeconfig
from codehub.adapters.kubernetes.claim_store import ClaimStore
from codehub.adapters.kubernetes.claims import ONE_NODE, Claim, claim_manifest, parse_claim
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.job_runner import JobRunner
from codehub.adapters.kubernetes.kinds import CLAIMS, CONFIG_MAPS, JOBS, NETWORK_POLICIES, PODS
from codehub.adapters.kubernetes.labels import COMPLETE, INSTALL, MARK, ROLE, claim_name, pod_name
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import UID, Pod, parse_pod
from codehub.adapters.kubernetes.rights import RIGHTS, Right
from codehub.adapters.kubernetes.storage import KubernetesStorage
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import MARK as STORE_MARK
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.rules import DEFAULT_RULES
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home

NAMESPACE = "codehub-workspaces"
MERGE = "application/merge-patch+json"
_RBAC = "rbac.authorization.k8s.io"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
# Small: what a test cluster has is a directory, and no test fills it.
_SIZE_MB = 64


class KubernetesWorld(InDirectory):
    """One installation in one namespace: homes are claims, instances are
    Pods, archives lie in a directory that both sides see.
    """

    MOMENT_S = 2.0  # a node tells the second in which a volume was made

    def __init__(
        self,
        cluster: TestCluster,
        namespace: str,
        directory: Path,
        *,
        patch: PodPatch = NO_PATCH,
        url: str | None = None,
        install_id: str = "",
        access_mode: str = ONE_NODE,
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.install_id = install_id or str(uuid4())
        self.store = directory / "archives"
        self.objects = Objects(url or f"file://{self.store}", installation=self.install_id)
        self.archives = ObjectArchives(self.objects)
        self.archive_claim = f"archives-{self.install_id}"
        clock = SystemClock()
        self.client = KubernetesClient(
            from_kubeconfig(prepare_namespace(cluster, namespace), clock=clock),
            namespace=namespace,
            clock=clock,
        )
        labels = {INSTALL: self.install_id}
        self.pods = WatchCache[Pod | None](self.client, PODS, labels=labels, project=parse_pod, clock=clock)
        claims = WatchCache[Claim | None](
            self.client, CLAIMS, labels=labels, project=parse_claim, clock=clock
        )
        marks = WatchCache[str](
            self.client, CONFIG_MAPS, labels={**labels, ROLE: MARK}, project=_uid_of, clock=clock
        )
        self.caches: Sequence[WatchCache[Any]] = (self.pods, claims, marks)
        self._seen_claims = claims
        self.claims = ClaimStore(
            self.client,
            self.install_id,
            claims,
            marks,
            identity=SystemIdentity(),
            clock=clock,
            access_mode=access_mode,
        )
        jobs = JobRunner(
            self.client,
            self.install_id,
            self.pods,
            image=JOB,
            clock=clock,
            archive_claim=self.archive_claim,
        )
        self.storage = KubernetesStorage(self.claims, jobs, archives=self.archives, rules=DEFAULT_RULES)
        self.provider = self.storage
        self.instances = self.controller(patch=patch)

    def controller(self, **changes: Any) -> KubernetesInstances:
        """Return another controller of the same instances, as another process would have."""
        return KubernetesInstances(
            self.client, self.install_id, self.pods, self.claims, **{"clock": SystemClock(), **changes}
        )

    # As the contract of instances wants it

    async def make_volume(self, spec: InstanceSpec) -> str:
        return await self.storage.provision(Home(spec.workspace_id, spec.home_store_key, _SIZE_MB))

    async def run(self, spec: InstanceSpec | None = None) -> UUID:
        """Bring a workspace up on a volume of its own."""
        spec = spec or new_spec()
        await self.instances.start(spec, await self.make_volume(spec))
        await become_healthy(self.instances, spec.workspace_id)
        return spec.workspace_id

    async def identity(self, workspace_id: UUID) -> object:
        return self.pod(workspace_id)["metadata"]["uid"]

    async def fall_ill(self, workspace_id: UUID) -> None:
        await post_to(self.instances, workspace_id, "/ill")

    async def die(self, workspace_id: UUID) -> None:
        await post_to(self.instances, workspace_id, "/die")

    async def inside(self, workspace_id: UUID, command: str) -> str:
        """Run a command as a person in the workspace's terminal would, and return what it says."""
        return await post_to(self.instances, workspace_id, "/run", command)

    def pod(self, workspace_id: UUID) -> Any:
        return self.cluster.find(self.path_of("pods", pod_name(workspace_id)))

    # As the contract of storage wants it

    def write(self, home: Home, files: Files) -> None:
        write_files(self.path(home), files)
        for place in (self.path(home), *self.path(home).rglob("*")):
            os.chown(place, UID, UID)

    def files(self, home: Home) -> Files | None:
        claim = self.claim(home)
        is_complete = claim is not None and claim["metadata"]["annotations"].get(COMPLETE)
        return read_files(self.path(home)) if is_complete else None

    def leave_half_a_volume(self, home: Home) -> None:
        manifest = claim_manifest(
            self.install_id,
            home.workspace_id,
            str(uuid4()),
            size_mb=_SIZE_MB,
            storage_class=None,
            made_from=None,
        )
        path = self.path_of("persistentvolumeclaims", "").rstrip("/")
        self._seen_claims.learn(self.cluster.ask("POST", path, manifest))

    def lose_identity(self, home: Home) -> None:
        changes = {"metadata": {"annotations": {COMPLETE: None}}}
        path = self.path_of("persistentvolumeclaims", claim_name(home.workspace_id))
        # A watch is a moment behind what others do.
        self._seen_claims.learn(self.cluster.ask("PATCH", path, changes, kind=MERGE))

    def lose_volume(self, home: Home) -> None:
        path = self.path_of("persistentvolumeclaims", claim_name(home.workspace_id))
        self.cluster.ask("DELETE", path)
        block_until(lambda: self.cluster.find(path) is None)

    def claim(self, home: Home) -> Any:
        return self.cluster.find(self.path_of("persistentvolumeclaims", claim_name(home.workspace_id)))

    def path(self, home: Home) -> Path:
        """Return where its node keeps the home."""
        return home_on_node(self.cluster, self.namespace, home.workspace_id)

    def path_of(self, plural: str, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"


def _uid_of(item: Any) -> str:
    return str(item["metadata"]["uid"])


@asynccontextmanager
async def kubernetes_world(
    cluster: TestCluster,
    directory: Path,
    *,
    namespace: str = NAMESPACE,
    patch: PodPatch = NO_PATCH,
    url: str | None = None,
    access_mode: str = ONE_NODE,
) -> AsyncIterator[KubernetesWorld]:
    """An installation of its own, with the rights that the Role gives and no others. `url`: of its archives,
    where they are not to lie in the directory.
    """
    load_job_image(cluster)
    world = KubernetesWorld(cluster, namespace, directory, patch=patch, url=url, access_mode=access_mode)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(world.client.close)
        stack.enter_context(shared_archives(cluster, namespace, world.archive_claim, world.store))
        stack.callback(remove_installation, cluster, namespace, world.install_id)
        for cache in world.caches:
            cache.open()
            stack.push_async_callback(cache.close)
        await world.objects.prepare()
        await world.storage.prepare()
        yield world


@cache
def prepare_namespace(
    cluster: TestCluster, namespace: str = NAMESPACE, *, rights: Sequence[Right] = RIGHTS
) -> Path:
    """Make a namespace as an operator would, and return the kubeconfig of codehub's account there."""
    metadata = {"name": "codehub", "namespace": namespace}
    rules = [
        {
            "apiGroups": [kind.api_version.rpartition("/")[0]],
            "resources": [f"{kind.plural}/{part}" if part else kind.plural],
            "verbs": [*verbs],
        }
        for kind, part, verbs in rights
    ]
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": RESTRICTED}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "codehub"},
            "subjects": [{"kind": "ServiceAccount", "name": "codehub", "namespace": namespace}],
        },
    )
    block_until(lambda: cluster.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"))
    target = cluster.layout.place / f"codehub-{namespace}-{os.getpid()}.kubeconfig"
    return cluster.write_user(namespace, "codehub", target)


@cache
def load_job_image(cluster: TestCluster) -> None:
    """Let the cluster have codehub's own image, as it is here."""
    with tempfile.TemporaryDirectory(prefix="codehub-job-image-") as place:
        archive = Path(place) / "job.tar"
        write_job_image(archive, light_images())
        cluster.load(archive)


@contextmanager
def shared_archives(cluster: TestCluster, namespace: str, claim: str, directory: Path) -> Iterator[None]:
    """Let the cluster see the directory with the archives, as it would see a network's."""
    directory.mkdir(parents=True, exist_ok=True)
    shared: Mapping[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": claim},
        "spec": {
            **shared,
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(directory)},
            "claimRef": {"name": claim, "namespace": namespace},
        },
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {**shared, "volumeName": claim, "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.apply(volume, wanted)
    try:
        yield
    finally:
        for each in (wanted, volume):
            cluster.ask("DELETE", cluster.path_of(each))


def remove_installation(cluster: TestCluster, namespace: str, install_id: str) -> None:
    """Remove everything of an installation."""
    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
    for kind in (JOBS, PODS, CLAIMS, CONFIG_MAPS, NETWORK_POLICIES):
        cluster.ask("DELETE", kind.path(namespace), options, labelSelector=f"{INSTALL}={install_id}")


def home_on_node(cluster: TestCluster, namespace: str, workspace_id: UUID) -> Path:
    """Return where its node keeps a home."""
    claim = cluster.ask("GET", CLAIMS.path(namespace, claim_name(workspace_id)))
    volume = cluster.ask("GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    return Path(volume["spec"]["local"]["path"]) / "home"


@contextmanager
def running_in_cluster(cluster: TestCluster, data: Path, **settings: str) -> Iterator[Running]:
    """Run `codehub up` on this cluster, and remove from it afterwards what that made."""
    load_job_image(cluster)
    claim, archives = f"archives-{uuid4()}", data.parent / "shared-archives"
    namespace = settings.get("k8s_namespace", NAMESPACE)
    merged = {
        "instance_backend": "k8s",
        "k8s_kubeconfig": settings.get("k8s_kubeconfig") or str(prepare_namespace(cluster, namespace)),
        "k8s_archive_claim": claim,
        "archive_url": archives.as_uri(),
        "initial_admin_password": PASSWORD,
        "ide": "http",
        "workspace_image": LIGHT,
        "helper_image": JOB,
        **settings,
    }
    with ExitStack() as stack:
        stack.enter_context(shared_archives(cluster, namespace, claim, archives))
        stack.callback(_remove_made_with, cluster, namespace, archives)
        yield stack.enter_context(running(data, **merged))


def _remove_made_with(cluster: TestCluster, namespace: str, archives: Path) -> None:
    """The mark of its archives names the installation."""
    if (mark := archives / STORE_MARK).exists():
        remove_installation(cluster, namespace, mark.read_text().strip())
