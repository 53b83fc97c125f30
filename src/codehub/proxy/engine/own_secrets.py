"""Which cookies and tokens are the site's own, and what is left without them.

Whatever any server might read as one of them is one of them.
"""

import re
from collections.abc import Collection

# What servers take off a name before they compare it. Starlette asks Python's str.strip, which knows more
# blanks than HTTP does.
_BLANKS = b" \t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"
_BEFORE_NAMES = _BLANKS + b"="
# Nothing that can be in a head begins so.
_NO_TOKEN = b"\0"


class OwnSecrets:
    """Cookies by their names, tokens by the prefix they all have. Only a trusted server is given any."""

    __slots__ = ("_names", "_query_token", "_roots", "_token", "token_prefix")

    def __init__(self, cookie_names: Collection[str] = (), token_prefix: bytes = _NO_TOKEN) -> None:
        self._names = names = frozenset(name.lower().encode() for name in cookie_names)
        # Where none of these is, no name is: each of the others has one of them in it.
        self._roots = [name for name in names if not any(name != other and other in name for other in names)]
        self.token_prefix = token_prefix
        text = re.escape(token_prefix) + rb"[A-Za-z0-9_-]{8,}"
        self._token = re.compile(rb"(?<![A-Za-z0-9])" + text)
        self._query_token = re.compile(rb"(?:(?<=%[0-9A-Fa-f]{2})|(?<![A-Za-z0-9]))" + text)

    def has_token(self, text: bytes) -> bool:
        return text.find(self.token_prefix) >= 0 and self._token.search(text) is not None

    def is_own_cookie(self, cookie: bytes) -> bool:
        """Whether it sets or sends one.

        Of a cookie without a name a browser sends the value alone, which may look like another cookie.
        """
        pair = cookie.partition(b";")[0].lstrip(_BEFORE_NAMES)
        return pair.partition(b"=")[0].rstrip(_BLANKS).lower() in self._names

    def without_own_cookies(self, cookies: bytes) -> bytes:
        """Return the cookies that are not ours and hold no token of ours, as they came."""
        lower = cookies.lower()
        if not self.has_token(cookies) and not any(map(lower.count, self._roots)):
            return cookies
        pairs = (pair.strip() for pair in cookies.split(b";"))
        return b"; ".join(pair for pair in pairs if not self.is_own_cookie(pair) and not self.has_token(pair))

    def without_tokens(self, target: bytes) -> bytes:
        """Return a target whose query holds no token of ours."""
        if target.find(self.token_prefix) < 0:
            return target
        path, mark, query = target.partition(b"?")
        return path + mark + self._query_token.sub(b"", query)
