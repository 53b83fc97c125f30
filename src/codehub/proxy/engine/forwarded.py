"""Who sends a request: the other end's address goes in, what the next server is told of it comes out.

Only trusted proxies speak for others.
"""

from codehub.proxy.engine.header_block import HOST, HeaderBlock


class Sender:
    """Who is at the other end of a connection, and whether what it says of others counts."""

    __slots__ = ("_address", "_host", "_is_trusted", "_lines", "_proto")

    def __init__(self, address: bytes, *, proto: bytes = b"http", is_trusted: bool = False) -> None:
        self._address = address
        self._proto = proto
        self._is_trusted = is_trusted
        self._host = b""
        self._lines = b""

    def lines(self, block: HeaderBlock) -> bytes:
        """Return what the next server is told of it."""
        if self._is_trusted:
            return self._relayed_lines(block)
        if self._host != block.host:
            self._host, self._lines = block.host, _forwarded_lines(self._address, block.host, self._proto)
        return self._lines

    def _relayed_lines(self, block: HeaderBlock) -> bytes:
        """Return what the sender, a trusted proxy, says of its own client, and itself as the last hop."""
        address, proto, host = self._address, self._proto, block.host
        if before := block.fields.get(b"x-forwarded-for"):
            address = before + b", " + address
        if (given := block.fields.get(b"x-forwarded-proto")) in (b"http", b"https"):
            proto = given
        if (named := block.fields.get(b"x-forwarded-host")) and HOST.fullmatch(named):
            host = named
        return _forwarded_lines(address, host, proto)


def _forwarded_lines(address: bytes, host: bytes, proto: bytes) -> bytes:
    return b"X-Forwarded-For: %b\r\nX-Forwarded-Host: %b\r\nX-Forwarded-Proto: %b\r\n" % (
        address,
        host,
        proto,
    )
