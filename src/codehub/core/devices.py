"""Browsers that signed in before: a signed cookie value in, which browser it is
out. It opens nothing: it only says whose wrong guesses count for whom.
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

DEVICE_LASTS = timedelta(days=90)
"""From the last sign-in."""
_WORD = re.compile(r"([0-9a-f]{32})\.([0-9]{1,11})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Device:
    """A browser in which somebody has signed in to one account."""

    id: UUID
    signed_in_at: datetime

    def is_known(self, now: datetime) -> bool:
        return self.signed_in_at <= now < self.signed_in_at + DEVICE_LASTS


def written_device(device: Device, username: str, key: bytes) -> str:
    """Return its word, for the cookie."""
    at = int(device.signed_in_at.timestamp())
    return f"{device.id.hex}.{at}.{_mark(device.id.hex, str(at), username, key)}"


def read_device(word: str, username: str, key: bytes) -> Device | None:
    """Return which device it is, if this word was written for this account."""
    match = _WORD.fullmatch(word)
    if match is None or not hmac.compare_digest(match[3], _mark(match[1], match[2], username, key)):
        return None
    return Device(UUID(match[1]), datetime.fromtimestamp(int(match[2]), UTC))


def _mark(device_id: str, at: str, username: str, key: bytes) -> str:
    # The name comes last: whatever it is, no other three fields are written alike.
    text = f"device {device_id} {at} {username.casefold()}".encode("utf-8", "surrogatepass")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
