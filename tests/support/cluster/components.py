"""What a test cluster runs, as files and command lines for `init.py`: control
plane, node, network, storage and usage, all on one machine.

Settings that a cluster elsewhere would not have are those of a node
inside a container: nothing of this machine's is set.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cluster.layout import DOMAIN, NODE, Layout

_ETCD = "http://127.0.0.1:2379"
_METRICS_PORT = "4443"
SET_BY_KUBELET = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""The whole machine's: instead of changing them, the kubelet finds files there that say what it wants."""


def write_files(layout: Layout) -> None:
    """Write all that the components read, and node.json for init.py."""
    place = layout.place
    for directory in (
        "logs",
        "pids",
        "held",
        "etcd",
        "network",
        "containerd",
        "kubelet",
        "volumes",
        "sysctl",
    ):
        (place / directory).mkdir()
    for directory in ("pod-logs", "plugins", "network/conf"):
        (place / directory).mkdir()
    (place / "etcd").chmod(0o700)
    for name, value in SET_BY_KUBELET.items():
        (place / "sysctl" / name.replace("/", ".")).write_text(f"{value}\n")
    (place / "resolv.conf").write_text(f"nameserver {layout.host_address}\n")
    (place / "containerd.toml").write_text(_containerd(layout))
    (place / "network/conf/10-pods.conflist").write_text(json.dumps(_network(layout)))
    (place / "kubelet.yaml").write_text(json.dumps(_kubelet(layout)))
    (place / "proxy.yaml").write_text(json.dumps(_proxy(layout)))
    node = {"prepare": _preparations(layout), "components": _commands(layout)}
    (place / "node.json").write_text(json.dumps(node))


def _preparations(layout: Layout) -> list[list[str]]:
    """What is done before anything runs, in namespaces of our own."""
    bind = ["mount", "--bind"]
    state = "/var/lib/cni"
    return [
        ["mount", "--make-rshared", "/"],
        ["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"],
        ["mkdir", "-p", "/run/netns", "/run/lock"],
        ["sh", "-c", f"mkdir -p {state} && mount -t tmpfs tmpfs {state}"],
        *(
            [*bind, str(layout.place / "sysctl" / name.replace("/", ".")), f"/proc/sys/{name}"]
            for name in SET_BY_KUBELET
        ),
        ["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"],
    ]


def _commands(layout: Layout) -> Mapping[str, list[str]]:
    place, keys = layout.place, layout.keys

    def flags(program: str, values: Mapping[str, str | Path]) -> list[str]:
        return [str(layout.binaries / program), *(f"--{name}={value}" for name, value in values.items())]

    def as_user(user: str) -> dict[str, Path]:
        config = layout.kubeconfig(user)
        return {
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
        }

    return {
        "etcd": flags(
            "etcd",
            {
                "name": NODE,
                "data-dir": place / "etcd/data",
                "listen-client-urls": _ETCD,
                "advertise-client-urls": _ETCD,
                "listen-peer-urls": "http://127.0.0.1:2380",
                "initial-advertise-peer-urls": "http://127.0.0.1:2380",
                "initial-cluster": f"{NODE}=http://127.0.0.1:2380",
                "log-level": "warn",
                # Each write is sooner, and an etcd that is killed loses nothing: the machine goes on.
                "unsafe-no-fsync": "true",
            },
        ),
        "containerd": flags("containerd", {"config": place / "containerd.toml", "log-level": "warn"}),
        "apiserver": flags(
            "kube-apiserver",
            {
                "etcd-servers": _ETCD,
                "advertise-address": layout.node_address,
                "secure-port": "6443",
                "service-cluster-ip-range": layout.services,
                "allow-privileged": "true",
                "authorization-mode": "Node,RBAC",
                "enable-admission-plugins": "NodeRestriction",
                "anonymous-auth": "false",
                "client-ca-file": keys / "ca.crt",
                "tls-cert-file": keys / "apiserver.crt",
                "tls-private-key-file": keys / "apiserver.key",
                "kubelet-client-certificate": keys / "apiserver-kubelet.crt",
                "kubelet-client-key": keys / "apiserver-kubelet.key",
                "kubelet-certificate-authority": keys / "ca.crt",
                "kubelet-preferred-address-types": "InternalIP",
                "service-account-issuer": f"https://kubernetes.default.svc.{DOMAIN}",
                "service-account-key-file": keys / "accounts.pub",
                "service-account-signing-key-file": keys / "accounts.key",
                "requestheader-client-ca-file": keys / "ca.crt",
                "requestheader-allowed-names": "front-proxy-client",
                "requestheader-extra-headers-prefix": "X-Remote-Extra-",
                "requestheader-group-headers": "X-Remote-Group",
                "requestheader-username-headers": "X-Remote-User",
                "proxy-client-cert-file": keys / "front-proxy.crt",
                "proxy-client-key-file": keys / "front-proxy.key",
                "enable-aggregator-routing": "true",
            },
        ),
        "controllers": flags(
            "kube-controller-manager",
            {
                **as_user("controllers"),
                "leader-elect": "false",
                # Sooner than elsewhere (50 s) a node that says nothing is taken for silent: it is waited for.
                "node-monitor-grace-period": "20s",
                "use-service-account-credentials": "true",
                "root-ca-file": keys / "ca.crt",
                "service-account-private-key-file": keys / "accounts.key",
                "cluster-signing-cert-file": keys / "ca.crt",
                "cluster-signing-key-file": keys / "ca.key",
                "bind-address": "127.0.0.1",
            },
        ),
        "scheduler": flags(
            "kube-scheduler", {**as_user("scheduler"), "leader-elect": "false", "bind-address": "127.0.0.1"}
        ),
        "kubelet": flags(
            "kubelet",
            {
                "config": place / "kubelet.yaml",
                "kubeconfig": layout.kubeconfig("kubelet"),
                "root-dir": place / "kubelet",
                "hostname-override": NODE,
                "node-ip": layout.node_address,
            },
        ),
        "proxy": flags("kube-proxy", {"config": place / "proxy.yaml"}),
        "local": flags(
            "kube-local", {"kubeconfig": layout.kubeconfig("local"), "node": NODE, "root": place / "volumes"}
        ),
        "metrics": flags(
            "metrics-server",
            {
                **as_user("metrics"),
                "secure-port": _METRICS_PORT,
                "tls-cert-file": keys / "metrics-server.crt",
                "tls-private-key-file": keys / "metrics-server.key",
                "kubelet-certificate-authority": keys / "ca.crt",
                "kubelet-preferred-address-types": "InternalIP",
                "metric-resolution": "15s",
            },
        ),
    }


def _containerd(layout: Layout) -> str:
    place = layout.place
    return f"""
version = 3
root = "{place}/containerd/root"
state = "{place}/containerd/state"
[grpc]
  address = "{layout.containerd}"
[ttrpc]
  address = "{place}/containerd.ttrpc.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{layout.binaries}"]
    conf_dir = "{place}/network/conf"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{layout.binaries}/runc"
"""


def _network(layout: Layout) -> Mapping[str, Any]:
    """Each Pod has a link of its own to the node, so that all it says is routed there, and filtered."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{layout.place}/network/addresses",
        "ranges": [[{"subnet": layout.pods.replace("/16", "/24")}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": addresses}]}


def _kubelet(layout: Layout) -> Mapping[str, Any]:
    place, keys = layout.place, layout.keys
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.name}",
        "containerRuntimeEndpoint": f"unix://{layout.containerd}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{keys}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{keys}/kubelet.crt",
        "tlsPrivateKeyFile": f"{keys}/kubelet.key",
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "nodeLeaseDurationSeconds": 8,
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 200,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "podLogsDir": f"{place}/pod-logs",
        "volumePluginDir": f"{place}/plugins",
        "resolvConf": f"{place}/resolv.conf",
        "clusterDomain": DOMAIN,
    }


def _proxy(layout: Layout) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": layout.pods,
        "hostnameOverride": NODE,
        "oomScoreAdj": 0,
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("proxy"))},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
