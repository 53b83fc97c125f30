"""Hints as text: ids in, one line out, and back.

Whatever carries them, those who send and those who listen write alike.
"""

from collections.abc import Collection
from uuid import UUID

EVERYBODY: frozenset[UUID] = frozenset()
IDS_MAX = 100  # 3,700 bytes, where PostgreSQL allows 8,000; whoever changes more says "look at all"


def encode(ids: Collection[UUID]) -> str:
    return ",".join(map(str, ids)) if len(ids) <= IDS_MAX else ""


def decode(payload: str) -> frozenset[UUID]:
    """Return whom a hint is about: everybody, if it names none or is not ours."""
    try:
        return frozenset(UUID(word) for word in payload.split(","))
    except ValueError:
        return EVERYBODY
