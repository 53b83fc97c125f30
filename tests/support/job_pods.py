"""The Pods of Jobs in a test cluster: found, ended in every way, copied, and looked into."""

import base64
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.cluster.hands import delete_pod
from tests.support.kubernetes_world import KubernetesWorld
from tests.support.patience import block_until, until

from codehub.adapters.kubernetes.kinds import CONFIG_MAPS, EVENTS, JOBS, PODS, SECRETS
from codehub.adapters.kubernetes.labels import HELPER, INSTALL, ROLE, WORKSPACE
from codehub.ports.storage import Home


def pod_of_job(world: KubernetesWorld, home: Home) -> Mapping[str, Any]:
    selector = f"{ROLE}={HELPER},{WORKSPACE}={home.workspace_id}"
    path = PODS.path(world.namespace)
    (pod,) = world.cluster.ask("GET", path, labelSelector=selector)["items"]
    return pod  # type: ignore[no-any-return]


async def leaves_nothing(world: KubernetesWorld, home: Home) -> None:
    """Wait until nothing of its Jobs is there: the Job itself, its Pod, its grants."""
    selector = f"{ROLE}={HELPER},{WORKSPACE}={home.workspace_id}"

    def is_empty() -> bool:
        kinds = (JOBS, PODS, SECRETS)
        paths = [kind.path(world.namespace) for kind in kinds]
        return not any(world.cluster.ask("GET", path, labelSelector=selector)["items"] for path in paths)

    await until(is_empty)


def kill_its_process(world: KubernetesWorld, pod: Mapping[str, Any]) -> None:
    os.kill(process_of(world, pod), signal.SIGKILL)


def process_of(world: KubernetesWorld, pod: Mapping[str, Any]) -> int:
    """Return the Job's program."""
    pids = world.cluster.processes_in(pod)
    (pid,) = (pid for pid in pids if b"codehub.job" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return pid


def works_on(world: KubernetesWorld, pod: Mapping[str, Any]) -> bool:
    """Whether the Job's program runs, whatever the cluster knows."""
    try:
        process_of(world, pod)
    except (ValueError, OSError):
        return False
    return True


@contextmanager
def frozen(world: KubernetesWorld, pod: Mapping[str, Any]) -> Iterator[None]:
    """Let the Job's program stand still, and go on afterwards as if no time had passed."""
    pid = process_of(world, pod)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def kill_its_shim(world: KubernetesWorld, pod: Mapping[str, Any]) -> None:
    parents = {parent_of(pid) for pid in world.cluster.processes_in(pod)}
    (shim,) = (pid for pid in parents if b"containerd-shim" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(shim, signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def delete_its_pod(world: KubernetesWorld, pod: Mapping[str, Any]) -> None:
    delete_pod(world.cluster, pod)


def force_delete_its_pod(world: KubernetesWorld, pod: Mapping[str, Any]) -> None:
    delete_pod(world.cluster, pod, gracePeriodSeconds=0)


def evict_its_pod(world: KubernetesWorld, pod: Mapping[str, Any]) -> None:
    world.cluster.evict(pod)


def make_ghost(world: KubernetesWorld, pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Pod that does what this one does, with grants of its own that are the same."""
    ghost: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": deepcopy(pod["spec"])}
    ghost["metadata"] = {"name": f"ghost-{uuid4()}", "namespace": world.namespace}
    (grants,) = (volume for volume in ghost["spec"]["volumes"] if volume["name"] == "grants")
    secret = world.cluster.ask("GET", world.path_of("secrets", grants["secret"]["secretName"]))
    copy = {"apiVersion": "v1", "kind": "Secret", "metadata": ghost["metadata"], "data": secret["data"]}
    world.cluster.apply(copy)
    grants["secret"]["secretName"] = ghost["metadata"]["name"]
    return ghost


def run_to_its_end(world: KubernetesWorld, pod: dict[str, Any]) -> Mapping[str, Any]:
    """Run a Pod, and return how it ended."""
    world.cluster.apply(pod)
    path = world.cluster.path_of(pod)

    def end() -> Mapping[str, Any] | None:
        (status,) = world.cluster.ask("GET", path)["status"].get("containerStatuses", [{}])
        ended: Mapping[str, Any] | None = status.get("state", {}).get("terminated")
        return ended

    ended = block_until(end)
    world.cluster.ask("DELETE", path)
    return ended


def given_to(pid: int) -> str:
    return "".join(Path(f"/proc/{pid}/{what}").read_text() for what in ("environ", "cmdline"))


def objects_of(world: KubernetesWorld) -> str:
    """Return all that an installation's namespace holds, secrets as they are written."""
    selector = f"{INSTALL}={world.install_id}"
    parts = []
    for kind in (PODS, JOBS, CONFIG_MAPS, SECRETS):
        answer = world.cluster.ask("GET", kind.path(world.namespace), labelSelector=selector)
        parts.append(json.dumps(answer))
        parts += [
            base64.b64decode(value).decode()
            for item in answer["items"]
            if kind is SECRETS
            for value in item["data"].values()
        ]
    return "\n".join([*parts, json.dumps(world.cluster.ask("GET", EVENTS.path(world.namespace)))])
