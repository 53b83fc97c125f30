"""Homes that Jobs carry between claims and a real S3 server: the whole circle, Jobs and
stores that go away at any moment, Jobs that come late, and who can see what opens the store.
"""

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.hands import out_of_service
from tests.support.cluster.layout import NODE
from tests.support.flaky_proxy import flaky_proxy
from tests.support.job_pods import (
    delete_its_pod,
    evict_its_pod,
    force_delete_its_pod,
    frozen,
    given_to,
    kill_its_process,
    kill_its_shim,
    leaves_nothing,
    make_ghost,
    objects_of,
    pod_of_job,
    process_of,
    run_to_its_end,
    works_on,
)
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.kubernetes_world import KubernetesWorld, kubernetes_world
from tests.support.nodes import is_ready
from tests.support.patience import until
from tests.support.s3 import S3, S3Server, running_s3, set_environment
from tests.support.storages import granted, new_home, restore_home, unheard
from tests.support.trees import Picture, picture

from codehub.core.messages import Code
from codehub.core.observation import Archive
from codehub.ports.archives import archive_key
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Home

pytestmark = [KUBERNETES, S3]

# Bytes that don't compress, so that an archive has several parts of 8 MB.
LARGE = {f"d{number}/f": random.Random(number).randbytes(3_000_000) for number in range(8)}
# What a Job asks of the store, by when it does.
MOMENTS = {
    "while it sends": rb"PUT \S*partNumber=2&",
    "before it ends the upload": rb"POST \S*home\.tar\.zst\?\S*uploadId",
    "while it reads back": rb"GET \S*home\.tar\.zst\?",
}


class Gate:
    """Between Jobs and the store: refuses from some request on until it is opened again."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._refused: bytes | None = None
        self._on_reached: Callable[[], object] = lambda: None

    def shut_at(self, request: bytes, on_reached: Callable[[], object] = lambda: None) -> None:
        self.reached.clear()
        self._refused, self._on_reached = request, on_reached

    def open(self) -> None:
        self._refused = None

    def mood(self, head: bytes) -> int | None:
        if self._refused is None or not re.match(self._refused, head):
            return None
        if not self.reached.is_set():
            self.reached.set()
            self._on_reached()
        return 503


@pytest.fixture(scope="module")
def cluster(kubernetes: Kubernetes) -> TestCluster:
    return kubernetes()


@pytest.fixture(scope="module")
async def server(cluster: TestCluster) -> AsyncIterator[S3Server]:
    async with running_s3(cluster.layout.host_address) as running:
        yield running


@pytest.fixture(scope="module")
async def shared(
    cluster: TestCluster, server: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[KubernetesWorld, Gate, str]]:
    gate, bucket = Gate(), await server.new_bucket()
    async with flaky_proxy(server.endpoint, gate.mood, host=cluster.layout.host_address) as address:
        with set_environment(server.environment(AWS_ENDPOINT_URL=address)):
            url = f"s3://{bucket}/some/prefix"
            async with kubernetes_world(cluster, tmp_path_factory.mktemp("bucket"), url=url) as world:
                yield world, gate, bucket


@pytest.fixture
def world(shared: tuple[KubernetesWorld, Gate, str]) -> KubernetesWorld:
    return shared[0]


@pytest.fixture
def gate(shared: tuple[KubernetesWorld, Gate, str]) -> Gate:
    return shared[1]


@pytest.fixture
def bucket(shared: tuple[KubernetesWorld, Gate, str]) -> str:
    return shared[2]


@pytest.fixture
async def home(world: KubernetesWorld) -> Home:
    """A home of several parts."""
    made = new_home()
    await world.storage.provision(made)
    world.write(made, LARGE)
    return made


async def archive(world: KubernetesWorld, home: Home, op_id: Any = None, report: Any = unheard) -> str:
    volume_id = (await world.storage.list_volumes())[home.workspace_id].volume_id
    assert volume_id is not None
    return await world.storage.archive(home, volume_id, op_id or uuid4(), report, granted)


async def come_back(world: KubernetesWorld, home: Home, key: str) -> Picture:
    """Delete the home, restore it into a new claim, and return what it is then."""
    volume_id = (await world.storage.list_volumes())[home.workspace_id].volume_id
    await world.storage.delete_volume(home, volume_id)
    await restore_home(world, home, key)
    return pictured(world, home)


def pictured(world: KubernetesWorld, home: Home) -> Picture:
    return picture(os.fsencode(world.path(home)))


# The circle


async def test_a_home_goes_into_the_bucket_and_comes_back_as_it_was(
    world: KubernetesWorld, server: S3Server, bucket: str, home: Home
) -> None:
    before, amounts = pictured(world, home), list[Amount]()
    key = await archive(world, home, report=amounts.append)
    assert await world.archives.head(key) == Archive(committed=True)
    assert await server.unfinished_uploads(bucket) == []
    assert await come_back(world, home, key) == before
    assert {amount.stage for amount in amounts} == {"archive", "verify"}
    await leaves_nothing(world, home)


# Jobs that die


@pytest.mark.parametrize(
    ("die", "moment"),
    [
        *((kill_its_process, moment) for moment in MOMENTS),
        (kill_its_shim, "while it sends"),
        (evict_its_pod, "while it reads back"),
        (delete_its_pod, "before it ends the upload"),
        (force_delete_its_pod, "while it sends"),
    ],
)
async def test_a_job_that_dies_leaves_nothing_that_counts_and_the_next_one_succeeds(
    world: KubernetesWorld,
    gate: Gate,
    server: S3Server,
    bucket: str,
    home: Home,
    die: Callable[[KubernetesWorld, Mapping[str, Any]], None],
    moment: str,
) -> None:
    op_id = uuid4()
    key = archive_key(home.workspace_id, op_id)
    gate.shut_at(MOMENTS[moment])
    archiving = asyncio.ensure_future(archive(world, home, op_id))
    await gate.reached.wait()
    await asyncio.to_thread(die, world, pod_of_job(world, home))
    with pytest.raises((BackendUnreachable, ActionFailed)):
        await archiving
    gate.open()
    assert await world.archives.head(key) != Archive(committed=True)
    assert await server.unfinished_uploads(bucket) == []
    assert await archive(world, home, op_id) == key
    assert await world.archives.head(key) == Archive(committed=True)
    await leaves_nothing(world, home)


@pytest.mark.parametrize("component", ["kubelet", "containerd", "apiserver", "etcd"])
async def test_what_is_killed_beneath_a_job_costs_time_alone(
    world: KubernetesWorld, gate: Gate, server: S3Server, bucket: str, home: Home, component: str
) -> None:
    before, op_id = pictured(world, home), uuid4()
    gate.shut_at(MOMENTS["while it sends"])
    archiving = asyncio.ensure_future(archived_in_the_end(world, home, op_id))
    await gate.reached.wait()
    await asyncio.to_thread(world.cluster.kill, component)
    gate.open()
    key = await archiving
    assert await server.unfinished_uploads(bucket) == []
    await asyncio.to_thread(world.cluster.wait_until_ready)
    assert await in_the_end(lambda: come_back(world, home, key)) == before


async def archived_in_the_end(world: KubernetesWorld, home: Home, op_id: Any) -> str:
    return str(await in_the_end(lambda: archive(world, home, op_id)))


async def in_the_end(ask: Callable[[], Any]) -> Any:
    """Ask as a controller does: again after each outage."""
    answers: list[Any] = []

    async def is_answered() -> bool:
        try:
            answers.append(await ask())
        except BackendUnreachable:
            return False
        return True

    await until(is_answered)
    return answers[0]


async def test_a_job_killed_while_it_restores_leaves_a_home_that_does_not_count(
    world: KubernetesWorld, gate: Gate, home: Home
) -> None:
    before, key = pictured(world, home), await archive(world, home)
    volume_id = (await world.storage.list_volumes())[home.workspace_id].volume_id
    await world.storage.delete_volume(home, volume_id)
    gate.shut_at(MOMENTS["while it reads back"])
    restoring = asyncio.ensure_future(restore_home(world, home, key))
    await gate.reached.wait()
    await asyncio.to_thread(kill_its_process, world, pod_of_job(world, home))
    with pytest.raises(ActionFailed):
        await restoring
    gate.open()
    assert (await world.storage.list_volumes())[home.workspace_id].volume_id is None
    await restore_home(world, home, key)
    assert pictured(world, home) == before


# A store that goes away


async def test_a_store_that_dies_in_the_middle_and_returns_costs_time_alone(
    world: KubernetesWorld, gate: Gate, server: S3Server, bucket: str, home: Home
) -> None:
    before = pictured(world, home)
    gate.shut_at(MOMENTS["while it sends"])
    archiving = asyncio.ensure_future(archive(world, home))
    await gate.reached.wait()
    job = pod_of_job(world, home)["metadata"]["uid"]
    await server.halt()
    gate.open()
    await server.launch()
    assert pod_of_job(world, home)["metadata"]["uid"] == job
    key = await archiving
    assert await server.unfinished_uploads(bucket) == []
    assert await come_back(world, home, key) == before


# A Job that comes late


async def test_a_job_that_comes_late_commits_nothing(
    world: KubernetesWorld, gate: Gate, server: S3Server, bucket: str, home: Home
) -> None:
    """As of a node that fell silent, whose Pod somebody has force-deleted: it runs on with its grants."""
    before, op_id = pictured(world, home), uuid4()
    gate.shut_at(MOMENTS["before it ends the upload"])
    archiving = asyncio.ensure_future(archive(world, home, op_id))
    await gate.reached.wait()
    first = pod_of_job(world, home)
    ghost = make_ghost(world, first)
    await asyncio.to_thread(kill_its_process, world, first)
    with pytest.raises(ActionFailed):
        await archiving
    gate.open()
    key = await archive(world, home, op_id)
    (world.path(home) / "later").write_text("what only the late one sees")
    ended = await asyncio.to_thread(run_to_its_end, world, ghost)
    assert "StoreUnusable" in ended["message"]
    assert await server.unfinished_uploads(bucket) == []
    assert await come_back(world, home, key) == before
    world.cluster.ask("DELETE", world.path_of("secrets", ghost["metadata"]["name"]))


# A node that is lost


async def test_a_job_whose_node_is_lost_commits_nothing_and_the_next_one_loses_nothing(
    world: KubernetesWorld,
    gate: Gate,
    server: S3Server,
    bucket: str,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its node falls silent, and runs it on to its end."""
    monkeypatch.setattr("codehub.adapters.kubernetes.job_runner._GONE_S_MAX", 2.0)
    op_id = uuid4()
    key = archive_key(home.workspace_id, op_id)
    gate.shut_at(MOMENTS["before it ends the upload"])
    archiving = asyncio.ensure_future(archive(world, home, op_id))
    await gate.reached.wait()
    await until(lambda: is_ready(pod_of_job(world, home)))
    stale = pod_of_job(world, home)
    with world.cluster.without("kubelet"):
        with frozen(world, stale):
            gate.open()
            assert await lost_node(archiving) == NODE
            assert await lost_node(archive(world, home, op_id)) == NODE, "while it may run there is no other"
        await until(lambda: not works_on(world, stale))
        assert await world.archives.head(key) != Archive(committed=True)
        world.write(home, {**LARGE, "later": b"what only the next one sees"})
        before = pictured(world, home)
        with out_of_service(world.cluster):
            await until(lambda: world.cluster.find(world.path_of("pods", stale["metadata"]["name"])) is None)
    assert await archived_in_the_end(world, home, op_id) == key
    assert await world.archives.head(key) == Archive(committed=True)
    assert await server.unfinished_uploads(bucket) == []
    assert await come_back(world, home, key) == before
    await leaves_nothing(world, home)


async def lost_node(archiving: Awaitable[str]) -> object:
    with pytest.raises(BackendUnreachable) as lost:
        await archiving
    assert lost.value.message.code == Code.NODE_LOST
    return lost.value.message.facts["node"]


# Who can see what opens the store


async def test_nothing_in_the_cluster_holds_the_store_s_credentials(
    world: KubernetesWorld, gate: Gate, server: S3Server, bucket: str, home: Home
) -> None:
    workspace_id = await world.run()
    gate.shut_at(MOMENTS["while it sends"])
    archiving = asyncio.ensure_future(archive(world, home))
    await gate.reached.wait()
    job = pod_of_job(world, home)
    (container,) = job["spec"]["containers"]
    assert container["env"] == [{"name": "LC_ALL", "value": "C"}]
    assert "envFrom" not in container
    seen = {
        "what the Job's process was given": given_to(process_of(world, job)),
        "what the cluster keeps": objects_of(world),
        "what a workspace sees": await world.inside(
            workspace_id, "env; cat /proc/*/environ /proc/*/cmdline /proc/mounts; ls -R /run/secrets /grants"
        ),
    }
    gate.open()
    key = await archiving
    assert [name for name, text in seen.items() if server.secret_key in text] == []
    # What a Job holds opens one archive for a while. A workspace reaches neither that nor the store.
    assert "X-Amz-Signature" in seen["what the cluster keeps"]
    assert "AWS" not in seen["what the Job's process was given"]
    assert "X-Amz" not in seen["what the Job's process was given"] + seen["what a workspace sees"]
    assert all("secret" not in volume for volume in world.pod(workspace_id)["spec"]["volumes"])
    async with httpx.AsyncClient() as client:
        unsigned = await client.get(f"{server.endpoint}/{bucket}/some/prefix/{key}")
    assert unsigned.status_code == httpx.codes.FORBIDDEN
