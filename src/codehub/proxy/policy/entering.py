"""Entering a workspace's own origin (spec §14): a browser without a door is sent to the hub, comes back with
a code, and is given a door for it. Who may enter is decided elsewhere.
"""

import re
from hashlib import sha256
from urllib.parse import parse_qs, quote
from uuid import UUID

from codehub.core.entering import read_path
from codehub.core.origins import Door, WorkspaceOrigins
from codehub.core.route import Route
from codehub.ports.doors import DoorStore
from codehub.ports.system import Randomness
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.pages import ACTIONS
from codehub.web.cookies import PRE, door_cookie, pre_cookie, session_word

_WORD = re.compile(r"[A-Za-z0-9_-]{22,128}")


class Entering:
    """The edge's two steps on the way in."""

    def __init__(
        self, doors: DoorStore, origins: WorkspaceOrigins, hub: str, *, randomness: Randomness
    ) -> None:
        """`hub`: how browsers reach it, without a slash at the end."""
        self.origins = origins
        self.hub = hub
        self._doors = doors
        self._randomness = randomness

    def origin_of(self, route: Route) -> str:
        """Return the origin that a request was sent to."""
        assert route.label is not None
        return self.origins.origin_of(route.label, route.port)

    def send_to_hub(self, head: RequestHead) -> Answer:
        """Send a browser to the hub for a code that only it can use. Raises SeveralSessions.

        What it is known by is kept while it is there: its other tabs may be on their way, too.
        """
        route: Route = head.route
        word = _pre_word(head) or self._randomness.token()
        target = head.target.decode("ascii")
        path = "/" if target.startswith(f"/{ACTIONS}/") else read_path(target)
        challenge = sha256(word.encode()).hexdigest()
        return _lead(
            f"{self.hub}/enter/{route.name}?c={challenge}&next={quote(path, safe='/')}", pre_cookie(word)
        )

    async def open_door(self, head: RequestHead, workspace_id: UUID, *, crosses_sites: bool) -> Answer | None:
        """Exchange a code for a door, and lead on to the path that was asked for. None: it opens nothing, or
        not for this browser. Raises SeveralSessions and StoreUnavailable.
        """
        route: Route = head.route
        codes = parse_qs(route.query.removeprefix("?")).get("code", [])
        pre = _pre_word(head)
        if pre is None or len(codes) != 1 or _WORD.fullmatch(codes[0]) is None:
            return None
        word = self._randomness.token()
        path = await self._doors.open_door(
            _hash(codes[0]), _hash(word), Door(workspace_id, route.port), challenge=_hash(pre)
        )
        if path is None:
            return None
        return _lead(read_path(path), door_cookie(word, crosses_sites=crosses_sites), pre_cookie(None))


def _lead(location: str, *cookies: str) -> Answer:
    """Lead a browser on. Where it goes is told nobody: codes stand in addresses."""
    headers = {"Location": location, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Answer(303, headers=headers, cookies=cookies)


def _pre_word(head: RequestHead) -> str | None:
    """Return what this browser is known by, if that is a word as we give them."""
    word = session_word(head.block.fields.get(b"cookie", b"").decode("latin-1"), PRE)
    return word if word is not None and _WORD.fullmatch(word) else None


def _hash(word: str) -> bytes:
    return sha256(word.encode()).digest()
