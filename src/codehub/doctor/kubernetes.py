"""The cluster, asked itself: whether it answers, what codehub may not do there,
whether Jobs reach what they need, and whether workspaces are kept apart.
"""

import asyncio
from typing import Final

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.default_access import find_access
from codehub.adapters.kubernetes.isolation import problems
from codehub.adapters.kubernetes.isolation_probe import IsolationProbe, NotProbed
from codehub.adapters.kubernetes.kinds import CONFIG_MAPS
from codehub.adapters.kubernetes.kubeconfig import AccessRefused
from codehub.adapters.kubernetes.labels import INSTALL, MARK, ROLE
from codehub.adapters.kubernetes.metrics import are_pods_measured
from codehub.adapters.kubernetes.patch_trial import why_not_taken
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch, WrongPatch, read_patch
from codehub.adapters.kubernetes.rights import missing_rights
from codehub.adapters.system.machine import SystemClock
from codehub.doctor.findings import Finding, Verdict
from codehub.doctor.language import say
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text, message_text

_PART: Final = "kubernetes"
_ISOLATION: Final = "isolation"
_ANSWER_S_MAX = 5.0


def examine_cluster(settings: Settings) -> list[Finding]:
    if (problem := settings.cluster_problem) is not None:
        return [Finding(_PART, Verdict.BROKEN, say("cluster.jobs"), problem)]
    try:
        patch = (
            NO_PATCH
            if settings.k8s_pod_patch is None
            else read_patch(settings.k8s_pod_patch, archive_claim=settings.k8s_archive_claim)
        )
    except WrongPatch as error:
        return [Finding(_PART, Verdict.BROKEN, str(error), say("cluster.patch.do"))]
    return asyncio.run(_ask(settings, patch))


async def _ask(settings: Settings, patch: PodPatch) -> list[Finding]:
    clock, namespace = SystemClock(), settings.k8s_namespace
    do = say("cluster.do")
    try:
        access = find_access(settings.k8s_kubeconfig, clock=clock)
    except AccessRefused as error:
        return [Finding(_PART, Verdict.BROKEN, str(error), do)]
    client = KubernetesClient(access, namespace=namespace, clock=clock, answer_s_max=_ANSWER_S_MAX)
    try:
        version = (await client.version())["gitVersion"]
        if missing := await missing_rights(client):
            rights = ", ".join(missing)
            lacking = say(
                "cluster.rights", version=version, server=access.server, namespace=namespace, rights=rights
            )
            return [Finding(_PART, Verdict.BROKEN, lacking, say("cluster.rights.do"))]
        reached = say("cluster.ok", version=version, server=access.server, namespace=namespace)
        uncounted = None if await are_pods_measured(client) else say("cluster.uncounted")
        cluster = Finding(_PART, Verdict.OK, reached, uncounted)
        if (why := await why_not_taken(client, patch, settings.workspace_image)) is not None:
            refused = failure_text(why, terminal_language())
            cluster = Finding(_PART, Verdict.BROKEN, refused, say("cluster.patch.do"))
        return [cluster, *await _probe(settings, client, patch)]
    except (ActionFailed, BackendUnreachable) as error:
        return [Finding(_PART, Verdict.BROKEN, failure_text(error, terminal_language()), do)]
    finally:
        await client.close()


async def _probe(settings: Settings, client: KubernetesClient, patch: PodPatch) -> list[Finding]:
    """Try for each installation there what its policies are worth."""
    marks = await client.list_objects(CONFIG_MAPS, labels={ROLE: MARK})
    installations = sorted({mark["metadata"]["labels"].get(INSTALL, "") for mark in marks})
    if not installations:
        return [Finding(_ISOLATION, Verdict.OK, say("isolation.new"))]
    return [
        finding
        for installation in installations
        for finding in await _probe_installation(settings, client, patch, installation)
    ]


async def _probe_installation(
    settings: Settings, client: KubernetesClient, patch: PodPatch, installation: str
) -> list[Finding]:
    language = terminal_language()
    probe = IsolationProbe(
        client, installation, image=settings.helper_image, clock=client.api.clock, patch=patch
    )
    try:
        probed = await probe.run()
    except NotProbed as error:
        reason = say("isolation.untried", reason=failure_text(error, language))
        return [Finding(_ISOLATION, Verdict.BROKEN, reason, say("isolation.untried.do"))]
    if wrong := problems(probed):
        do = say("isolation.do")
        return [Finding(_ISOLATION, Verdict.BROKEN, message_text(each, language), do) for each in wrong]
    return [Finding(_ISOLATION, Verdict.OK, say("isolation.ok"))]
