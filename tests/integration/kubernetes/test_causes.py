"""Each cause for which a workspace does not run, made for real, as people read of it in every place: held
up where waiting can help, and then given up by a wish; an error where it can't.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.layout import NODE
from tests.support.entering import HandBrowser
from tests.support.faces import LIST, faces_of, held, unsaid, until_shown, wished
from tests.support.far_volumes import far_volume, refuse_attachment
from tests.support.hands import arrives, signed_in
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.kubernetes_world import RESTRICTED, home_on_node, running_in_cluster
from tests.support.nodes import is_ready, power_off
from tests.support.patience import PATIENCE_S, block_until
from tests.support.program import Running

from codehub.adapters.kubernetes.kinds import CLAIMS
from codehub.adapters.kubernetes.labels import claim_name, pod_name

pytestmark = KUBERNETES


@dataclass(frozen=True)
class Site:
    """A codehub in a namespace with bounds of its own, and its admin."""

    cluster: TestCluster
    namespace: str
    server: Running
    client: httpx.Client

    def make(self, **fields: Any) -> str:
        body = {"name": f"w-{uuid4().hex[:8]}", **fields}
        made = self.client.post("/workspaces", json=body)
        assert made.status_code == 201, made.text
        workspace_id: str = made.json()["id"]
        return workspace_id

    def make_running(self, **fields: Any) -> str:
        workspace_id = self.make(**fields)
        arrives(self.client, path_of(workspace_id), "RUNNING")
        return workspace_id

    def make_stopped(self) -> str:
        """One that has run."""
        workspace_id = self.make_running()
        assert wished(self.client, path_of(workspace_id), "stop").status_code == 200
        arrives(self.client, path_of(workspace_id), "STANDBY")
        return workspace_id

    def is_in(self, workspace_id: str, phase: str, *, seconds: float = PATIENCE_S) -> None:
        """Wait for a phase, by whatever errors it goes."""

        def is_there() -> bool:
            shown = self.client.get(path_of(workspace_id)).json()
            return (shown["phase"], shown["operation"]) == (phase, "NONE")

        block_until(is_there, seconds=seconds)

    def post(self, workspace_id: str, target: str, body: str) -> None:
        """Ask its IDE, which may not survive it."""
        browser = HandBrowser.of(self.server.address, self.client.cookies)
        origin = self.client.get(path_of(workspace_id)).json()["url"].rstrip("/")
        browser.go(f"{origin}/")
        browser.post(f"{origin}{target}", body)

    def pod(self, workspace_id: str) -> Any:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod_name(UUID(workspace_id))}"
        return self.cluster.find(path)

    def claim_path(self, workspace_id: str) -> str:
        return CLAIMS.path(self.namespace, claim_name(UUID(workspace_id)))


def path_of(workspace_id: str) -> str:
    return f"/workspaces/{workspace_id}"


@pytest.fixture(scope="module")
def site(kubernetes: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cluster, place = kubernetes(), tmp_path_factory.mktemp("causes")
    patch = place / "patch.yaml"
    patch.write_text("{spec: {container: {resources: {limits: {ephemeral-storage: 1Mi}}}}}")
    with (
        cluster.namespace(f"causes-{uuid4().hex[:8]}", **RESTRICTED) as namespace,
        running_in_cluster(
            cluster,
            place / "data",
            k8s_namespace=namespace,
            k8s_pod_patch=str(patch),
            default_memory_mb="128",
            default_cpus="0.5",
            limit_running_per_user="50",
            restarts="0",  # what dies is an error at once
            retries="1",
        ) as server,
        signed_in(server) as client,
    ):
        yield Site(cluster, namespace, server, client)


@pytest.fixture
def bounds(site: Site) -> Iterator[None]:
    """No Pod of more than 4 GiB, all together not more than 2."""
    largest = [{"type": "Container", "max": {"memory": "4Gi"}}]
    specs = {"LimitRange": {"limits": largest}, "ResourceQuota": {"hard": {"requests.memory": "2Gi"}}}
    metadata = {"name": "bounds", "namespace": site.namespace}
    objects = [
        {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec} for kind, spec in specs.items()
    ]
    site.cluster.apply(*objects)
    yield
    for each in objects:
        site.cluster.ask("DELETE", site.cluster.path_of(each))


# What waiting can help


@contextmanager
def an_image_whose_registry_is_away(site: Site) -> Iterator[str]:
    yield site.make(image_ref="127.0.0.1:1/nothing:1")


@contextmanager
def a_quota_that_is_used_up(site: Site) -> Iterator[str]:
    yield site.make(resources={"memory_mb": 3000})


@contextmanager
def a_home_that_can_not_be_mounted(site: Site) -> Iterator[str]:
    """The directory of its volume is not on its node."""
    workspace_id = site.make_stopped()
    directory = home_on_node(site.cluster, site.namespace, UUID(workspace_id)).parent
    away = directory.rename(directory.with_name(f"{directory.name}-away"))
    assert site.client.post(f"{path_of(workspace_id)}:start").is_success
    yield workspace_id
    away.rename(directory)
    assert site.client.post(f"{path_of(workspace_id)}:start").is_success
    arrives(site.client, path_of(workspace_id), "RUNNING")


@contextmanager
def a_home_that_no_node_gets(site: Site) -> Iterator[str]:
    """Somebody has moved it to a volume that a driver has to attach, which says that another node has it."""
    workspace_id = site.make_stopped()
    path = path_of(workspace_id)
    claim, name = site.cluster.ask("GET", site.claim_path(workspace_id)), f"far-{workspace_id}"
    site.cluster.ask("DELETE", site.claim_path(workspace_id))
    site.is_in(workspace_id, "ERROR")
    block_until(lambda: site.cluster.find(site.claim_path(workspace_id)) is None)
    with far_volume(site.cluster, name, site.namespace, claim["metadata"]["name"], storage_class="local"):
        site.cluster.ask("POST", CLAIMS.path(site.namespace), moved(claim, name))
        assert site.client.post(f"{path}:recover").is_success
        site.is_in(workspace_id, "STANDBY")
        assert site.client.post(f"{path}:start").is_success
        block_until(lambda: refuse_attachment(site.cluster, name, "the disk is attached to node-2"))
        yield workspace_id


def moved(claim: Mapping[str, Any], volume: str) -> dict[str, Any]:
    """Return the claim to make on another volume: all that it says of itself stays."""
    metadata = claim["metadata"]
    annotations = {
        name: value for name, value in metadata["annotations"].items() if name.startswith("codehub.dev/")
    }
    kept = {name: claim["spec"][name] for name in ("accessModes", "resources", "storageClassName")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": metadata["name"], "labels": metadata["labels"], "annotations": annotations},
        "spec": {**kept, "volumeName": volume},
    }


Cause = Callable[[Site], AbstractContextManager[str]]


HELD_UP: list[tuple[Cause, str, str, str]] = [
    (
        an_image_whose_registry_is_away,
        "ImageNotPulled",
        "The image 127.0.0.1:1/nothing:1 can't be fetched now",
        "choose another image if its name is wrong",
    ),
    (a_quota_that_is_used_up, "QuotaExceeded", "requests.memory=2Gi", "an admin raises the quota"),
    (
        a_home_that_can_not_be_mounted,
        "VolumeNotMounted",
        "does not exist",
        "an admin can look at its claim",
    ),
    (
        a_home_that_no_node_gets,
        "VolumeNotAttached",
        "the disk is attached to node-2",
        "an admin can mark that one as out of service",
    ),
]


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize(
    ("cause", "code", "why", "remedy"),
    HELD_UP,
    ids=[cause.__name__ for cause, *_ in HELD_UP],
)
def test_what_waiting_can_help_is_held_up_in_every_place_and_given_up_by_a_wish(
    site: Site, cause: Cause, code: str, why: str, remedy: str
) -> None:
    with cause(site) as workspace_id:
        path = path_of(workspace_id)
        assert held(site.client, path)["code"] == code
        assert unsaid(faces_of(site.server, site.client, workspace_id), why, remedy) == {}
        assert wished(site.client, path, "stop").status_code == 200
        arrives(site.client, path, "STANDBY")
        block_until(lambda: site.pod(workspace_id) is None)


# What it can't


def a_rule_of_the_cluster(site: Site) -> str:
    return site.make(resources={"memory_mb": 8000})


def too_little_memory(site: Site) -> str:
    workspace_id = site.make_running(resources={"memory_mb": 64})
    site.post(workspace_id, "/echo", "x" * (200 << 20))
    return workspace_id


def an_eviction(site: Site) -> str:
    workspace_id = site.make_running()
    site.post(workspace_id, "/run", "head -c 20000000 /dev/zero > /tmp/large")
    return workspace_id


ERRORS: list[tuple[Callable[[Site], str], str, str, str]] = [
    (
        a_rule_of_the_cluster,
        "RetryExceeded",
        "maximum memory usage per Container is 4Gi",
        "An admin has to change that rule or ours",
    ),
    (too_little_memory, "CrashLoop", "It took more than its memory of 64Mi", "Give it more"),
    (an_eviction, "CrashLoop", "Its node was short of something", "It can be started again"),
]


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize(
    ("cause", "reason", "why", "remedy"),
    ERRORS,
    ids=[cause.__name__ for cause, *_ in ERRORS],
)
def test_what_waiting_can_not_help_is_an_error_in_every_place(
    site: Site, cause: Callable[[Site], str], reason: str, why: str, remedy: str
) -> None:
    workspace_id = cause(site)
    path = path_of(workspace_id)
    # Its node looks at what was written once a minute.
    site.is_in(workspace_id, "ERROR", seconds=3 * PATIENCE_S)
    shown = until_shown(site.client, path, "error")
    assert shown["error"]["reason"] == reason, shown["error"]
    faces = faces_of(site.server, site.client, workspace_id)
    del faces[LIST]
    assert unsaid(faces, why, remedy) == {}


# What nobody can see


def test_a_lost_node_shows_in_every_place_with_what_an_operator_does_then(site: Site) -> None:
    runs, stops = site.make_running(), site.make_running()
    taint = f"kubectl taint node {NODE} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    block_until(lambda: all(is_ready(site.pod(each)) for each in (runs, stops)))
    with site.cluster.without("kubelet"):
        assert site.client.post(f"{path_of(stops)}:stop").is_success
        for each in (runs, stops):
            block_until(partial(shows, site, each, taint), seconds=180)
            power_off(site.cluster, site.pod(each))
            faces = faces_of(site.server, site.client, each)
            assert unsaid(faces, f"Its node {NODE} does not answer", taint) == {}


def shows(site: Site, workspace_id: str, text: str) -> bool:
    shown: Mapping[str, Any] = site.client.get(path_of(workspace_id)).json()
    return text in (shown["held_up"] or shown["conditions"]["infra.container_ready"])["message"]
