"""A running test cluster, asked as its administrator by plain calls
that wait, with hands on everything that can fail in it.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from tests.support.cluster.keys import kubeconfig
from tests.support.cluster.layout import NODE, Layout
from tests.support.cluster.machine import pod_processes, processes
from tests.support.patience import block_until

APPLY = "application/apply-patch+yaml"
_WATCHING = ("controllers", "scheduler", "local", "proxy", "kubelet", "metrics")


class TestCluster:
    """Components are named as in components.py: etcd, containerd, apiserver,
    controllers, scheduler, kubelet, proxy, local, metrics.
    """

    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.kubeconfig = layout.kubeconfig("admin")
        keys = layout.keys
        context = ssl.create_default_context(cafile=keys / "ca.crt")
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        self._client = httpx.Client(verify=context, base_url=layout.server)
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        within_s: float = 60,
        **params: Any,
    ) -> Any:
        answer = self._client.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            params=params,
            headers={"Content-Type": kind},
            timeout=within_s,
        )
        if answer.is_error:
            raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json else answer.text

    def find(self, path: str) -> Any | None:
        """Ask for an object that may not be there."""
        try:
            return self.ask("GET", path)
        except httpx.HTTPStatusError as failure:
            if failure.response.status_code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Make objects as they are written here, or change them to that."""
        for each in objects:
            self.ask("PATCH", self.path_of(each), each, kind=APPLY, fieldManager="tests", force="true")

    def path_of(self, item: Mapping[str, Any]) -> str:
        """Return where the API server has this object."""
        version, kind, metadata = item["apiVersion"], item["kind"], item["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._kinds:
            for each in self.ask("GET", root)["resources"]:
                if "/" not in each["name"]:
                    self._kinds[version, each["kind"]] = (each["name"], each["namespaced"])
        plural, is_namespaced = self._kinds[version, kind]
        place = f"/namespaces/{metadata.get('namespace', 'default')}" if is_namespaced else ""
        return f"{root}{place}/{plural}/{metadata['name']}"

    @contextmanager
    def namespace(self, name: str, **labels: str) -> Iterator[str]:
        """A namespace in which Pods may be made. It goes with all
        that is in it, in its own time: that takes seconds.
        """
        path = f"/api/v1/namespaces/{name}"
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        try:
            block_until(lambda: self.find(f"{path}/serviceaccounts/default"))
            yield name
        finally:
            self.ask("DELETE", path)

    def write_user(self, namespace: str, account: str, target: Path) -> Path:
        """Write a kubeconfig for a service account, which may do what roles allow it."""
        config = kubeconfig(self.layout, {"token": self.token(namespace, account)}, namespace=namespace)
        target.write_text(json.dumps(config))
        return target

    def token(self, namespace: str, account: str) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: str = self.ask("POST", path, request)["status"]["token"]
        return token

    def load(self, archive: Path) -> None:
        """Take in the images of an archive, as `docker save` writes it."""
        ctr = (self.layout.binaries / "ctr", "--address", self.layout.containerd, "--namespace", "k8s.io")
        subprocess.run((*ctr, "images", "import", archive), check=True, capture_output=True)

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run a program on the node; those of the cluster go by their names. Returns what it says."""
        init = (self.layout.place / "init").read_text()
        enter = ("nsenter", "--target", init, "--net", "--mount", "--pid")
        environment = {
            **os.environ,
            "PATH": f"{self.layout.binaries}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig),
        }
        done = subprocess.run(
            [*enter, program, *arguments], check=True, capture_output=True, text=True, env=environment
        )
        return done.stdout

    def kill(self, component: str, number: int = signal.SIGKILL) -> None:
        """End a component's process. Another begins at once, unless
        it is held; what a killed one had begun, goes on.
        """
        # One that was killed just now is about to begin again.
        pid = block_until(lambda: self._pid(component))
        os.kill(pid, number)
        block_until(lambda: self._pid(component) != pid)

    @contextmanager
    def without(self, *components: str) -> Iterator[None]:
        """Let components not run, the first one first; they return in the opposite order."""
        with ExitStack() as stack:
            for each in components:
                stack.callback(self._let, each)
                self._hold(each)
            yield

    def _hold(self, component: str) -> None:
        # Before it is killed, so that it does not begin again; after it runs, so that there is what to kill.
        pid = block_until(lambda: self._pid(component))
        (self.layout.place / "held" / component).touch()
        os.kill(pid, signal.SIGKILL)
        block_until(lambda: self._pid(component) is None)

    def _let(self, component: str) -> None:
        (self.layout.place / "held" / component).unlink(missing_ok=True)
        block_until(lambda: self._pid(component))

    @contextmanager
    def frozen(self, component: str) -> Iterator[None]:
        """Let a component keep its connections and answer nothing."""
        pid = block_until(lambda: self._pid(component))
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def processes_in(self, pod: Mapping[str, Any]) -> Sequence[int]:
        """Return what runs in a Pod, by the numbers that it has here."""
        return pod_processes(self.layout).get(pod["metadata"]["uid"], [])

    def pods_on_node(self) -> Set[str]:
        """Return the uids of Pods of which something runs, whatever the API server knows."""
        return pod_processes(self.layout).keys()

    def evict(self, pod: Mapping[str, Any]) -> None:
        """Ask for a Pod's end, as whoever drains a node does."""
        place = {name: pod["metadata"][name] for name in ("name", "namespace")}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": place}
        path = f"/api/v1/namespaces/{place['namespace']}/pods/{place['name']}/eviction"
        self.ask("POST", path, eviction)

    def snapshot(self, target: Path) -> Path:
        """Write down all that the API server knows."""
        self.run("etcdctl", "snapshot", "save", target)
        return target

    def restore(self, snapshot: Path) -> None:
        """Let the API server know again what it knew then: what has happened since has happened for
        the node alone. Who watches begins anew, as etcd's manual says: it would hear nothing of what
        has a lower number than the last that it heard of.
        """
        data = self.layout.place / "etcd/data"
        with self.without("apiserver", "etcd"):
            shutil.rmtree(data)
            peer = "http://127.0.0.1:2380"
            self.run(
                *("etcdutl", "snapshot", "restore", snapshot, "--data-dir", data, "--name", NODE),
                *("--initial-cluster", f"{NODE}={peer}", "--initial-advertise-peer-urls", peer),
            )
        self.wait_until_ready()
        for component in _WATCHING:
            self.kill(component)
        self.wait_until_usable()

    def wait_until_ready(self) -> None:
        """Wait until the API server answers."""
        block_until(self._is_ready)

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "/readyz")
        except httpx.HTTPError:
            return False
        return True

    def wait_until_usable(self) -> None:
        """Wait until Pods would run."""
        block_until(lambda: _is_node_ready(self.find(f"/api/v1/nodes/{NODE}")))
        block_until(lambda: self.find("/api/v1/namespaces/default/serviceaccounts/default"))

    def _pid(self, component: str) -> int | None:
        try:
            inside = int((self.layout.place / "pids" / component).read_text())
        except (OSError, ValueError):
            return None
        return processes(self.layout).get(inside)


def _is_node_ready(node: Any | None) -> bool:
    conditions: Sequence[Mapping[str, str]] = node["status"].get("conditions", []) if node else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
