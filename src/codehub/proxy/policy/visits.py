"""What a request says of itself, from its head."""

from dataclasses import dataclass

from codehub.core.route import Route
from codehub.core.visit import Visit
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.policy.pages import ACTIONS, Site

_ACTIONS = f"/{ACTIONS}/"


@dataclass(frozen=True, slots=True)
class Entry:
    """A visit on its way in: what it asks, the language of its answer, until when it may wait, and where the
    pages stand that it is shown.
    """

    head: RequestHead
    visit: Visit
    language: str
    until: float
    site: Site

    @property
    def route(self) -> Route:
        route: Route = self.head.route
        return route

    @property
    def is_at_origin(self) -> bool:
        return self.route.label is not None

    @property
    def action(self) -> str | None:
        """What it asks of codehub rather than of the workspace, if it does."""
        rest = self.route.rest
        if not rest.startswith(_ACTIONS):
            return None
        return rest.removeprefix(_ACTIONS).removesuffix(self.route.query)


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
        asked_method=text(b"access-control-request-method"),
    )


def shows_token(head: RequestHead) -> bool:
    """Whether it is let in by what no browser adds for another site's page.

    A WebSocket's Origin counts whoever asks (spec §8).
    """
    return has_token(head) and head.upgrade is None


def has_token(head: RequestHead) -> bool:
    identity = head.block.identity
    return isinstance(identity, Credential) and identity.kind == "token"


def is_root(route: Route) -> bool:
    return route.rest == "/" or route.rest.startswith("/?")
