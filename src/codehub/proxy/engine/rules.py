"""What a site adds to HTTP's own rules for heads and bodies: data and functions that the engine asks."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from codehub.proxy.engine.own_secrets import OwnSecrets

# Read here and made anew, or ended here: hop-by-hop (RFC 9110, 7.6.1), and whatever says who asks and
# through whom.
ENDS_HERE = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-length",
        b"cookie",
        b"forwarded",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"sec-websocket-extensions",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
        b"x-request-id",
    }
)
_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"authorization", b"expect"})


class Rules:
    """One site's rules. What `identify` and `route` return is the policy's own: the engine only keeps it."""

    __slots__ = (
        "body_bytes_max",
        "ends_here",
        "identify",
        "kinds",
        "once",
        "own_responses",
        "passes_authorization",
        "route",
        "secrets",
        "tokens",
    )

    def __init__(
        self,
        *,
        secrets: OwnSecrets | None = None,
        noted: Collection[bytes] = (),
        once: Collection[bytes] = (),
        token_header: bytes | None = None,
        own_responses: Collection[bytes] = (),
        identify: Callable[[Mapping[bytes, bytes]], Any] = lambda _fields: None,
        passes_authorization: Callable[[bytes], bool] = lambda _host: False,
        route: Callable[[bytes, bytes], Any] = lambda _target, _host: None,
        body_bytes_max: Callable[[Any], int | None] = lambda _route: None,
    ) -> None:
        """
        `noted`: the headers, in lower case, that the policy reads, and that are passed on. `once`: which of
        them can't come twice. `token_header`: one that says who asks, as Authorization does, and ends here.
        `own_responses`: the headers that no server but a trusted one can answer with. `identify` says from
        Host, the cookies, Authorization and the token's header who asks, `route` from target and Host what
        for, and `body_bytes_max` from that how large a body may be. One that is bounded is framed anew, and
        has no trailers; None: it is passed on as it came. `passes_authorization`: at which hosts an
        Authorization is for the server, unless it holds a token of the site's own.
        """
        self.secrets = secrets or OwnSecrets()
        self.tokens = frozenset(
            {b"authorization"} if token_header is None else {b"authorization", token_header}
        )
        """The headers with tokens in them."""
        self.ends_here = ENDS_HERE | self.tokens
        self.kinds = dict.fromkeys(self.ends_here, True) | dict.fromkeys((b"expect", *noted), False)
        """Whether a header that is read ends here."""
        self.once = _ONCE | self.tokens | frozenset(once)
        self.own_responses = frozenset(own_responses)
        self.identify = identify
        self.passes_authorization = passes_authorization
        self.route = route
        self.body_bytes_max = body_bytes_max
