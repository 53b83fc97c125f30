"""Two Pods that stand for workspaces go in for some seconds; what
one of them reaches and must not comes out.

They are Jobs with a time of their own: whatever becomes of us, the cluster removes them.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from codehub.adapters.kubernetes.answers import AlreadyExists, Conflict, NotFound
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import JOBS, PODS
from codehub.adapters.kubernetes.labels import INSTALL, JOB_UID, PROBE, ROLE
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import CONTAINER, confined_container, confined_pod, own_container
from codehub.adapters.threads import wait_until_done
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.system import Clock

WORKSPACE, API_SERVER, NODE, METADATA = "workspace", "api-server", "node", "metadata"
_PORT, _KUBELET_PORT = 8080, 10_250
# A node may have to fetch the image first.
_READY_S_MAX = 90.0
_VISIT_S_MAX = 90.0
_ADMITTED_S_MAX = 30.0
_CONNECT_S_MAX = 2.0
_POLL_S = 0.5
_TIME_LIMIT_S = 240
# Long enough to be read, once it has ended.
_KEPT_S = 30

Manifest = Mapping[str, Any]


class NotProbed(ActionFailed):
    """The probe came to no end."""


@dataclass(frozen=True, slots=True)
class Probed:
    """What was found by a Pod for which the policies of workspaces hold."""

    reached: tuple[str, ...]
    """What it must not reach, and reaches."""
    is_admitted: bool
    """Whether it is reached from here."""


class IsolationProbe:
    """Probes of one installation, one at a time however many processes ask for one."""

    def __init__(
        self,
        client: KubernetesClient,
        installation: str,
        *,
        image: str,
        clock: Clock,
        patch: PodPatch = NO_PATCH,
    ) -> None:
        self._client = client
        self._installation = installation
        self._image = image
        self._clock = clock
        self._patch = patch

    async def run(self) -> Probed:
        """Run the two Pods, and remove them. Raises NotProbed."""
        made: list[Manifest] = []
        try:
            made.append(await self._create(f"codehub-probe-{self._installation}-a", _LISTEN))
            neighbour = await self._until(made[0], _is_ready, _READY_S_MAX)
            address = neighbour["status"]["podIP"]
            is_admitted = await self._is_admitted(address)
            command = [*_VISIT, f"{WORKSPACE}={address}:{_PORT}"]
            made.append(await self._create(f"codehub-probe-{self._installation}-b", command))
            visitor = await self._until(made[1], _is_over, _VISIT_S_MAX)
            return Probed(_read_reached(visitor), is_admitted)
        except AlreadyExists:
            raise NotProbed(Message(Code.PROBE_UNDER_WAY)) from None
        finally:
            await wait_until_done(asyncio.ensure_future(self._remove(made)))

    async def _create(self, name: str, command: Sequence[str]) -> Manifest:
        body = probe_manifest(self._installation, name, self._image, command, self._patch)
        created: Manifest = await self._client.create(JOBS, body)
        return created

    async def _until(self, job: Manifest, holds: Callable[[Manifest], bool], within_s: float) -> Manifest:
        """Return the Pod of this very Job once this holds of it. One of an earlier Job may have its name."""
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        deadline = self._clock.monotonic() + within_s
        while True:
            pods: Sequence[Manifest] = await self._client.list_objects(PODS, labels={JOB_UID: uid})
            pod = next(iter(pods), None)
            if pod is not None and holds(pod):
                return pod
            if self._clock.monotonic() > deadline:
                facts = {"image": self._image, "seconds": round(within_s), "job": name}
                raise NotProbed(Message(Code.PROBE_LATE, facts))
            await self._clock.sleep(_POLL_S)

    async def _is_admitted(self, address: str) -> bool:
        deadline = self._clock.monotonic() + _ADMITTED_S_MAX
        while self._clock.monotonic() < deadline:
            try:
                async with asyncio.timeout(_CONNECT_S_MAX):
                    _, writer = await asyncio.open_connection(address, _PORT)
            except (OSError, TimeoutError):
                await self._clock.sleep(_POLL_S)
            else:
                writer.close()
                return True
        return False

    async def _remove(self, jobs: Sequence[Manifest]) -> None:
        for job in jobs:
            with suppress(NotFound, Conflict, BackendUnreachable):  # its own time removes it
                await self._client.delete(JOBS, job["metadata"]["name"], uid=job["metadata"]["uid"])


_LISTEN = ("python", "-m", "codehub.job.probe", "listen", str(_PORT))
_VISIT = (
    *("python", "-m", "codehub.job.probe", "visit"),
    f"{API_SERVER}=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)",
    f"{NODE}=$(NODE_ADDRESS):{_KUBELET_PORT}",
    f"{METADATA}=169.254.169.254:80",
)


def probe_manifest(
    installation: str, name: str, image: str, command: Sequence[str], patch: PodPatch = NO_PATCH
) -> dict[str, Any]:
    """Return the Job to create. It is removed when its time is up, and soon after it has ended."""
    labels = {INSTALL: installation, ROLE: PROBE}
    container = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*command],
        "env": [{"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}],
        "resources": {
            "requests": {"memory": "64Mi", "cpu": "10m"},
            "limits": {"memory": "64Mi", "cpu": "500m"},
        },
        "securityContext": {**confined_container(), "readOnlyRootFilesystem": True},
    }
    if command is _LISTEN:
        container["readinessProbe"] = {"tcpSocket": {"port": _PORT}, "periodSeconds": 1}
    pod = {**patch.placement, **confined_pod(), "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "activeDeadlineSeconds": _TIME_LIMIT_S,
            "ttlSecondsAfterFinished": _KEPT_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_over(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _read_reached(pod: Manifest) -> tuple[str, ...]:
    ended = own_container(pod["status"].get("containerStatuses")).get("state", {}).get("terminated") or {}
    try:
        reached = json.loads(ended.get("message") or "")
    except ValueError:
        facts = {"image": pod["spec"]["containers"][0]["image"], "exit_code": ended.get("exitCode")}
        raise NotProbed(Message(Code.PROBE_SILENT, facts)) from None
    return tuple(str(name) for name in reached)
