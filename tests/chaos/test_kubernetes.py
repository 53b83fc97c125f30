"""Chaos on a real cluster: its components, Pods, claims and node, the API server's answers,
PostgreSQL, S3 and codehub itself are harmed while workspaces go up and down.

After each round every workspace is where its wish is, with every byte that was ever written to its
home, one Pod at most, and nothing of anybody's left over. CODEHUB_TEST_CHAOS_ROUNDS says how many rounds
(`make chaos-k8s`: 20; beside the other tests on the cluster: 3), CODEHUB_TEST_CHAOS_SEED which ones.
"""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.chaos import BY, SEED, Chaos, Harm, rounds, surroundings
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.hands import delete_pod, directory_of, drained, put_back, remake_claim
from tests.support.cluster.job_image import JOB
from tests.support.cluster.moody_api import Delay, Mood, MoodyApi, Silence, well
from tests.support.docker import LIGHT
from tests.support.kubernetes import KUBERNETES, Kubernetes
from tests.support.kubernetes_world import (
    NAMESPACE,
    home_on_node,
    load_job_image,
    prepare_namespace,
    remove_installation,
)
from tests.support.patience import until
from tests.support.s3 import S3

from codehub.adapters.kubernetes.kinds import CLAIMS, JOBS, PODS, SECRETS, VOLUMES, Kind
from codehub.adapters.kubernetes.labels import INSTALL, INSTANCE, ROLE, workspace_of
from codehub.adapters.kubernetes.pods import UID
from codehub.core.operations import Phase
from codehub.core.workspace import InstanceBackend, StorageBackend, Workspace

pytestmark = [KUBERNETES, S3]

ROUNDS = rounds(3)
Object = Mapping[str, Any]
# By these an error may come of what people do to claims by hand: it is looked at again once that is over.
_OF_CLAIMS = frozenset({"DataLost", "ContainerWithoutVolume"})


@dataclass(kw_only=True)
class OnKubernetes(Chaos):
    BACKENDS = (InstanceBackend.K8S, StorageBackend.K8S_PVC)
    IMAGE = LIGHT

    cluster: TestCluster
    moody: MoodyApi
    directory: Path
    others: Set[str]
    """The directories of volumes that were there before."""
    touched: set[UUID] = field(default_factory=set)
    """Whose claims people have deleted or made by hand in this round."""

    def harms(self) -> list[tuple[str, Harm]]:
        killed = ("kubelet", "containerd", "apiserver", "etcd", "controllers", "scheduler")
        return [
            *((f"{component} killed", partial(self.harm_component, component)) for component in killed),
            ("etcd restored", self.harm_by_an_older_snapshot),
            ("a Pod deleted", partial(self.harm_pod)),
            ("a Pod force-deleted", partial(self.harm_pod, gracePeriodSeconds=0)),
            ("a claim made anew", self.harm_claim),
            ("the node drained", self.harm_by_draining),
            ("the API server slow", partial(self.harm_answers, lambda _head: Delay(1))),
            ("the API server refuses", partial(self.harm_answers, self._refusals)),
            ("the API server's answers are lost", partial(self.harm_answers, self._silences)),
            ("codehub killed", self.harm_codehub),
            ("codehub asleep", self.harm_by_a_long_sleep),
            ("PostgreSQL restarted", self.harm_postgres),
            ("S3 killed", self.harm_s3),
        ]

    # Harm

    async def harm_component(self, component: str) -> None:
        await asyncio.to_thread(self.cluster.kill, component)

    async def harm_pod(self, **options: Any) -> None:
        if pods := self._listed(PODS):
            await asyncio.to_thread(delete_pod, self.cluster, self.around.dice.choice(pods), **options)

    async def harm_claim(self) -> None:
        claims = [each for each in self._listed(CLAIMS) if each["spec"].get("volumeName")]
        if claims:
            claim = self.around.dice.choice(claims)
            self.touched.add(_owner(claim))
            await asyncio.to_thread(remake_claim, self.cluster, claim)

    async def harm_by_draining(self) -> None:
        with drained(self.cluster, self._listed(PODS)):
            await asyncio.sleep(2 + self.around.dice.random())

    async def harm_answers(self, mood: Mood) -> None:
        self.moody.mood = mood
        await asyncio.sleep(3 + 3 * self.around.dice.random())
        self.moody.mood = well

    def _refusals(self, _head: bytes) -> int | None:
        return self.around.dice.choice((429, 500, 503, None))

    def _silences(self, _head: bytes) -> Silence | None:
        return self.around.dice.choice((Silence.BEFORE, Silence.AFTER, None, None))

    async def harm_by_an_older_snapshot(self) -> None:
        """And an operator who compares afterwards which claims and which volumes there are."""
        await asyncio.to_thread(self.cluster.snapshot, self.directory / "snapshot")
        await asyncio.sleep(1 + 2 * self.around.dice.random())
        before = self._claims_with_volumes()
        await asyncio.to_thread(self.cluster.restore, self.directory / "snapshot")
        (self.directory / "snapshot").unlink()
        after = self._claims_with_volumes()
        for uid, (claim, volume) in before.items():
            if uid not in after:
                self.touched.add(_owner(claim))
                if not await asyncio.to_thread(put_back, self.cluster, claim, volume):
                    shutil.rmtree(directory_of(volume))  # its workspace has a new one already
        for uid, (claim, volume) in after.items():
            if uid not in before and not directory_of(volume).exists():
                self.touched.add(_owner(claim))
                path = CLAIMS.path(NAMESPACE, claim["metadata"]["name"])
                self.cluster.ask("DELETE", path, {"preconditions": {"uid": uid}})

    def _claims_with_volumes(self) -> dict[str, tuple[Object, Object]]:
        pairs = {}
        for claim in self._listed(CLAIMS):
            name = claim["spec"].get("volumeName")
            volume = self.cluster.find(VOLUMES.path("", name)) if name else None
            if volume is not None:
                pairs[claim["metadata"]["uid"]] = (claim, volume)
        return pairs

    async def recover(self, row: Workspace) -> None:
        error = row.status.error_info
        if row.id in self.touched and error is not None and error.reason in _OF_CLAIMS:
            await self.around.service.recover(row.id, BY)
        else:
            await super().recover(row)

    # What the cluster tells

    def _listed(self, kind: Kind, role: str | None = None) -> Sequence[Object]:
        selector = f"{INSTALL}={self.around.installation}" + (f",{ROLE}={role}" if role else "")
        answer = self.cluster.ask("GET", kind.path(NAMESPACE), labelSelector=selector)
        items: Sequence[Object] = answer["items"]
        return items

    def instances(self) -> Sequence[UUID]:
        return [_owner(pod) for pod in self._listed(PODS, INSTANCE)]

    def homes(self) -> Set[UUID]:
        return {_owner(claim) for claim in self._listed(CLAIMS)}

    def path_of(self, workspace_id: UUID) -> Path:
        return home_on_node(self.cluster, NAMESPACE, workspace_id)

    def write(self, rows: list[Workspace], turn: int) -> None:
        super().write(rows, turn)
        for row in rows:
            if row.status.phase is Phase.RUNNING:
                for path in self.path_of(row.id).iterdir():
                    shutil.chown(path, UID, UID)

    def left(self) -> list[str]:
        kinds = (PODS, CLAIMS, JOBS, SECRETS)
        names = [f"{kind.name} {each['metadata']['name']}" for kind in kinds for each in self._listed(kind)]
        return [*names, *(f"directory {name}" for name in self._directories())]

    def _directories(self) -> Set[str]:
        return {path.name for path in (self.cluster.layout.place / "volumes").iterdir()} - self.others

    async def judge(self, rows: list[Workspace]) -> None:
        await super().judge(rows)
        await until(self._is_clean)

    async def _is_clean(self) -> bool:
        """Whether there is one volume per home, and nothing on the node that the cluster does not know.
        What a killed controller has left of a Job and its upload may stay until garbage collection.
        """
        known = {pod["metadata"]["uid"] for pod in self.cluster.ask("GET", "/api/v1/pods")["items"]}
        mine = {pod["metadata"]["uid"] for pod in self._listed(PODS, INSTANCE)}
        volumes = {claim["spec"]["volumeName"] for claim in self._listed(CLAIMS)}
        return self._directories() == volumes and mine <= self.cluster.pods_on_node() <= known


def _owner(item: Object) -> UUID:
    workspace_id = workspace_of(item)
    assert workspace_id is not None
    return workspace_id


@asynccontextmanager
async def opened(cluster: TestCluster, directory: Path) -> AsyncIterator[OnKubernetes]:
    load_job_image(cluster)
    moody = MoodyApi(cluster.layout, directory)
    settings = {
        "instance_backend": "k8s",
        "k8s_kubeconfig": str(moody.kubeconfig),
        "helper_image": JOB,
        # By the address of the proxy before the API server it could not tell.
        "k8s_reached_from": cluster.layout.host_address,
    }
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(moody.serving(prepare_namespace(cluster).read_text()))
        host = cluster.layout.host_address
        around = await stack.enter_async_context(surroundings(directory, host=host, **settings))
        stack.callback(remove_installation, cluster, NAMESPACE, around.installation)
        others = {path.name for path in (cluster.layout.place / "volumes").iterdir()}
        world = OnKubernetes(around, cluster=cluster, moody=moody, directory=directory, others=others)
        world.start_codehub()
        stack.callback(world.kill_codehub)
        yield world


@pytest.fixture
def cluster(kubernetes: Kubernetes) -> TestCluster:
    return kubernetes()


async def test_nothing_is_lost_doubled_or_orphaned_in_a_cluster(cluster: TestCluster, tmp_path: Path) -> None:
    async with opened(cluster, tmp_path) as world:
        await world.create()
        order = random.Random(SEED).sample(world.harms(), len(world.harms()))
        for turn in range(ROUNDS):
            name, harm = order[turn % len(order)]
            print(f"seed {SEED}, round {turn + 1} of {ROUNDS}: {name}")  # noqa: T201  # pytest shows it when it matters
            world.touched.clear()
            await world.play(turn, harm)
        await world.purge_everything()
        assert await world.around.s3.unfinished_uploads(world.around.bucket) == []
