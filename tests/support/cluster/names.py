"""Names of a test cluster's Services, which it has no resolver for: asked by
Pods at the address where they expect one, answered by what the API server has.
"""

import re
import socketserver
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address

from tests.support.cluster.cluster import TestCluster
from tests.support.cluster.layout import DOMAIN

_SERVICE = re.compile(rf"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(\.{re.escape(DOMAIN)})?")
_HEAD_BYTES, _TYPE_A, _TTL_S = 12, 1, 1
_ANSWER, _UNKNOWN = 0x8180, 0x8183


@contextmanager
def answering_names(cluster: TestCluster) -> Iterator[None]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            question, channel = self.request
            channel.sendto(_answer(cluster, question), self.client_address)

    with socketserver.ThreadingUDPServer((cluster.layout.host_address, 53), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def _answer(cluster: TestCluster, question: bytes) -> bytes:
    labels, place = [], _HEAD_BYTES
    while (length := question[place]) > 0:
        labels.append(question[place + 1 : place + 1 + length].decode())
        place += 1 + length
    asked = question[_HEAD_BYTES : place + 5]  # with its type and class
    (kind,) = struct.unpack(">H", question[place + 1 : place + 3])
    addresses = _addresses_of(cluster, ".".join(labels).lower())
    records = [
        struct.pack(">HHHIH", 0xC00C, _TYPE_A, 1, _TTL_S, 4) + address.packed
        for address in addresses or ()
        if kind == _TYPE_A
    ]
    flags = _UNKNOWN if addresses is None else _ANSWER
    return question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + asked + b"".join(records)


def _addresses_of(cluster: TestCluster, name: str) -> Sequence[IPv4Address] | None:
    """Return its own address, or those of who is ready behind one that has none."""
    if (match := _SERVICE.fullmatch(name)) is None:
        return None
    namespace = match[2]
    service = cluster.find(f"/api/v1/namespaces/{namespace}/services/{match[1]}")
    if service is None:
        return None
    if service["spec"]["clusterIP"] != "None":
        return [IPv4Address(service["spec"]["clusterIP"])]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = cluster.ask("GET", path, labelSelector=f"kubernetes.io/service-name={match[1]}")["items"]
    endpoints = [endpoint for each in slices for endpoint in each["endpoints"] or ()]
    return [IPv4Address(each["addresses"][0]) for each in endpoints if each["conditions"]["ready"]]
