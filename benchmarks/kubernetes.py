"""What Kubernetes costs with codehub on it: starts beside bare Pods, archives beside Docker's and beside
`tar` and `zstd` in a Pod, on a real cluster, the light image and SeaweedFS.

`python -m benchmarks.kubernetes [--starts 10] [--size 1000000000]`
"""

import argparse
import asyncio
import logging
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import structlog
from benchmarks.corpus import Corpus, make_corpus
from benchmarks.docker import BY, always, answers, arrives, opened, running_codehub, timed
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.job_image import JOB
from tests.support.cluster.pods import PORT, address_of, claim, light_pod
from tests.support.docker import LIGHT, NO_DOCKER, cache, lent_engine
from tests.support.kubernetes import NO_KUBERNETES, lent_cluster
from tests.support.kubernetes_world import (
    NAMESPACE,
    KubernetesWorld,
    home_on_node,
    kubernetes_world,
    load_job_image,
    prepare_namespace,
    shared_archives,
)
from tests.support.patience import until
from tests.support.s3 import running_s3, set_environment
from tests.support.workspaces import in_backends

from codehub.adapters.docker.volumes import home_name
from codehub.adapters.kubernetes.access import from_kubeconfig
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.job_runner import JobRunner
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.labels import pod_name
from codehub.adapters.kubernetes.pods import UID
from codehub.adapters.kubernetes.storage import KubernetesStorage
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.operations import DesiredState, Phase
from codehub.core.rules import DEFAULT_RULES
from codehub.core.workspace import InstanceBackend, Spec, StorageBackend
from codehub.ports.storage import Home, ignore_progress

_MB = 1_000_000
_PROBE_S = 0.005
_HOME = "bench-home"
_TAR = "tar -C /home/coder/home -cf - . | zstd -3 -T0 -q -f -o /tmp/peer.tar.zst && echo done"
_ROUNDS = 3


async def main_async(options: argparse.Namespace) -> None:
    with lent_cluster() as cluster:
        load_job_image(cluster)
        prepare_namespace(cluster)
        if options.starts:
            await measure_starts(cluster, options.starts)
        if options.size:
            await measure_archive(cluster, options.size)


# Starts: the program itself, as people run it, beside bare Pods.


async def measure_starts(cluster: TestCluster, count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="codehub-bench-") as place:
        # Of its own: what a run that was killed has left is of another directory.
        archives, archive_claim = Path(place) / "archives", f"archives-{uuid4()}"
        settings = {
            "CODEHUB_INSTANCE_BACKEND": "k8s",
            "CODEHUB_K8S_KUBECONFIG": str(prepare_namespace(cluster)),
            "CODEHUB_K8S_ARCHIVE_CLAIM": archive_claim,
            "CODEHUB_ARCHIVE_URL": archives.as_uri(),
            "CODEHUB_HELPER_IMAGE": JOB,
        }
        bare, ours = [], []
        with shared_archives(cluster, NAMESPACE, archive_claim, archives):
            async with BarePods(cluster) as peer, running_codehub(settings) as (service, api, _pid):
                workspace_id = SystemIdentity().new_id()
                await service.create(workspace_id, spec(workspace_id), BY)
                await arrives(api, workspace_id, Phase.STANDBY)
                for turn in range(count + 1):
                    probe = await peer.start()
                    began = time.perf_counter()
                    watching = asyncio.create_task(peer.watch(pod_name(workspace_id)))
                    await service.set_wish(workspace_id, DesiredState.RUNNING, BY)
                    await arrives(api, workspace_id, Phase.RUNNING)
                    ended = time.perf_counter()
                    moments = await watching
                    if turn:
                        bare.append(probe)
                        ours.append([at - began for at in (*moments, ended)])
                    await service.set_wish(workspace_id, DesiredState.STANDBY, BY)
                    await arrives(api, workspace_id, Phase.STANDBY)
                await service.delete(workspace_id, BY, purge=True)
    mine, other = statistics.median(times[-1] for times in ours), statistics.median(each[-1] for each in bare)
    print(
        f"wish RUNNING to observed RUNNING: p50 of {count}: {mine * 1000:.0f} ms, a bare Pod on a claim, "
        f"created, ready and answering: {other * 1000:.0f} ms -> {mine / other:.2f}x (target: at most "
        f"1.15); load of the machine {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    for name, times in (("ours", ours), ("bare", bare)):
        made, runs, answered = (statistics.median(each) * 1000 for each in zip(*times, strict=True))
        print(
            f"  {name}: the Pod is seen after {made:.0f} ms, its container after {runs:.0f} ms, done after"
            f" {answered:.0f} ms",
            flush=True,
        )


class BarePods:
    """What anybody has to do: create a Pod, wait until it is ready, and ask until it answers."""

    def __init__(self, cluster: TestCluster) -> None:
        self._cluster = cluster
        clock = SystemClock()
        access = from_kubeconfig(cluster.kubeconfig, clock=clock)
        self._client = KubernetesClient(access, namespace=NAMESPACE, clock=clock)
        self._pods = WatchCache[Any](self._client, PODS, labels={}, project=lambda item: item, clock=clock)

    async def __aenter__(self) -> "BarePods":
        self._cluster.apply(claim(NAMESPACE, _HOME))
        self._pods.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pods.close()
        await self._client.close()
        self._cluster.ask("DELETE", self._cluster.path_of(claim(NAMESPACE, _HOME)))

    async def watch(self, name: str) -> tuple[float, float]:
        """Return when a Pod is seen, and when its container is seen to run."""
        while (pod := await self._pods.find(name)) is None:
            await asyncio.sleep(_PROBE_S)
        made_at = time.perf_counter()
        while not _has_container(pod):
            await asyncio.sleep(_PROBE_S)
            pod = await self._pods.find(name)
        return made_at, time.perf_counter()

    async def start(self) -> list[float]:
        name = f"bench-{uuid4().hex[:8]}"
        began = time.perf_counter()
        watching = asyncio.create_task(self.watch(name))
        await self._client.create(PODS, light_pod(NAMESPACE, name, _HOME))
        while not _is_ready(pod := await self._pods.find(name)):
            await asyncio.sleep(_PROBE_S)
        assert pod is not None
        while not await asyncio.to_thread(answers, PORT, pod["status"]["podIP"]):
            await asyncio.sleep(_PROBE_S)
        ended = time.perf_counter()
        moments = await watching
        await self._client.delete(PODS, name, grace_s=0)

        async def is_gone() -> bool:
            return await self._pods.find(name) is None

        await until(is_gone)
        return [at - began for at in (*moments, ended)]


def _is_ready(pod: Any) -> bool:
    conditions = [] if pod is None else pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _has_container(pod: Any) -> bool:
    statuses = [] if pod is None else pod["status"].get("containerStatuses", [])
    return any("running" in each["state"] for each in statuses)


def spec(workspace_id: UUID) -> Spec:
    made = in_backends(InstanceBackend.K8S, StorageBackend.K8S_PVC, workspace_id)
    return replace(made, ide="http", image_ref=LIGHT, desired_state=DesiredState.STANDBY)


# Archives


async def measure_archive(cluster: TestCluster, size: int) -> None:
    names = ("Kubernetes", "Docker", "tar and zstd in a Pod")
    taken: dict[str, list[float]] = {name: [] for name in names}
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corpus-", dir=cache())))
        corpus = make_corpus(place, size=size, files=size // 50_000)
        s3 = await stack.enter_async_context(running_s3(cluster.layout.host_address))
        stack.enter_context(set_environment(s3.environment()))
        bucket = await s3.new_bucket()
        works: dict[str, Callable[[], Awaitable[object]]] = {}
        world = await stack.enter_async_context(kubernetes_world(cluster, place))
        works["Kubernetes"], works[names[2]] = await _in_cluster(
            world, f"s3://{bucket}/cluster", corpus, stack
        )
        if NO_DOCKER is None:
            works["Docker"] = await _in_docker(f"s3://{bucket}/docker", corpus, stack)
        for turn in range(_ROUNDS + 1):
            for name, work in works.items():
                os.sync()
                took = await timed(work)
                if turn:
                    taken[name].append(took)
    ours = statistics.median(taken["Kubernetes"])
    print(f"archive of {size / _MB:.0f} MB to S3, read back, medians of {_ROUNDS}:")
    for name in (name for name in names if taken[name]):
        other = statistics.median(taken[name])
        aim = " (target: at least 0.9)" if name == "Docker" else ""
        print(
            f"  {name:22} {other:6.2f} s {size / _MB / other:5.0f} MB/s, Kubernetes is "
            f"{other / ours:.2f}x{aim}"
        )
    print(f"  load of the machine {os.getloadavg()[0]:.1f}", flush=True)


async def _in_cluster(
    world: KubernetesWorld, url: str, corpus: Corpus, stack: AsyncExitStack
) -> tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]:
    """Put the corpus into a claim, and return what archives it, and what a Pod does alone."""
    objects = Objects(url, installation=world.install_id)
    await objects.prepare()
    jobs = JobRunner(world.client, world.install_id, world.pods, image=JOB, clock=SystemClock())
    storage = KubernetesStorage(world.claims, jobs, archives=ObjectArchives(objects), rules=DEFAULT_RULES)
    home = Home(uuid4(), "", 4096)
    volume_id = await storage.provision(home)
    place = home_on_node(world.cluster, world.namespace, home.workspace_id)
    subprocess.run(["cp", "-a", f"{corpus.home}/.", place], check=True)
    subprocess.run(["chown", "-R", f"{UID}:{UID}", place], check=True)
    pod = light_pod(world.namespace, f"bench-{uuid4().hex[:8]}", f"ws-{home.workspace_id}-home")
    world.cluster.apply(pod)
    stack.callback(world.cluster.ask, "DELETE", world.cluster.path_of(pod), {"gracePeriodSeconds": 0})
    address = await asyncio.to_thread(address_of, world.cluster, pod)

    async def archive() -> None:
        await storage.archive(home, volume_id, uuid4(), ignore_progress, always)

    async def tar() -> None:
        async with httpx.AsyncClient(timeout=600) as client:
            answer = await client.post(f"http://{address}:{PORT}/run", content=_TAR)
        assert answer.text.strip().endswith("done"), answer.text

    return archive, tar


async def _in_docker(url: str, corpus: Corpus, stack: AsyncExitStack) -> Callable[[], Awaitable[object]]:
    engine = await stack.enter_async_context(lent_engine())
    storage, _instances, _archives = await stack.enter_async_context(opened(engine, url))
    home = Home(uuid4(), "")
    volume_id = await storage.provision(home)
    subprocess.run(["cp", "-a", f"{corpus.home}/.", engine.path_of(home_name(home.workspace_id))], check=True)

    async def archive() -> None:
        await storage.archive(home, volume_id, uuid4(), ignore_progress, always)

    return archive


def main() -> None:
    if NO_KUBERNETES is not None:
        print(f"nothing is measured: {NO_KUBERNETES}")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--size", type=int, default=1_000 * _MB)
    options, _ = parser.parse_known_args()
    import uvloop  # noqa: PLC0415  # as `codehub up` does

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    uvloop.run(main_async(options))


if __name__ == "__main__":
    main()
