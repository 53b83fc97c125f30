"""What codehub must be allowed to do in its namespace goes out as questions; what it may not comes back."""

from collections.abc import Sequence

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import (
    ACCESS_REVIEWS,
    CLAIMS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NETWORK_POLICIES,
    POD_METRICS,
    PODS,
    SECRETS,
    Kind,
)

# A kind, a part of its objects or "", and verbs.
Right = tuple[Kind, str, Sequence[str]]

# What nothing works without.
NEEDED: Sequence[Right] = (
    (PODS, "", ("create", "delete", "get", "list", "watch")),
    (PODS, "log", ("get",)),
    # A WebSocket is a GET, and since Kubernetes 1.35 has to be allowed to create as well.
    (PODS, "exec", ("create", "get")),
    (CLAIMS, "", ("create", "delete", "get", "list", "patch", "watch")),
    (JOBS, "", ("create", "delete", "get", "list", "patch")),
    (SECRETS, "", ("create",)),
    (CONFIG_MAPS, "", ("create", "get", "list", "watch")),
    (EVENTS, "", ("list",)),
)
# What keeps workspaces apart. Where somebody else makes the policies, codehub need not be allowed to.
FOR_ISOLATION: Sequence[Right] = (
    (NETWORK_POLICIES, "", ("create", "patch")),
    (CONFIG_MAPS, "", ("patch",)),
)
# What shows the memory and the processors of workspaces, where the cluster counts them.
FOR_USAGE: Sequence[Right] = ((POD_METRICS, "", ("list",)),)
# All that the Role needs, and the whole of it.
RIGHTS: Sequence[Right] = (*NEEDED, *FOR_ISOLATION, *FOR_USAGE)


async def missing_rights(client: KubernetesClient, rights: Sequence[Right] = NEEDED) -> Sequence[str]:
    """Return what codehub may not do, as verb and kind."""
    missing = []
    for kind, part, verbs in rights:
        group = kind.api_version.rpartition("/")[0]
        for verb in verbs:
            attributes = {
                "namespace": client.namespace,
                "verb": verb,
                "group": group,
                "resource": kind.plural,
                "subresource": part,
            }
            review = await client.create(ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes}})
            if not review["status"]["allowed"]:
                missing.append(f"{verb} {kind.plural}{f'/{part}' if part else ''}")
    return missing
