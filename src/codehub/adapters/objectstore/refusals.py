"""What a store answers goes in, the failure or the outage that it is comes out."""

import re
from http import HTTPStatus

from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable

_REFUSED = (
    *("403 Forbidden", "401 Unauthorized", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
    *("ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed"),
)
# obstore tells the status by its words alone.
_STATUS = re.compile(r"status code: (\d{3})\b")
# An answer of 4xx that may be another one soon. Not there: a bucket or an upload that somebody took away,
# like a disk that is not mounted. A conflict or a condition: of what others do at this moment. The rest asks
# to come later.
_TEMPORARY = frozenset({404, 408, 409, 412, 423, 425, 429})
_TEMPORARY_SIGNS = ("RequestTimeout", "IncompleteBody")
_NOT_IMPLEMENTED = 501
# What obstore adds for whoever debugs it.
_DEBUG = "\n\nDebug source"
_MESSAGE_LENGTH_MAX, _BODY_BYTES_MAX = 1000, 500
_FULL = (
    "os error 28",
    "os error 122",
    "No space left",
    "quota exceeded",
    "XMinioStorageFull",
    "507 Insufficient",
)


class WrongStore(BackendUnreachable):
    """The store answers and refuses us: its name or our credentials are wrong. Waiting does not help."""


def refusal_text(status: int, body: bytes) -> str:
    """Return an answer in the words that obstore has for it."""
    phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else ""
    return f"status code: {status} {phrase}: {body[:_BODY_BYTES_MAX].decode(errors='backslashreplace')}"


def as_exception(url: str, text: str) -> ActionFailed | BackendUnreachable:
    """Return what this error of the store at this address means."""
    message = " ".join(text.partition(_DEBUG)[0].split())[:_MESSAGE_LENGTH_MAX]
    facts = {"url": url, "text": message}
    if any(sign in text for sign in _REFUSED):
        return WrongStore(Message(Code.STORE_CREDENTIALS, facts))
    if any(sign in text for sign in _FULL):
        return ActionFailed(Message(Code.ARCHIVES_FULL, facts))
    if _is_permanent(text):
        return ActionFailed(Message(Code.STORE_REFUSED, facts))
    return BackendUnreachable(Message(Code.STORE_UNUSABLE, facts))


def _is_permanent(message: str) -> bool:
    """Return whether the server would refuse the same request again: retrying would only hide that."""
    match = _STATUS.search(message)
    if match is None or any(sign in message for sign in _TEMPORARY_SIGNS):
        return False
    status = int(match[1])
    return status == _NOT_IMPLEMENTED or (400 <= status < 500 and status not in _TEMPORARY)  # noqa: PLR2004  # HTTP's
