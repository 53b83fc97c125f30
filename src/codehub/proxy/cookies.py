"""Which cookies and tokens are codehub's own: a pair or a Set-Cookie goes in, yes or no comes out. Whatever any server might read as ours is ours."""

import re

TOKEN = re.compile(rb"(?<![A-Za-z0-9])cht_[A-Za-z0-9_-]{8,}")
OUR_COOKIES = b"codehub_"
# What servers take off a name before they compare it. Starlette asks Python's str.strip, which knows more blanks than HTTP does.
BLANKS = b" \t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"


def is_ours(pair: bytes) -> bool:
    """Whether it sets or sends one. Of a cookie without a name a browser sends the value alone, which may look like another cookie."""
    return pair.lstrip(BLANKS + b"=").lower().startswith(OUR_COOKIES)
