"""What our own pages ask for: a button or a question goes in, what it leads to comes out.

Whoever calls has decided that this person may enter the workspace.
"""

import json
import re
from urllib.parse import parse_qs
from uuid import UUID

from codehub.core.amendments import By
from codehub.core.operations import DesiredState
from codehub.core.requests import Refused
from codehub.core.route import WRITTEN_ID, entry_of
from codehub.core.visit import AtLimit, after_wake, is_on_its_way
from codehub.core.workspace import Workspace, counts_as_running
from codehub.ports.proxy_lookups import WorkspaceLocator
from codehub.ports.system import Clock
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.answers import error, redirect
from codehub.proxy.policy.pages import ACTIONS, limit_page, progress_content
from codehub.proxy.policy.route_cache import CachedWorkspace
from codehub.service.workspaces import WorkspaceService

_WORKSPACE_ID = re.compile(WRITTEN_ID)
# What a button may lead to afterwards: what a request's first line can hold, and no way out of its workspace.
_HARMLESS = re.compile(r"/[!-\[\]-~]*")
_CLIMBS = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)
_LEAVING_S_MAX = 30.0


class PageActions:
    def __init__(
        self, locator: WorkspaceLocator, service: WorkspaceService, *, clock: Clock, keep_awake_s: int
    ) -> None:
        self._locator = locator
        self._service = service
        self._clock = clock
        self._keep_awake_s = keep_awake_s

    async def progress(self, cached: CachedWorkspace, query: str, language: str) -> Answer:
        """Tell the waking page how far it is, once that is something else than it has `seen`."""
        seen = parse_qs(query.removeprefix("?")).get("seen", [""])[0]
        if seen == str(cached.workspace.status.version) and is_on_its_way(cached.workspace):
            await cached.wait_for_change()
        row = cached.workspace
        progress = await self._locator.progress(row.id)
        content = progress_content(row, progress, language, moves=is_on_its_way(row))
        return Answer(200, json.dumps(content).encode(), headers={"Cache-Control": "no-store"})

    async def press(self, cached: CachedWorkspace, by: By, action: str, query: str, language: str) -> Answer:
        """Do what a button asks for, and say where it leads."""
        workspace_id = cached.workspace.id
        match action:
            case "start":
                ruled = await self._service.set_wish(workspace_id, DesiredState.RUNNING, by)
            case "stop":
                ruled = await self._service.set_wish(workspace_id, DesiredState.STANDBY, by)
            case "recover":
                ruled = await self._service.recover(workspace_id, by)
            case "keep_awake":
                ruled = await self._service.keep_awake(workspace_id, by, seconds=self._keep_awake_s)
            case _:
                return error(404, "There is nothing here.")
        cached.workspace = ruled.workspace
        asked = parse_qs(query.removeprefix("?"))
        then, to = (asked.get(name, [""])[0] for name in ("then", "to"))
        if isinstance(outcome := after_wake(ruled.ruling), AtLimit):
            return limit_page(cached.workspace, outcome.refused, language, _path_in(workspace_id, to))
        if action == "stop" and isinstance(ruled.ruling, Refused) and not _is_leaving(cached.workspace):
            return redirect(303, f"/workspaces/{workspace_id}")  # which says why, and what can be done
        if not _WORKSPACE_ID.fullmatch(then):
            return redirect(303, _path_in(workspace_id, to))
        await self._wait_until_stopped(cached)
        return redirect(303, _path_in(then, to))

    async def _wait_until_stopped(self, cached: CachedWorkspace) -> None:
        """Wait until a workspace that is to stop has made room, but not for ever."""
        until = self._clock.monotonic() + _LEAVING_S_MAX
        while _is_leaving(cached.workspace) and (left := until - self._clock.monotonic()) > 0:
            await cached.wait_for_change(left)


def _is_leaving(row: Workspace) -> bool:
    return counts_as_running(row) and row.spec.desired_state is not DesiredState.RUNNING


def _path_in(workspace_id: UUID | str, to: str) -> str:
    """Return the path in a workspace that was asked for, or its first page if it is none (security.md 7)."""
    entry = entry_of(workspace_id)
    is_in_it = to.startswith(entry) and not to.startswith(f"{entry}{ACTIONS}/")
    return to if is_in_it and _HARMLESS.fullmatch(to) and not _CLIMBS.search(to) else entry
