"""A test cluster's certificates, made by OpenSSL, and the kubeconfigs that hold them."""

import base64
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.cluster.layout import DOMAIN, NODE, Layout

_USERS = {
    "admin": "/O=system:masters/CN=admin",
    "controllers": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "local": "/O=system:masters/CN=kube-local",
    "metrics": "/CN=system:serviceaccount:kube-system:metrics-server",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
}
"""Who speaks to the API server, each with a certificate and a kubeconfig of its own."""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


def make_keys(layout: Layout) -> None:
    keys = layout.keys
    keys.mkdir(mode=0o700)
    _openssl(
        "req", "-x509", *_KEY, "-keyout", keys / "ca.key", "-out", keys / "ca.crt",
        "-subj", f"/CN={layout.name}",
    )  # fmt: skip
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", keys / "accounts.key")
    _openssl("ec", "-in", keys / "accounts.key", "-pubout", "-out", keys / "accounts.pub")
    service = f"kubernetes.default.svc.{DOMAIN}"
    hosts = ["localhost", *(service.rsplit(".", cut)[0] for cut in range(4)), service]
    addresses = ["127.0.0.1", layout.node_address, layout.first_service]
    subjects = {
        **_USERS,
        "apiserver": "/CN=kube-apiserver",
        "apiserver-kubelet": "/O=system:masters/CN=kube-apiserver-kubelet-client",
        "front-proxy": "/CN=front-proxy-client",
        "metrics-server": "/CN=metrics-server",
    }
    names = {
        "apiserver": [f"DNS:{host}" for host in hosts] + [f"IP:{address}" for address in addresses],
        "kubelet": [f"DNS:{NODE}", f"IP:{layout.node_address}"],
        "metrics-server": ["DNS:metrics-server.kube-system.svc"],
    }
    with ThreadPoolExecutor(4) as pool:
        for made in [
            pool.submit(sign, keys, name, subject, names.get(name, [])) for name, subject in subjects.items()
        ]:
            made.result()
    for user in _USERS:
        path = layout.kubeconfig(user)
        path.touch(mode=0o600)
        client = {
            "client-certificate-data": _base64(keys / f"{user}.crt"),
            "client-key-data": _base64(keys / f"{user}.key"),
        }
        path.write_text(json.dumps(kubeconfig(layout, client)))


def kubeconfig(layout: Layout, user: dict[str, str], *, namespace: str = "default") -> dict[str, object]:
    """Say how to reach the cluster as somebody: `user` holds a certificate or a token."""
    cluster = {"server": layout.server, "certificate-authority-data": _base64(layout.keys / "ca.crt")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": namespace}}],
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }


def sign(keys: Path, name: str, subject: str, alternatives: list[str]) -> None:
    """Make a certificate and its key, by the cluster's authority."""
    extensions = [
        "basicConstraints=CA:FALSE",
        "keyUsage=digitalSignature",
        "extendedKeyUsage=serverAuth,clientAuth",
    ]
    if alternatives:
        extensions.append(f"subjectAltName={','.join(alternatives)}")
    _openssl(
        *("req", "-x509", *_KEY, "-CA", keys / "ca.crt", "-CAkey", keys / "ca.key", "-days", "30"),
        *("-keyout", keys / f"{name}.key", "-out", keys / f"{name}.crt", "-subj", subject),
        *(option for extension in extensions for option in ("-addext", extension)),
    )


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], capture_output=True, check=True)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
