"""Where workspaces share this machine's network, loopback is
no trust: whose a connection is, the kernel says.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import pytest

from codehub.adapters.local.accounts import uids_of
from codehub.adapters.local.peers import LoopbackPeers

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a workspace a user of its own")
DIAL = "import socket,sys; s=socket.create_connection((sys.argv[1],int(sys.argv[2]))); sys.stdin.read()"


@contextmanager
def connected(host: str, uid: int) -> Iterator[socket.socket]:
    """Yield our end of a connection that a program of this user has made."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        dial = ["/usr/bin/python3", "-c", DIAL, host, str(server.getsockname()[1])]
        with subprocess.Popen(dial, stdin=subprocess.PIPE, user=uid) as program:
            accepted, _ = server.accept()
            with accepted:
                yield accepted
            program.kill()


def address_of(peers: LoopbackPeers, ours: socket.socket) -> str | None:
    return peers.address_of(ours.getpeername()[:2], ours.getsockname()[:2])


@AS_ROOT
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_workspace_has_an_address_of_its_own_and_no_loopback(host: str) -> None:
    peers, uids = LoopbackPeers("one"), uids_of("one")
    with connected(host, uids[7]) as first, connected(host, uids[8]) as other:
        addresses = [address_of(peers, each) for each in (first, other)]
    assert len({*addresses, None}) == 3
    assert not any(ip_address(str(each)).is_loopback for each in addresses)


@AS_ROOT
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_program_of_this_machine_and_another_installation_s_keep_theirs(host: str) -> None:
    with connected(host, 0) as ours, connected(host, uids_of("another")[7]) as other:
        assert address_of(LoopbackPeers("one"), ours) is None
        assert address_of(LoopbackPeers("one"), other) is None


def test_whoever_has_hung_up_can_be_anybody() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as accepted,
    ):
        assert address_of(LoopbackPeers("one"), accepted) is None
        client.close()
        assert address_of(LoopbackPeers("one"), accepted) == "100::"


def test_whoever_comes_from_elsewhere_is_not_looked_for() -> None:
    assert LoopbackPeers("one").address_of(("192.0.2.7", 4000), ("192.0.2.1", 8000)) is None
