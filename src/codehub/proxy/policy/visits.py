"""What a request says of itself, from its head."""

from codehub.core.visit import Visit
from codehub.proxy.engine.requests import RequestHead


def visit_of(head: RequestHead) -> Visit:
    """Return it; for a header block that was seen before, the same as then."""
    derived = head.block.derived
    visit: Visit | None = derived.get(head.method)
    if visit is None:
        visit = derived[head.method] = _read(head)
    return visit


def _read(head: RequestHead) -> Visit:
    def text(name: bytes) -> str:
        return head.noted(name).decode("latin-1")

    return Visit(
        method=head.method.decode("ascii"),
        is_upgrade=head.upgrade is not None,
        fetch_mode=text(b"sec-fetch-mode"),
        fetch_dest=text(b"sec-fetch-dest"),
        fetch_site=text(b"sec-fetch-site"),
        purpose=text(b"sec-purpose") or text(b"purpose"),
        agent=text(b"user-agent"),
        accept=text(b"accept"),
        origin=text(b"origin"),
    )
