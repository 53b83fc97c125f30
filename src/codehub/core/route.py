"""What a request is for: its target and its Host go in, a Route comes out.

No other module knows where workspaces are mounted.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from codehub.core.origins import WorkspaceOrigins

WRITTEN_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ROOT = b"/w/"
# In lower case alone: the prefix that an IDE lives under, and its cookies' Path, are written so, and a
# browser compares letters.
_MOUNTED = re.compile(rb"/w/(%b)(?=[/?]|\Z)" % WRITTEN_ID.encode())
_MOUNTS_MAX = 4_096


class Kind(StrEnum):
    HUB = "hub"
    """The API and the dashboard."""
    WORKSPACE = "workspace"


class Route(NamedTuple):
    """Where a request leads. `mount` and `rest` together are its target."""

    kind: Kind
    workspace: UUID | None
    """None for the hub, and for a target that is like a workspace's but names none."""
    port: int | None
    """The port of the workspace; None: its IDE."""
    mount: str
    """Where the workspace is mounted, without the slash; empty if there is none."""
    rest: str
    """The path behind the mount, with its query. Without a slash at its start it is none in the workspace."""
    label: str | None = None
    """At a workspace's own origin: what it is named by. It is mounted nowhere there."""
    name: str = ""
    """At such an origin: the first part of its host name, which says the port too."""

    @property
    def query(self) -> str:
        """The query, with its question mark; empty if there is none."""
        return "".join(self.rest.partition("?")[1:])


def parse_route(target: bytes, host: bytes = b"", origins: WorkspaceOrigins | None = None) -> Route:
    """Read a request's target, a path in ASCII with its query, and its Host, if that can name workspaces."""
    if origins is not None and origins.covers(host):
        place, rest = origins.read_host(host), target.decode("ascii")
        if place is None:
            return Route(Kind.WORKSPACE, None, None, "", rest)
        return Route(Kind.WORKSPACE, None, place.port, "", rest, place.label, place.name)
    match = _MOUNTED.match(target)
    if match is not None:
        workspace, mount = _read_mount(match[1])
        return Route(Kind.WORKSPACE, workspace, None, mount, target[match.end() :].decode("ascii"))
    kind = Kind.WORKSPACE if target.startswith(_ROOT) else Kind.HUB
    return Route(kind, None, None, "", target.decode("ascii"))


def mount_of(workspace_id: UUID | str) -> str:
    """Return where a workspace is mounted, without the slash."""
    return f"/w/{workspace_id}"


def entry_of(workspace_id: UUID | str) -> str:
    """Return the path of a workspace's first page."""
    return mount_of(workspace_id) + "/"


@lru_cache(_MOUNTS_MAX)
def _read_mount(written: bytes) -> tuple[UUID, str]:
    text = written.decode("ascii")
    return UUID(text), mount_of(text)
