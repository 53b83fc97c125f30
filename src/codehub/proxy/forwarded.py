"""Who sends a request: the other end's address goes in, what the next server is told of it comes out. Only trusted proxies speak for others."""

from typing import TYPE_CHECKING

from codehub.proxy.requests import HOST

if TYPE_CHECKING:
    from codehub.proxy.requests import HeaderBlock


class Sender:
    """Who is at the other end of a connection, and whether what it says of others counts."""

    __slots__ = ("_address", "_by_host", "_is_trusted", "_proto")

    def __init__(self, address: bytes, *, proto: bytes = b"http", is_trusted: bool = False) -> None:
        self._address = address
        self._proto = proto
        self._is_trusted = is_trusted
        self._by_host: tuple[bytes, bytes] = (b"", b"")

    def lines(self, block: "HeaderBlock") -> bytes:
        """Return what the next server is told of it."""
        if self._is_trusted:
            return self._as_told(block)
        host, made = self._by_host
        if host != block.host:
            made = _forwarded(self._address, block.host, self._proto)
            self._by_host = (block.host, made)
        return made

    def _as_told(self, block: "HeaderBlock") -> bytes:
        address, proto, host = self._address, self._proto, block.host
        if before := block.fields.get(b"x-forwarded-for"):
            address = before + b", " + address
        if (given := block.fields.get(b"x-forwarded-proto")) in (b"http", b"https"):
            proto = given
        if (named := block.fields.get(b"x-forwarded-host")) and HOST.fullmatch(named):
            host = named
        return _forwarded(address, host, proto)


def _forwarded(address: bytes, host: bytes, proto: bytes) -> bytes:
    return b"X-Forwarded-For: %b\r\nX-Forwarded-Host: %b\r\nX-Forwarded-Proto: %b\r\n" % (
        address,
        host,
        proto,
    )
