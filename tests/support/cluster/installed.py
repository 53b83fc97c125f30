"""codehub, installed by Helm in a test cluster, with a database and an S3 server of this machine; and
a person who comes in by its Ingress, and enters workspaces by their own origins.
"""

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import httpx
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.codehub_image import REPOSITORY, TAGS, write_codehub_image
from tests.support.cluster.images import light_images
from tests.support.cluster.ingress import ToIngress, certificate, serving
from tests.support.cluster.names import answering_names
from tests.support.docker import LIGHT
from tests.support.hands import PASSWORD
from tests.support.helm import CHART, helm
from tests.support.kubernetes_world import RESTRICTED
from tests.support.patience import PATIENCE_S, block_until
from tests.support.postgres import running_server
from tests.support.s3 import S3Server, running_s3

from codehub.adapters.kubernetes.kinds import CLAIMS
from codehub.adapters.kubernetes.labels import claim_name

RELEASE = "codehub"
HOST, WORKSPACES_HOST = "code.example.org", "*.ws.example.net"
_NAVIGATION = {
    "Accept": "text/html",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "none",
}


@dataclass(frozen=True)
class Installation:
    """Where it is, and hands on its Pods."""

    cluster: TestCluster
    namespace: str
    workspaces: str
    bucket: str
    store: S3Server
    values: Mapping[str, Any] = field(repr=False)

    def install(self) -> None:
        self._helm("install", self.values)

    def upgrade(self, **changes: Any) -> None:
        self._helm("upgrade", {**self.values, **changes})

    def _helm(self, command: str, values: Mapping[str, Any]) -> None:
        done = helm(
            *(command, RELEASE, CHART, "--namespace", self.namespace, "--wait", "--timeout", "10m"),
            values=values,
            kubeconfig=self.cluster.kubeconfig,
        )
        assert done.returncode == 0, f"{done.stderr}\n{self.story()}"

    def uninstall(self) -> None:
        arguments = ("uninstall", RELEASE, "--namespace", self.namespace, "--wait")
        done = helm(*arguments, kubeconfig=self.cluster.kubeconfig)
        assert done.returncode == 0, done.stderr

    @property
    def address(self) -> str:
        """Where the Service of the proxies is, as this machine reaches it."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{RELEASE}"
        return f"http://{self.cluster.ask('GET', path)['spec']['clusterIP']}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": HOST, "Origin": f"https://{HOST}"}

    def claim_path(self, workspace_id: str) -> str:
        return CLAIMS.path(self.workspaces, claim_name(UUID(workspace_id)))

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Return those that serve, and are to."""
        label = f"app.kubernetes.io/component={role}"
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return [
            pod
            for pod in self.cluster.ask("GET", path, labelSelector=label)["items"]
            if "deletionTimestamp" not in pod["metadata"] and _is_ready(pod)
        ]

    def kill(self, pod: Mapping[str, Any]) -> None:
        """Take a Pod away at once."""
        path = self.cluster.path_of({"apiVersion": "v1", "kind": "Pod", **pod})
        self.cluster.ask("DELETE", path, {"gracePeriodSeconds": 0})

    def log_of(self, pod: Mapping[str, Any]) -> str:
        path = self.cluster.path_of({"apiVersion": "v1", "kind": "Pod", **pod})
        with suppress(httpx.HTTPStatusError):
            log: str = self.cluster.ask("GET", f"{path}/log")
            return log
        return ""

    def story(self) -> str:
        """Tell what became of its Pods: for a failure."""
        items = self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        lines = [
            f"{pod['metadata']['name']} {pod['status'].get('containerStatuses')}\n{self.log_of(pod)[-2000:]}"
            for pod in items
        ]
        events = self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/events")["items"]
        return "\n".join([*lines, *(f"{each['reason']}: {each['message']}" for each in events[-20:])])


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def installed(cluster: TestCluster, **changes: Any) -> AsyncIterator[Installation]:
    """Install it in namespaces of its own, with two of each role."""
    host, number = cluster.layout.host_address, uuid4().hex[:8]
    async with AsyncExitStack() as stack:
        _load_image(cluster)
        stack.enter_context(answering_names(cluster))
        server = await stack.enter_async_context(
            running_server("postgres-18", is_prepared=False, address=host)
        )
        database = await stack.enter_async_context(server.empty())
        store = await stack.enter_async_context(running_s3(host))
        bucket = await store.new_bucket()
        namespace = stack.enter_context(cluster.namespace(f"codehub-{number}", **RESTRICTED))
        workspaces = f"workspaces-{number}"
        values = {
            "publicBaseUrl": f"https://{HOST}",
            "image": {"repository": REPOSITORY, "tag": TAGS[0]},
            "database": {"secretName": "database"},
            "archives": {"url": f"s3://{bucket}", "secretName": "archives", "endpoint": store.endpoint},
            "admin": {"secretName": "admin"},
            "workspaces": {"namespace": workspaces, "host": WORKSPACES_HOST, "image": LIGHT},
            "ingress": {"enabled": True, "tlsSecretName": "code", "workspacesTlsSecretName": "wildcard"},
            # The notice is what a node takes at most to hear of it, on a machine that does much else.
            "drain": {"noticeSeconds": 10, "seconds": 3},
            "settings": {
                "CODEHUB_IDE": "http",
                "CODEHUB_MAX_DISK_MB": "1024",
                "CODEHUB_DEFAULT_DISK_MB": "64",
            },
            **changes,
        }
        keys = store.environment()
        for name, content in {
            "database": {"url": f"postgresql://admin@{host}/{database}"},
            "archives": {key: keys[key] for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")},
            "admin": {"password": PASSWORD},
        }.items():
            metadata = {"name": name, "namespace": namespace}
            cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content})
        cluster.apply(
            certificate(cluster, namespace, "code", HOST),
            certificate(cluster, namespace, "wildcard", WORKSPACES_HOST),
        )
        made = Installation(cluster, namespace, workspaces, bucket, store, values)
        stack.callback(_remove, made)
        made.install()
        stack.enter_context(serving(cluster, namespace, RELEASE))
        yield made


def _remove(made: Installation) -> None:
    """Remove it with its homes, as an operator would who means it."""
    with suppress(AssertionError):
        made.uninstall()
    path = f"/api/v1/namespaces/{made.workspaces}"
    if made.cluster.find(path) is not None:
        made.cluster.ask("DELETE", path)
        block_until(lambda: made.cluster.find(path) is None)


def _load_image(cluster: TestCluster) -> None:
    with TemporaryDirectory(prefix="codehub-image-") as place:
        archive = Path(place) / "codehub.tar"
        write_codehub_image(archive, light_images())
        cluster.load(archive)


class Visitor:
    """A person with a browser, who comes back when a connection ends."""

    def __init__(self, made: Installation) -> None:
        transport = ToIngress(made.cluster.layout)
        self._client = httpx.Client(base_url=f"https://{HOST}", transport=transport, timeout=PATIENCE_S)
        answer = self.ask("POST", "/api/v1/login", {"username": "admin", "password": PASSWORD})
        assert answer.status_code == 200, answer.text

    def close(self) -> None:
        self._client.close()

    def cookies_of(self, host: str) -> str:
        """Return what a browser sends to this host."""
        request = httpx.Request("GET", f"https://{host}/")
        self._client.cookies.set_cookie_header(request)
        return request.headers["Cookie"]

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self._client.request(method, path, json=body)

    def make(self, name: str) -> str:
        answer = self.ask("POST", "/api/v1/workspaces", {"name": name})
        assert answer.status_code == 201, answer.text
        workspace_id: str = answer.json()["id"]
        return workspace_id

    def wish(self, workspace_id: str, wish: str) -> None:
        answer = self.ask("POST", f"/api/v1/workspaces/{workspace_id}:{wish}")
        assert answer.is_success, answer.text

    def show(self, workspace_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask("GET", f"/api/v1/workspaces/{workspace_id}").json()
        return shown

    def enter(self, workspace_id: str) -> str:
        """Come to its own origin, by way of the hub where no door is open yet. Returns the host."""
        origin: str = self.show(workspace_id)["url"]
        page = self._client.get(f"{origin}page", headers=_NAVIGATION, follow_redirects=True)
        assert (page.status_code, str(page.url)) == (200, f"{origin}page"), page.text
        return urlsplit(origin).netloc

    def shell(self, workspace_id: str, script: str) -> str:
        """Run it where the IDE runs, as a page of its origin may."""
        answer = self._client.post(f"https://{self.enter(workspace_id)}/run", content=script)
        assert answer.is_success, answer.text
        return answer.text

    def arrives(self, workspace_id: str, phase: str) -> None:
        deadline = time.monotonic() + 2 * PATIENCE_S
        while True:
            shown: dict[str, Any] = {}
            with suppress(httpx.TransportError, ValueError):  # a killed process takes its connections along
                shown = self.show(workspace_id)
            assert not (shown.get("error") or {}).get("is_terminal"), shown
            if (shown.get("phase"), shown.get("operation")) == (phase, "NONE"):
                return
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)


@contextmanager
def visiting(made: Installation) -> Iterator[Visitor]:
    visitor = Visitor(made)
    try:
        yield visitor
    finally:
        visitor.close()
