"""Kubernetes as the platform: workspaces as Pods, homes as claims, archives that Jobs carry to and fro."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from codehub.adapters.kubernetes.access import Access
from codehub.adapters.kubernetes.claim_store import ClaimStore
from codehub.adapters.kubernetes.claims import parse_claim
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.default_access import find_access
from codehub.adapters.kubernetes.disk import KubernetesDisk
from codehub.adapters.kubernetes.instance_access import KubernetesInstanceAccess
from codehub.adapters.kubernetes.instances import KubernetesInstances
from codehub.adapters.kubernetes.job_runner import JobRunner
from codehub.adapters.kubernetes.kinds import CLAIMS, CONFIG_MAPS, PODS
from codehub.adapters.kubernetes.kubeconfig import AccessRefused
from codehub.adapters.kubernetes.labels import INSTALL, MARK, ROLE
from codehub.adapters.kubernetes.metrics import PodMetrics
from codehub.adapters.kubernetes.patch_trial import why_not_taken
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch, WrongPatch, read_patch
from codehub.adapters.kubernetes.pods import parse_pod
from codehub.adapters.kubernetes.rights import missing_rights
from codehub.adapters.kubernetes.storage import KubernetesStorage
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.app.archives import UnmarkedStores, archive_store
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.app.isolation import isolation
from codehub.app.language import say
from codehub.app.platform import Platform
from codehub.core.ides import IDES
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.system import Clock
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text


@asynccontextmanager
async def open_kubernetes_platform(
    settings: Settings, stores: ApiStores, system: System, marks: UnmarkedStores, *, controls: bool
) -> AsyncIterator[Platform]:
    """Yield it. `marks` says what may be marked as ours, `controls` that workspaces are run from here.

    Pods outlive codehub: the next start finds them again.
    """
    access, patch, installation = _access(settings, system.clock), _patch(settings), stores.installation
    archives = ObjectArchives(await archive_store(settings, stores, is_new=marks.archives))
    async with AsyncExitStack() as stack:
        client = KubernetesClient(access, namespace=settings.k8s_namespace, clock=system.clock)
        stack.push_async_callback(client.close)
        labels = {INSTALL: installation}
        pods = WatchCache(client, PODS, labels=labels, project=parse_pod, clock=system.clock)
        claims = WatchCache(client, CLAIMS, labels=labels, project=parse_claim, clock=system.clock)
        found_marks = WatchCache(
            client,
            CONFIG_MAPS,
            labels={**labels, ROLE: MARK},
            project=lambda entry: str(entry["metadata"]["uid"]),
            clock=system.clock,
        )
        for cache in (pods, claims, found_marks):
            cache.open()
            stack.push_async_callback(cache.close)
        store = ClaimStore(
            client,
            installation,
            claims,
            found_marks,
            identity=system.identity,
            clock=system.clock,
            storage_class=settings.k8s_storage_class,
            access_mode=settings.k8s_access_mode,
        )
        jobs = JobRunner(
            client,
            installation,
            pods,
            image=settings.helper_image,
            clock=system.clock,
            archive_claim=settings.k8s_archive_claim,
            patch=patch,
        )
        storage = KubernetesStorage(store, jobs, archives=archives, rules=settings.rules)
        instances = KubernetesInstances(client, installation, pods, store, clock=system.clock, patch=patch)
        homes = {StorageBackend.K8S_PVC: storage, StorageBackend.OBJECT_STORE: storage}
        with _explain_failures(access, settings.k8s_namespace):
            await _require_rights(client)
            if marks.homes.issuperset(homes):
                await storage.prepare()
            warnings: list[str] = []
            if controls:
                await stack.enter_async_context(isolation(settings, client, installation, patch, system))
                if (why := await why_not_taken(client, patch, settings.workspace_image)) is not None:
                    warnings.append(say("patch_not_taken", reason=failure_text(why, terminal_language())))
        disk = KubernetesDisk(store, client, pods, clock=system.clock)
        backends = Backends(
            {InstanceBackend.K8S: instances},
            {**homes},
            settings.ceilings,
            dict.fromkeys(homes, disk),
            {InstanceBackend.K8S: PodMetrics(client, installation, clock=system.clock)},
            {InstanceBackend.K8S: KubernetesInstanceAccess(client, pods)},
        )
        ide = settings.ide or next(iter(IDES))
        yield Platform(backends, ide, tuple(IDES), {StorageBackend.K8S_PVC: storage}, tuple(warnings))


def _access(settings: Settings, clock: Clock) -> Access:
    if (problem := settings.cluster_problem) is not None:
        raise CannotStart(problem)
    try:
        return find_access(settings.k8s_kubeconfig, clock=clock)
    except AccessRefused as error:
        raise CannotStart(say("no_cluster_access", error=error)) from None


def _patch(settings: Settings) -> PodPatch:
    if settings.k8s_pod_patch is None:
        return NO_PATCH
    try:
        return read_patch(settings.k8s_pod_patch, archive_claim=settings.k8s_archive_claim)
    except WrongPatch as error:
        raise CannotStart(f"CODEHUB_K8S_POD_PATCH: {error}") from None


async def _require_rights(client: KubernetesClient) -> None:
    if missing := await missing_rights(client):
        raise CannotStart(say("no_rights", rights=", ".join(missing), namespace=client.namespace))


@contextmanager
def _explain_failures(access: Access, namespace: str) -> Iterator[None]:
    """Turn failures of the cluster into CannotStart, with what to do."""
    try:
        yield
    except ActionFailed as error:
        raise CannotStart(
            say(
                "namespace",
                namespace=namespace,
                server=access.server,
                reason=failure_text(error, terminal_language()),
            )
        ) from None
    except BackendUnreachable as error:
        raise CannotStart(say("no_cluster", reason=failure_text(error, terminal_language()))) from None
