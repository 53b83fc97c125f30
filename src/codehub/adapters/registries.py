"""What engines say of a registry goes in; whether it is away, or has refused for good, comes out."""

_REFUSED = (
    *(
        "manifest unknown",
        "not found",
        "pull access denied",
        "unauthorized",
        "denied",
        "no matching manifest",
    ),
    *("invalid reference format", "does not exist", "no basic auth credentials", "authentication required"),
)
_AWAY = (
    *("connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host"),
    *(
        "TLS handshake timeout",
        "connection reset",
        "EOF",
        "server misbehaving",
        "Client.Timeout",
        "Service Unavailable",
    ),
    *("Temporary failure in name resolution", "deadline exceeded", "Bad Gateway", "Gateway Timeout"),
    *("toomanyrequests", "Too Many Requests", "unexpected HTTP status: 5"),
)


def is_away(reason: str) -> bool:
    """Whether it did not answer, or asks to come back later: waiting may help."""
    return any(sign in reason for sign in _AWAY)


def has_refused(reason: str) -> bool:
    """Whether no retry can fetch the image. Ask first whether it is away."""
    return any(sign in reason for sign in _REFUSED)
