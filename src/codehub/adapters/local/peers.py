"""A connection over this machine's loopback goes in, the address of its sender comes out.

A workspace that shares this machine's network must not look like a local program, so it gets its own address,
which is neither loopback nor a trusted proxy's.
"""

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from codehub.adapters.local.accounts import uids_of

# The discard prefix: no machine has an address in it (RFC 6666).
_DISCARD_PREFIX = int(IPv6Address("100::"))
_TABLES = ("tcp", "tcp6")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9


class LoopbackPeers:
    """The senders of loopback connections, where workspaces share this machine's network and have their own
    uids.
    """

    def __init__(self, install_id: str, tables: Path = Path("/proc/net")) -> None:
        self._uids = uids_of(install_id)
        self._tables = tables

    def address_of(self, peer: tuple[str, int], ours: tuple[str, int]) -> str | None:
        """Return the address to use for the peer, or None for its own.

        A peer that has disconnected counts as a workspace.
        """
        if not ip_address(peer[0]).is_loopback:
            return None
        uid = self._uid(_table_addresses(*peer), _table_addresses(*ours))
        if uid is not None and uid not in self._uids:
            return None
        return str(IPv6Address(_DISCARD_PREFIX + (uid or 0)))

    def _uid(self, peer: frozenset[str], ours: frozenset[str]) -> int | None:
        """Return the uid of the other end, or None if it is closed."""
        for row in self._rows():
            if row[_LOCAL] in peer and row[_REMOTE] in ours and row[_INODE] != "0":
                return int(row[_UID])
        return None

    def _rows(self) -> Iterator[list[str]]:
        for name in _TABLES:
            path = self._tables / name
            if path.exists():
                yield from (line.split() for line in path.read_text().splitlines()[1:])


def _table_addresses(host: str, port: int) -> frozenset[str]:
    """Return an address as in the kernel's tables: 32-bit words in native byte order; IPv4 also as mapped
    IPv6.
    """
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    packed = [address.packed]
    if isinstance(address, IPv4Address):
        packed.append(socket.inet_pton(socket.AF_INET6, f"::ffff:{address}"))
    return frozenset(
        f"{''.join(f'{word:08X}' for (word,) in struct.iter_unpack('=I', packed_address))}:{port:04X}"
        for packed_address in packed
    )
