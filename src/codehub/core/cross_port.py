"""Requests from one origin of a workspace to another (spec §14): what a browser says of a request to a port
goes in; which of them it is, if any, comes out. Whether that may be is the workspace's option.
"""

from enum import StrEnum

from codehub.core.origins import WorkspaceOrigins
from codehub.core.visit import Visit


class Crossing(StrEnum):
    FRAME = "frame"
    """A page shows the port in a frame. Which page is not said: the answer says who may."""
    REQUEST = "request"
    """A page at another port of this workspace asks for something, or opens a WebSocket."""
    PREFLIGHT = "preflight"
    """A browser asks whether such a page may, and says nothing of who asks."""


def read_crossing(visit: Visit, label: str, port: int | None, origins: WorkspaceOrigins) -> Crossing | None:
    if port is None or visit.fetch_site == "same-origin":
        return None
    if _is_frame(visit):
        return Crossing.FRAME
    if not _is_sibling(visit.origin, label, port, origins):
        return None
    return Crossing.PREFLIGHT if visit.method == "OPTIONS" and visit.asked_method else Crossing.REQUEST


def _is_frame(visit: Visit) -> bool:
    return (
        visit.method == "GET"
        and not visit.is_upgrade
        and visit.fetch_mode == "navigate"
        and visit.fetch_dest in ("iframe", "frame")
        and visit.fetch_site in ("same-site", "cross-site")
    )


def _is_sibling(origin: str, label: str, port: int, origins: WorkspaceOrigins) -> bool:
    place = origins.read_host(origin.partition("://")[2].encode("latin-1"))
    return (
        place is not None
        and place.port not in (None, port)
        and origin == origins.origin_of(label, place.port)
    )
