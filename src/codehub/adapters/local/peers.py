"""A connection over this machine's loopback goes in, the address that its sender is to have comes out: a workspace that shares this
machine's network is no program of the machine's, and gets an address of its own that is no loopback and no proxy's."""

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from codehub.adapters.local.accounts import uids_of

# Nobody has an address in it: what is sent there is discarded (RFC 6666).
_NOWHERE = int(IPv6Address("100::"))
_TABLES = ("tcp", "tcp6")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9


class LoopbackPeers:
    """Who connects over loopback where workspaces share this machine's network and have uids of their own."""

    def __init__(self, install_id: str, tables: Path = Path("/proc/net")) -> None:
        self._uids = uids_of(install_id)
        self._tables = tables

    def address_of(self, peer: tuple[str, int], ours: tuple[str, int]) -> str | None:
        """Return the address to take for the peer's, or None for its own. Whoever has hung up already can't be told from a workspace."""
        if not ip_address(peer[0]).is_loopback:
            return None
        uid = self._uid(_written(*peer), _written(*ours))
        if uid is not None and uid not in self._uids:
            return None
        return str(IPv6Address(_NOWHERE + (uid or 0)))

    def _uid(self, peer: frozenset[str], ours: frozenset[str]) -> int | None:
        """Return whose the other end is, or None if nobody holds it any more."""
        for row in self._rows():
            if row[_LOCAL] in peer and row[_REMOTE] in ours and row[_INODE] != "0":
                return int(row[_UID])
        return None

    def _rows(self) -> Iterator[list[str]]:
        for name in _TABLES:
            path = self._tables / name
            if path.exists():
                yield from (line.split() for line in path.read_text().splitlines()[1:])


def _written(host: str, port: int) -> frozenset[str]:
    """Return an address as the kernel's tables have it: words of the machine's own order; one of IPv4 also as IPv6 has it."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    packed = [address.packed]
    if isinstance(address, IPv4Address):
        packed.append(socket.inet_pton(socket.AF_INET6, f"::ffff:{address}"))
    return frozenset(
        f"{''.join(f'{word:08X}' for (word,) in struct.iter_unpack('=I', one))}:{port:04X}" for one in packed
    )
