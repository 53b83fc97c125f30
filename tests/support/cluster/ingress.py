"""An Ingress controller for one Ingress of a test cluster: nginx on this machine, with the hosts, the
certificates and the Services that the Ingress names.
"""

import base64
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.keys import sign
from tests.support.cluster.layout import Layout
from tests.support.nginx import NGINX
from tests.support.patience import block_until
from tests.support.program import end

_CONF = """
daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
{servers}
}}
"""
_SERVER = """
  server {{
    listen {address}:443 ssl; server_name {host};
    ssl_certificate {place}/{secret}.crt; ssl_certificate_key {place}/{secret}.key;
    location {path} {{
      proxy_pass http://{service}; proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto https;
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 1h; client_max_body_size 0;
    }}
  }}
"""


class ToIngress(httpx.HTTPTransport):
    """Leads every name to a cluster's Ingress, and compares it with the certificate that is shown there."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=layout.keys / "ca.crt"))
        self._address = layout.host_address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        here = httpx.Request(
            request.method,
            request.url.copy_with(host=self._address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(here)


def certificate(cluster: TestCluster, namespace: str, name: str, host: str) -> Mapping[str, Any]:
    """Return a Secret with a certificate of the cluster's authority for a host, or for all below a name."""
    keys = cluster.layout.keys
    sign(keys, name, f"/CN={name}", [f"DNS:{host}"])
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {f"tls.{part}": (keys / f"{name}.{part}").read_text() for part in ("crt", "key")},
    }


@contextmanager
def serving(cluster: TestCluster, namespace: str, name: str) -> Iterator[None]:
    """Do what this Ingress says, at the address where Pods see this machine."""
    assert NGINX is not None
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}"
    spec = cluster.ask("GET", path)["spec"]
    with TemporaryDirectory(prefix="codehub-ingress-") as directory:
        place = Path(directory)
        for each in spec["tls"]:
            _write_certificate(cluster, namespace, each["secretName"], place)
        secrets = {host: each["secretName"] for each in spec["tls"] for host in each["hosts"]}
        servers = [
            _SERVER.format(
                address=cluster.layout.host_address,
                host=rule["host"],
                place=place,
                secret=secrets[rule["host"]],
                path=route["path"],
                service=_address_of(cluster, namespace, route["backend"]["service"]),
            )
            for rule in spec["rules"]
            for route in rule["http"]["paths"]
        ]
        (place / "nginx.conf").write_text(_CONF.format(place=place, servers="".join(servers)))
        process = subprocess.Popen([NGINX, "-p", place, "-c", place / "nginx.conf"], text=True)
        try:
            block_until(lambda: process.poll() is not None or (place / "pid").exists())
            assert process.poll() is None, (place / "error.log").read_text()
            yield
        finally:
            end(process)


def _write_certificate(cluster: TestCluster, namespace: str, name: str, place: Path) -> None:
    data = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")["data"]
    for part in ("crt", "key"):
        (place / f"{name}.{part}").write_bytes(base64.b64decode(data[f"tls.{part}"]))


def _address_of(cluster: TestCluster, namespace: str, backend: Mapping[str, Any]) -> str:
    spec = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/services/{backend['name']}")["spec"]
    (port,) = (each["port"] for each in spec["ports"] if each["name"] == backend["port"]["name"])
    return f"{spec['clusterIP']}:{port}"
