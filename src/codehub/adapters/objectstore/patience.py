"""A question to a server goes in, its answer comes out, asked again
while that says later or there is none. Raises Unreachable.

As obstore does for what we ask by it (store.py).
"""

import time
from collections.abc import Callable
from http import HTTPStatus

from codehub.http_client import Answer, Unreachable

RETRY_S_MAX = 60.0
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.1, 5.0
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_LATER_SIGNS = (b"RequestTimeout", b"IncompleteBody")


def ask_patiently(ask: Callable[[], Answer]) -> Answer:
    """Return the first answer that lasts, or the last one. Blocks: for a thread."""
    until, pause_s = time.monotonic() + RETRY_S_MAX, _PAUSE_S_MIN
    while True:
        is_late = time.monotonic() + pause_s > until
        try:
            answer = ask()
        except Unreachable:
            if is_late:
                raise
        else:
            if is_late or not _is_temporary(answer):
                return answer
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def _is_temporary(answer: Answer) -> bool:
    return (
        answer.status in _LATER
        or (answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR and answer.status != HTTPStatus.NOT_IMPLEMENTED)
        or (answer.status == HTTPStatus.BAD_REQUEST and any(sign in answer.body for sign in _LATER_SIGNS))
    )
