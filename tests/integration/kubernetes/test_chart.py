"""codehub's chart: what Helm makes of its values, and what the cluster's own strict check says to that."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import pytest
import yaml  # type: ignore[import-untyped]
from tests.support.added_kinds import added_kinds
from tests.support.cluster.cluster import TestCluster
from tests.support.helm import CHART, EVERYTHING, MINIMAL, ROOT, helm, of_kind, program, render
from tests.support.kubernetes import KUBERNETES

from codehub.settings import PREFIX, Settings

pytestmark = KUBERNETES

ROLES = ("api", "proxy", "controller")
ADDED_KINDS = {"ServiceMonitor", "HTTPRoute"}
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["minimal", "everything"])
def test_helm_finds_nothing_to_say_about_it(values: Mapping[str, Any]) -> None:
    linted = helm("lint", "--strict", "--quiet", CHART, "--values", MINIMAL, values=values)
    assert (linted.returncode, linted.stdout) == (0, ""), linted.stderr


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["minimal", "everything"])
def test_the_api_server_takes_all_of_it(cluster: TestCluster, values: Mapping[str, Any]) -> None:
    """In its strict check, and with nothing to remark where Pod Security is restricted."""
    release, workspaces = f"chart-{uuid4().hex[:8]}", f"workspaces-{uuid4().hex[:8]}"
    made = {**values, "workspaces": {**values.get("workspaces", {}), "namespace": workspaces}}
    with cluster.namespace(release, **RESTRICTED), cluster.namespace(workspaces), added_kinds(cluster):
        objects = render(made, release=release)
        applied = checked_strictly(cluster, objects)
        misspelt = checked_strictly(
            cluster, [misspell(each) for each in objects if each["kind"] in ADDED_KINDS]
        )
    assert (applied.returncode, applied.stderr) == (0, "")
    assert applied.stdout.count("(server dry run)") == len(objects)
    assert misspelt.stderr.count(".spec.misspelt: field not declared in schema") == len(ADDED_KINDS) * bool(
        values
    )


def checked_strictly(
    cluster: TestCluster, objects: Sequence[Mapping[str, Any]]
) -> subprocess.CompletedProcess[str]:
    kubectl = (cluster.layout.binaries / "kubectl", "--kubeconfig", cluster.kubeconfig)
    return subprocess.run(
        [*kubectl, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-"],
        input=yaml.safe_dump_all(objects),
        capture_output=True,
        text=True,
        check=False,
    )


def misspell(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**item, "spec": {**item["spec"], "misspelt": True}}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"publicBaseUrl": ""}, "/publicBaseUrl"),
        ({"publicBaseUrl": "https://code.example.org/path"}, "/publicBaseUrl"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"database": {"secretName": ""}}, "/database/secretName"),
        ({"database": {"url": "postgresql://admin:secret@db/codehub"}}, "'url' not allowed"),
        ({"archives": {"url": "file:///srv/archives"}}, "/archives/url"),
        ({"archives": {"accessKey": "key"}}, "'accessKey' not allowed"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "/metrics/secretName"),
        ({"gateway": {"enabled": True}}, "/gateway/parentRefs"),
        ({"workspaces": {"host": "ws.example.net"}}, "/workspaces/host"),
        (
            {"publicBaseUrl": "http://code.example.org", "workspaces": {"host": "*.ws.example.net"}},
            "/publicBaseUrl",
        ),
        ({"ingress": {"workspacesTlsSecretName": "ws"}}, "/ingress/workspacesTlsSecretName"),
        ({"proxy": {"replica": 3}}, "'replica' not allowed"),
        ({"settings": {"CODEHUB_DATABASE_URL": "postgresql://…"}}, "CODEHUB_DATABASE_URL"),
        ({"settings": {"CODEHUB_PORT": "80"}}, "CODEHUB_PORT"),
        ({"settings": {"STANDBY_TTL_SECONDS": "1"}}, "STANDBY_TTL_SECONDS"),
        ({"settings": {"CODEHUB_TRASH_SECONDS": 1000000}}, "CODEHUB_TRASH_SECONDS"),
    ],
)
def test_values_that_can_not_be_are_refused_by_their_name(values: Mapping[str, Any], problem: str) -> None:
    refused = helm("template", "codehub", CHART, "--values", MINIMAL, values=values)
    assert refused.returncode != 0
    assert problem in refused.stderr


def test_its_settings_are_settings_and_what_it_sets_itself_is_no_value() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    schema = json.loads((CHART / "values.schema.json").read_text())
    kept = set(schema["properties"]["settings"]["propertyNames"]["not"]["enum"])
    for objects in (render(), render(EVERYTHING)):
        for pod in pods(objects):
            (container,) = pod["containers"]
            names = [each["name"] for each in container["env"]]
            assert len(names) == len(set(names))
            named = {name for name in names if name.startswith(PREFIX)} - {"CODEHUB_CACHE"}
            assert named <= known
            assert named <= kept | {"CODEHUB_STANDBY_TTL_SECONDS"}


def test_the_migration_runs_where_the_api_does() -> None:
    by_name = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in render(EVERYTHING)
        if each["kind"] in ("Deployment", "Job")
    }
    for name in ("nodeSelector", "tolerations", "affinity"):
        assert by_name["codehub-migrate"][name] == by_name["codehub-api"][name] == EVERYTHING["api"][name]


def test_secrets_are_references_alone() -> None:
    secret_names = re.compile("PASSWORD|TOKEN|SECRET|ACCESS_KEY|(DATABASE|REDIS)_URL")
    objects = render(EVERYTHING)
    assert of_kind(objects, "Secret") == []
    references = set()
    for pod in pods(objects):
        for each in pod["containers"][0]["env"]:
            if secret_names.search(each["name"]):
                references.add(each["valueFrom"]["secretKeyRef"]["name"])
                assert "value" not in each
    assert references == {"codehub-database", "codehub-archives", "redis", "admin", "metrics"}


def test_codehub_s_own_pods_may_nothing_that_they_do_not_need() -> None:
    for pod in pods(render(EVERYTHING)):
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert pod["enableServiceLinks"] is False, "a Service may not name settings"


def test_a_role_is_given_the_time_that_its_drain_takes() -> None:
    for notice_s, rest_s in ((5, 20), (30, 600)):
        for deployment in of_kind(
            render({"drain": {"noticeSeconds": notice_s, "seconds": rest_s}}), "Deployment"
        ):
            pod = deployment["spec"]["template"]["spec"]
            environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
            assert environment["CODEHUB_DRAIN_NOTICE_SECONDS"] == str(notice_s)
            assert environment["CODEHUB_DRAIN_SECONDS"] == str(rest_s)
            assert pod["terminationGracePeriodSeconds"] >= notice_s + rest_s + 5
            assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("release", ["codehub", "other"])
def test_its_account_may_nothing_outside_of_the_workspaces_namespace(release: str) -> None:
    objects = render(release=release)
    assert not [each for each in objects if each["kind"].startswith("Cluster")]
    (role,) = of_kind(objects, "Role")
    (binding,) = of_kind(objects, "RoleBinding")
    assert {each["metadata"]["namespace"] for each in (role, binding)} == {"codehub-workspaces"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (account,) = of_kind(objects, "ServiceAccount")
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": release}
    assert binding["subjects"] == [subject]


def test_the_namespace_with_everybody_s_homes_is_never_removed_by_helm() -> None:
    (namespace,) = of_kind(render(), "Namespace")
    assert namespace["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert of_kind(render({"workspaces": {"createNamespace": False}}), "Namespace") == []


def test_an_autoscaler_alone_says_how_many_proxies_there_are() -> None:
    objects = render(EVERYTHING)
    replicas = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"].get("replicas")
        for each in of_kind(objects, "Deployment")
    }
    assert replicas == {"api": 2, "controller": 2, "proxy": None}
    (scaler,) = of_kind(objects, "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "codehub-proxy"
    assert of_kind(render(), "HorizontalPodAutoscaler") == []


def test_what_no_cluster_has_by_itself_leads_to_what_there_is() -> None:
    objects = render(EVERYTHING)
    (route,) = of_kind(objects, "HTTPRoute")
    assert route["spec"]["hostnames"] == ["code.example.org", "*.ws.example.net"]
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    services = {each["metadata"]["name"]: each for each in of_kind(objects, "Service")}
    assert services[backend["name"]]["spec"]["ports"][0]["port"] == backend["port"]
    (monitor,) = of_kind(objects, "ServiceMonitor")
    api = services["codehub-api"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= api["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == api["spec"]["ports"][0]["name"]
    assert endpoint["authorization"]["credentials"] == {"name": "metrics", "key": "token"}


@pytest.mark.parametrize("host", ["*.ws.example.net", "*.ws.example.net:8443"])
def test_origins_of_workspaces_lead_to_the_proxies_with_a_certificate_of_their_own(host: str) -> None:
    objects = render({"workspaces": {"host": host}, "ingress": {"workspacesTlsSecretName": "ws-example-net"}})
    (ingress,) = of_kind(objects, "Ingress")
    code, workspaces = ingress["spec"]["rules"]
    assert (code["host"], workspaces["host"]) == ("code.example.org", "*.ws.example.net")
    assert code["http"] == workspaces["http"]
    assert {each["secretName"]: each["hosts"] for each in ingress["spec"]["tls"]} == {
        "codehub-tls": ["code.example.org"],
        "ws-example-net": ["*.ws.example.net"],
    }
    assert workspace_hosts(objects) == {host}


def test_without_a_wildcard_name_workspaces_have_no_origins() -> None:
    objects = render()
    (ingress,) = of_kind(objects, "Ingress")
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["code.example.org"]
    assert workspace_hosts(objects) == {"none"}


def workspace_hosts(objects: Sequence[dict[str, Any]]) -> set[str]:
    """Return what the roles are told of origins."""
    environments = [each["spec"]["template"]["spec"] for each in of_kind(objects, "Deployment")]
    return {
        each["value"]
        for pod in environments
        for each in pod["containers"][0]["env"]
        if each["name"] == "CODEHUB_WORKSPACE_HOST"
    }


def test_every_pod_is_under_a_policy_and_the_api_is_for_proxies_and_prometheus() -> None:
    policies = {
        each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: each["spec"]
        for each in of_kind(render(), "NetworkPolicy")
    }
    assert set(policies) == {*ROLES, "migrate"}
    assert "ingress" not in policies["controller"]
    assert "ingress" not in policies["migrate"]
    (rule,) = policies["api"]["ingress"]
    first, second = rule["from"]
    assert first["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "proxy"
    assert second["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}


def test_the_plain_manifests_are_current() -> None:
    made = subprocess.run(
        [ROOT / "scripts/manifests", program()], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "deploy/kubernetes/codehub.yaml").read_text() == made, "run `make manifests`"


def test_its_version_is_codehub_s() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project


@pytest.mark.parametrize("page", ["docs/kubernetes.md"])
def test_every_value_is_documented(page: str) -> None:
    text = (ROOT / page).read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [name for name in values if f"`{name}" not in text] == []


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    templates = [
        each["spec"]["template"]["spec"] for each in objects if each["kind"] in ("Deployment", "Job")
    ]
    assert len(templates) == len(ROLES) + 1
    return templates
