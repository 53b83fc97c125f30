"""What a browser brings from a workspace's own origin to the hub (spec §14): what it will be known by there,
and where it goes then.
"""

import re

OPENING_PATH = "/_codehub/enter"
"""Where a code opens a door, at the origin."""
_PATH_LENGTH_MAX = 4_096
_CHALLENGE = re.compile(r"[0-9a-f]{64}")
# Two slashes, or what browsers take for a slash or leave out, would make it another host's address.
_PATH = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")


def read_challenge(text: str) -> bytes | None:
    """Return the hash of what the browser keeps for the origin, if it is one."""
    return bytes.fromhex(text) if _CHALLENGE.fullmatch(text) else None


def read_path(text: str) -> str:
    """Return where to go on at the origin; its first page, if that would lead elsewhere (security 7)."""
    return text if len(text) <= _PATH_LENGTH_MAX and _PATH.fullmatch(text) else "/"
