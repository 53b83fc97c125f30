"""Ways into a cluster: a kubeconfig, a Pod's service account,
certificates, plugins; and what is refused, by the setting's name.
"""

import asyncio
import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes_client.conftest import ShortClock
from tests.integration.kubernetes_client.test_requests import well
from tests.support.kubernetes_api import Authority, Conversation, HostileApi

from codehub.adapters.kubernetes.access import Access, from_kubeconfig, in_cluster
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import PODS
from codehub.adapters.kubernetes.kubeconfig import AccessRefused
from codehub.ports.backends import BackendUnreachable

PLUGIN = """#!/bin/sh
echo x >> "$LOG"
printf '%s' "$KUBERNETES_EXEC_INFO" > "$LOG.info"
cat "$ANSWER"
"""


class Kubeconfig:
    """A kubeconfig for the hostile server, to be spoiled."""

    def __init__(self, place: Path, server: str, authority: Authority) -> None:
        self.path = place / "config"
        self.context: dict[str, Any] = {"cluster": "c", "user": "u", "namespace": "mine"}
        self.cluster: dict[str, Any] = {
            "server": server,
            "certificate-authority-data": encoded(authority.certificate),
        }
        self.user: dict[str, Any] = {"token": "first"}
        self.current = "now"

    def open(self, clock: ShortClock) -> Access:
        named = {"contexts": ("now", "context"), "clusters": ("c", "cluster"), "users": ("u", "user")}
        values = {"contexts": self.context, "clusters": self.cluster, "users": self.user}
        sections = {field: [{"name": name, inner: values[field]}] for field, (name, inner) in named.items()}
        self.path.write_text(json.dumps({"kind": "Config", "current-context": self.current, **sections}))
        return from_kubeconfig(self.path, clock=clock)


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


@pytest.fixture
def kubeconfig(tmp_path: Path, api: HostileApi, authority: Authority) -> Kubeconfig:
    api.handlers = [well]
    return Kubeconfig(tmp_path, f"https://127.0.0.1:{api.port}/prefix/", authority)


@pytest.fixture
def plugin(tmp_path: Path, kubeconfig: Kubeconfig) -> Path:
    """A credential plugin that prints what is in the file beside it."""
    script = tmp_path / "plugin"
    script.write_text(PLUGIN)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    answer = tmp_path / "answer"
    environment = [
        {"name": "ANSWER", "value": str(answer)},
        {"name": "LOG", "value": str(tmp_path / "runs")},
    ]
    kubeconfig.user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "env": environment,
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": True,
        }
    }
    return answer


def hand_out(answer: Path, version: str = "v1", **status: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    answer.write_text(json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status}))


async def ask(access: Access, clock: ShortClock) -> None:
    client = KubernetesClient(access, namespace="spaces", clock=clock)
    try:
        await client.get(PODS, "a")
    finally:
        await client.close()


async def test_a_token_and_an_authority_in_the_file_are_enough(
    kubeconfig: Kubeconfig, api: HostileApi, clock: ShortClock
) -> None:
    access = kubeconfig.open(clock)
    assert access.namespace == "mine"
    await ask(access, clock)
    assert api.requests[0].path == "/prefix/api/v1/namespaces/spaces/pods/a"
    assert api.requests[0].headers["authorization"] == "Bearer first"
    assert api.requests[0].headers["host"] == f"127.0.0.1:{api.port}"


async def test_files_are_named_from_the_kubeconfig_s_folder(
    kubeconfig: Kubeconfig, api: HostileApi, authority: Authority, clock: ShortClock, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "token").write_text("from a file\n")
    del kubeconfig.cluster["certificate-authority-data"]
    kubeconfig.cluster["certificate-authority"] = "ca.pem"
    kubeconfig.user = {"tokenFile": "token", "token": "older"}
    await ask(kubeconfig.open(clock), clock)
    assert api.requests[0].headers["authorization"] == "Bearer from a file"


@pytest.mark.parametrize("where", ["data", "file"])
async def test_a_client_certificate_says_who_asks(
    kubeconfig: Kubeconfig, api: HostileApi, authority: Authority, clock: ShortClock, where: str
) -> None:
    certificate, key = authority.issue("ada")
    kubeconfig.user = (
        {"client-certificate": str(certificate), "client-key": str(key)}
        if where == "file"
        else {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    )
    await ask(kubeconfig.open(clock), clock)
    assert api.client_names == ["ada"]
    assert "authorization" not in api.requests[0].headers


async def test_a_server_may_have_another_name_than_its_address(
    kubeconfig: Kubeconfig, api: HostileApi, clock: ShortClock
) -> None:
    kubeconfig.cluster["tls-server-name"] = "elsewhere.test"
    await ask(kubeconfig.open(clock), clock)
    kubeconfig.cluster["tls-server-name"] = "wrong.test"
    with pytest.raises(BackendUnreachable, match=r"KubernetesUntrusted .*Hostname mismatch"):
        await ask(kubeconfig.open(clock), clock)
    assert len(api.requests) == 1


async def test_a_server_of_another_authority_is_told_nothing(
    kubeconfig: Kubeconfig, api: HostileApi, clock: ShortClock, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    other.make()
    kubeconfig.cluster["certificate-authority-data"] = encoded(other.certificate)
    with pytest.raises(BackendUnreachable, match="KubernetesUntrusted"):
        await ask(kubeconfig.open(clock), clock)
    assert api.requests == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_hands_out_a_token_until_it_expires(
    kubeconfig: Kubeconfig, api: HostileApi, plugin: Path, clock: ShortClock, tmp_path: Path, version: str
) -> None:
    kubeconfig.user["exec"]["apiVersion"] = f"client.authentication.k8s.io/{version}"
    hand_out(plugin, version, token="handed out", expirationTimestamp="2100-01-01T00:00:00Z")
    access = kubeconfig.open(clock)
    await ask(access, clock)
    await ask(access, clock)
    assert api.requests[1].headers["authorization"] == "Bearer handed out"
    assert (tmp_path / "runs").read_text().count("x") == 1
    request = json.loads((tmp_path / "runs.info").read_text())
    assert request["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert request["spec"]["interactive"] is False
    assert request["spec"]["cluster"]["server"] == kubeconfig.cluster["server"]


async def test_a_plugin_s_token_that_the_api_refuses_is_fetched_anew_whatever_the_clock_says(
    kubeconfig: Kubeconfig, api: HostileApi, plugin: Path, clock: ShortClock
) -> None:
    async def refuse_once(talk: Conversation) -> None:
        hand_out(plugin, token="new")
        talk.refuse(401)

    api.handlers = [refuse_once, well]
    hand_out(plugin, token="old", expirationTimestamp="2100-01-01T00:00:00Z")
    await ask(kubeconfig.open(clock), clock)
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer old", "Bearer new"]


async def test_a_plugin_hands_out_a_certificate(
    kubeconfig: Kubeconfig, api: HostileApi, authority: Authority, plugin: Path, clock: ShortClock
) -> None:
    certificate, key = authority.issue("machine")
    hand_out(plugin, clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())
    await ask(kubeconfig.open(clock), clock)
    assert api.client_names == ["machine"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho 'log in first' >&2\nexit 3\n", r"\(3\) log in first"),
        ("#!/bin/sh\necho hello\n", "text="),
        ('#!/bin/sh\necho \'{"apiVersion": "v9", "status": {"token": "x"}}\'\n', "apiVersion is v9"),
        (None, "see the manual"),
    ],
)
async def test_a_plugin_that_fails_is_an_outage_that_names_it(
    kubeconfig: Kubeconfig, plugin: Path, clock: ShortClock, script: str | None, reason: str
) -> None:
    kubeconfig.user["exec"]["installHint"] = "see the manual"
    program = plugin.with_name("plugin")
    if script is None:
        program.unlink()
    else:
        program.write_text(script)
    with pytest.raises(BackendUnreachable, match=f"KubernetesPlugin .*{reason}"):
        await ask(kubeconfig.open(clock), clock)


@pytest.mark.parametrize(
    ("section", "values", "setting"),
    [
        ("cluster", {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is not allowed"),
        ("cluster", {"proxy-url": "http://proxy"}, "proxy-url is not allowed"),
        ("cluster", {"server": "http://127.0.0.1:1"}, "is no https:// address"),
        ("cluster", {"server": "https://127.0.0.1:99999"}, "has no valid port"),
        ("cluster", {"server": None}, "server is missing"),
        ("cluster", {"server": 7}, "server is no text"),
        ("cluster", {"certificate-authority-data": "???"}, "certificate-authority-data is no base64"),
        ("cluster", {"certificate-authority-data": "aGVsbG8="}, "certificate-authority holds no certificate"),
        ("user", {"auth-provider": {"name": "gcp"}}, "auth-provider is not allowed"),
        ("user", {"username": "ada"}, "username is not allowed"),
        ("user", {"as": "root"}, "as is not allowed"),
        ("user", {"tokenFile": "nowhere"}, "tokenFile .*nowhere can't be read"),
        ("user", {"client-certificate-data": "aGVsbG8="}, "client-certificate and client-key, or neither"),
        (
            "user",
            {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="},
            "don't make a pair",
        ),
        ("user", {"exec": {"apiVersion": "v1alpha1", "command": "x"}}, "exec.apiVersion is v1alpha1"),
        (
            "user",
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}},
            "exec.command is missing",
        ),
        ("context", {"cluster": "other"}, r"clusters\[other\] is missing"),
        ("context", {"user": "nobody"}, r"users\[nobody\] is missing"),
    ],
)
def test_what_is_unsafe_or_missing_is_refused_by_its_name(
    kubeconfig: Kubeconfig, clock: ShortClock, section: str, values: dict[str, Any], setting: str
) -> None:
    getattr(kubeconfig, section).update(values)
    with pytest.raises(AccessRefused, match=setting):
        kubeconfig.open(clock)


def test_a_kubeconfig_without_a_current_context_is_refused(kubeconfig: Kubeconfig, clock: ShortClock) -> None:
    kubeconfig.current = ""
    with pytest.raises(AccessRefused, match=r"contexts\[\] is missing"):
        kubeconfig.open(clock)


@pytest.mark.parametrize("text", [None, "{", "[]", "just words"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, clock: ShortClock, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AccessRefused, match=str(path)):
        from_kubeconfig(path, clock=clock)


async def test_a_pod_uses_its_service_account(
    api: HostileApi, authority: Authority, clock: ShortClock, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (tmp_path / "token").write_text("of the pod")
    (tmp_path / "namespace").write_text("spaces")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)}
    api.handlers = [well]
    access = in_cluster(clock=clock, environ=environ, place=tmp_path)
    assert access.namespace == "spaces"
    await ask(access, clock)
    assert api.requests[0].headers["authorization"] == "Bearer of the pod"


def test_a_machine_that_is_no_pod_is_told_what_to_set(clock: ShortClock, tmp_path: Path) -> None:
    with pytest.raises(AccessRefused, match="CODEHUB_K8S_KUBECONFIG"):
        in_cluster(clock=clock, environ={}, place=tmp_path)
    with pytest.raises(AccessRefused, match="automountServiceAccountToken"):
        in_cluster(clock=clock, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, place=tmp_path)


async def test_an_authority_that_is_replaced_is_read_again(
    kubeconfig: Kubeconfig, api: HostileApi, authority: Authority, clock: ShortClock, tmp_path: Path
) -> None:
    """A cluster gets a new authority: the old one's connection fails, and the file is read again at once."""
    other = Authority(tmp_path / "other")
    other.make()
    file = tmp_path / "ca.pem"
    file.write_bytes(other.certificate.read_bytes())
    del kubeconfig.cluster["certificate-authority-data"]
    kubeconfig.cluster["certificate-authority"] = str(file)
    access = kubeconfig.open(clock)
    with pytest.raises(BackendUnreachable, match="KubernetesUntrusted"):
        await ask(access, clock)
    replacement = tmp_path / "replacement"
    replacement.write_bytes(authority.certificate.read_bytes())
    replacement.replace(file)
    await ask(access, clock)
    assert len(api.requests) == 1


def test_no_key_is_left_on_a_disk(
    kubeconfig: Kubeconfig, authority: Authority, clock: ShortClock, tmp_path: Path
) -> None:
    certificate, key = authority.issue("secret")
    kubeconfig.user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    before = set(Path("/proc/self/fd").iterdir())
    kubeconfig.open(clock)
    assert set(Path("/proc/self/fd").iterdir()) == before
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


async def test_many_requests_at_once_read_the_credentials_once(
    kubeconfig: Kubeconfig, api: HostileApi, plugin: Path, clock: ShortClock, tmp_path: Path
) -> None:
    hand_out(plugin, token="t")
    client = KubernetesClient(kubeconfig.open(clock), namespace="spaces", clock=clock)
    await asyncio.gather(*(client.get(PODS, "a") for _ in range(20)))
    await client.close()
    assert len(api.requests) == 20
    assert (tmp_path / "runs").read_text().count("x") == 1
