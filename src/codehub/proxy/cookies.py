"""Which cookies and tokens are codehub's own, and what is left without them. Whatever any server might read as ours is ours."""

import re

from codehub.web.cookies import OWN_NAMES

TOKEN = re.compile(rb"(?<![A-Za-z0-9])cht_[A-Za-z0-9_-]{8,}")
_TOKEN_IN_QUERY = re.compile(rb"(?:(?<=%[0-9A-Fa-f]{2})|(?<![A-Za-z0-9]))cht_[A-Za-z0-9_-]{8,}")
_OURS = frozenset(name.lower().encode() for name in OWN_NAMES)
# What servers take off a name before they compare it. Starlette asks Python's str.strip, which knows more blanks than HTTP does.
_BLANKS = b" \t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"


def is_ours(cookie: bytes) -> bool:
    """Whether it sets or sends one. Of a cookie without a name a browser sends the value alone, which may look like another cookie."""
    pair = cookie.partition(b";")[0].lstrip(_BLANKS + b"=")
    return pair.partition(b"=")[0].rstrip(_BLANKS).lower() in _OURS


def foreign_cookies(cookie: bytes) -> bytes:
    """Return the cookies that are not ours and hold no token of ours, as they came."""
    lower = cookie.lower()
    if not any(name in lower for name in _OURS) and not TOKEN.search(cookie):
        return cookie
    pairs = (pair.strip() for pair in cookie.split(b";"))
    return b"; ".join(pair for pair in pairs if not is_ours(pair) and not TOKEN.search(pair))


def without_tokens(target: bytes) -> bytes:
    """Return a target whose query holds no token of ours."""
    path, mark, query = target.partition(b"?")
    return path + mark + _TOKEN_IN_QUERY.sub(b"", query)
