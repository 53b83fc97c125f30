"""The tests' own cluster is a real one: Pods run, claims bind
and grow, policies and roles refuse, usage is known.
"""

import ssl
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.pods import PORT, address_of, claim, light_pod, shell
from tests.support.kubernetes import KUBERNETES
from tests.support.patience import block_until

pytestmark = KUBERNETES


def test_a_pod_runs_and_answers_at_its_own_address(cluster: TestCluster, namespace: str) -> None:
    pod = light_pod(namespace, "light")
    cluster.apply(pod)
    assert shell(address_of(cluster, pod), "id -u").strip() == "1000"


def test_a_restricted_namespace_refuses_a_pod_that_may_be_root(cluster: TestCluster, namespace: str) -> None:
    pod = light_pod(namespace, "root")
    pod["spec"]["securityContext"] = {"runAsUser": 0}
    with pytest.raises(httpx.HTTPStatusError, match="violates PodSecurity"):
        cluster.apply(pod)


def test_a_claim_gets_a_volume_when_a_pod_wants_it_and_keeps_what_is_written(
    cluster: TestCluster, namespace: str
) -> None:
    home = claim(namespace, "home")
    first, second = light_pod(namespace, "first", claim="home"), light_pod(namespace, "second", claim="home")
    cluster.apply(home, first)
    shell(address_of(cluster, first), "echo kept > /home/coder/file")
    cluster.ask("DELETE", cluster.path_of(first))
    cluster.apply(second)
    assert shell(address_of(cluster, second), "cat /home/coder/file").strip() == "kept"


def test_a_claim_grows(cluster: TestCluster, namespace: str) -> None:
    cluster.apply(home := claim(namespace, "home", storageClassName="local-immediate"))
    path = cluster.path_of(home)
    block_until(lambda: cluster.ask("GET", path)["status"]["phase"] == "Bound")
    cluster.apply(claim(namespace, "home", "2Gi", storageClassName="local-immediate"))
    block_until(lambda: cluster.ask("GET", path)["status"]["capacity"]["storage"] == "2Gi")


def test_a_volume_goes_with_its_claim(cluster: TestCluster, namespace: str) -> None:
    cluster.apply(home := claim(namespace, "home", storageClassName="local-immediate"))
    path = cluster.path_of(home)
    volume = block_until(lambda: cluster.ask("GET", path)["spec"].get("volumeName"))
    directory = cluster.layout.place / "volumes" / volume
    assert directory.is_dir()
    block_until(lambda: cluster.ask("GET", path)["status"]["phase"] == "Bound")
    cluster.ask("DELETE", path)
    block_until(lambda: cluster.find(f"/api/v1/persistentvolumes/{volume}") is None)
    assert not directory.exists()


def test_a_network_policy_admits_whom_it_names_and_nobody_else(cluster: TestCluster, namespace: str) -> None:
    server, friend, stranger = (
        light_pod(namespace, name, who=name) for name in ("server", "friend", "stranger")
    )
    cluster.apply(server, friend, stranger)
    addresses = [address_of(cluster, pod) for pod in (server, friend, stranger)]
    assert [_reaches(address, addresses[0]) for address in addresses[1:]] == [True, True]
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": "friends"},
        "spec": {
            "podSelector": {"matchLabels": {"who": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"who": "friend"}}}]}],
        },
    }
    cluster.apply(policy)
    block_until(lambda: not _reaches(addresses[2], addresses[0]))
    assert _reaches(addresses[1], addresses[0])


def test_a_network_policy_keeps_a_pod_from_the_node_and_the_api_server(
    cluster: TestCluster, namespace: str
) -> None:
    cluster.apply(pod := light_pod(namespace, "light"))
    address = address_of(cluster, pod)
    servers = (cluster.layout.node_address, 6443), (cluster.layout.first_service, 443)
    assert all(_reaches(address, *server) for server in servers)
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": "nowhere"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
    }
    cluster.apply(policy)
    block_until(lambda: not any(_reaches(address, *server) for server in servers))


def test_an_account_may_do_what_its_role_says_and_nothing_else(cluster: TestCluster, namespace: str) -> None:
    trust = ssl.create_default_context(cafile=cluster.layout.keys / "ca.crt")
    token = {"Authorization": f"Bearer {cluster.token(namespace, 'default')}"}
    with httpx.Client(verify=trust, headers=token, base_url=cluster.layout.server) as account:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        assert account.get(pods).status_code == HTTPStatus.FORBIDDEN
        cluster.apply(*_reader(namespace))
        block_until(lambda: account.get(pods).is_success)
        assert account.get("/api/v1/namespaces/default/pods").status_code == HTTPStatus.FORBIDDEN


def test_what_a_pod_takes_is_known(cluster: TestCluster, namespace: str) -> None:
    cluster.apply(pod := light_pod(namespace, "light"))
    address_of(cluster, pod)
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/light"
    usage = block_until(lambda: _usage(cluster, path))
    assert usage["memory"].endswith("Ki")


def _usage(cluster: TestCluster, path: str) -> dict[str, str] | None:
    try:
        metrics = cluster.find(path)
    except httpx.HTTPStatusError:  # not there yet
        return None
    usage: dict[str, str] | None = metrics["containers"][0]["usage"] if metrics else None
    return usage


def _reaches(address: str, server: str, port: int = PORT) -> bool:
    connect = f"timeout 1 bash -c 'exec 3<>/dev/tcp/{server}/{port}' && echo reached"
    return "reached" in shell(address, connect)


def _reader(namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    group = "rbac.authorization.k8s.io"
    place = {"namespace": namespace, "name": "reader"}
    role = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "default"}
    return (
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": place, "rules": [role]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": place,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
            "subjects": [subject],
        },
    )
