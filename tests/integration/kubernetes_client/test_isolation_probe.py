"""Whose verdict a probe takes: its own Jobs', though a Pod of an earlier one of their name is there still."""

import json
from typing import Any

from tests.support.engine import ManualClock
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.isolation_probe import IsolationProbe, Probed

NAMES = ("codehub-probe-install-a", "codehub-probe-install-b")


def pod_of(name: str, uid: str, *reached: str) -> dict[str, Any]:
    """A Pod of a Job that has ended."""
    ended = {"terminated": {"exitCode": 0, "message": json.dumps(reached)}}
    labels = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": uid}
    return {
        "metadata": {"name": f"{name}-{uid}", "labels": labels},
        "spec": {"containers": [{"name": "codehub", "image": "image"}]},
        "status": {
            "phase": "Succeeded",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "codehub", "state": ended}],
        },
    }


async def test_a_probe_soon_after_another_takes_the_verdict_of_its_own_pod(
    api: HostileApi, client: KubernetesClient
) -> None:
    pods = [pod_of(name, "earlier", "workspace") for name in NAMES]

    async def answer(talk: Conversation) -> None:
        request = talk.request
        if request.method == "POST":
            name = request.body["metadata"]["name"]
            pods.append(pod_of(name, f"uid-of-{name}"))
            talk.answer({"metadata": {"name": name, "uid": f"uid-of-{name}"}}, 201)
        elif request.method == "GET":
            key, _, value = request.query["labelSelector"].partition("=")
            chosen = [pod for pod in pods if pod["metadata"]["labels"].get(key) == value]
            talk.answer({"metadata": {"resourceVersion": "1"}, "items": chosen})
        else:
            talk.answer({"kind": "Status", "status": "Success"})

    api.handlers = [answer]
    probe = IsolationProbe(client, "install", image="image", clock=ManualClock())
    assert (await probe.run()).reached == Probed((), is_admitted=False).reached
