"""What our own pages ask for: a button or a question goes in, what it leads to comes out.

Whoever calls has decided that this person may enter the workspace.
"""

import json
import re
from contextlib import suppress
from dataclasses import asdict
from urllib.parse import parse_qs

from codehub.core.amendments import By
from codehub.core.messages import Code, Message
from codehub.core.operations import DesiredState
from codehub.core.requests import Refused
from codehub.core.route import WRITTEN_ID, mount_of
from codehub.core.tab_state import tab_view
from codehub.core.visit import AtLimit, Visitor, after_wake, is_on_its_way, is_open
from codehub.core.workspace import Workspace, counts_as_running
from codehub.ports.proxy_lookups import Credential, WorkspaceLocator
from codehub.ports.store import UnknownWorkspace
from codehub.ports.system import Clock
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.answers import error, redirect, unavailable
from codehub.proxy.policy.database_time import DatabaseTime
from codehub.proxy.policy.entrances import CachedWorkspace
from codehub.proxy.policy.pages import Site, limit_page, progress_content
from codehub.proxy.policy.refusals import over_limit
from codehub.proxy.policy.tab import SCRIPT, script_answer
from codehub.proxy.policy.visits import Entry
from codehub.service.workspaces import WorkspaceService
from codehub.text import section, text

_WORKSPACE_ID = re.compile(WRITTEN_ID)
# What a button may lead to afterwards: what a request's first line can hold, and no way out of its workspace.
_HARMLESS = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")
_CLIMBS = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)
_LEAVING_S_MAX = 30.0
_WHOLE = re.compile("[0-9]{1,3}")
_SILENT_S_MAX = 120.0
_OF_THE_TAB = frozenset({SCRIPT, "state", "use"})


class PageActions:
    def __init__(
        self,
        locator: WorkspaceLocator,
        service: WorkspaceService,
        *,
        clock: Clock,
        time: DatabaseTime,
        keep_awake_s: int,
        sleep_warning_s: float,
    ) -> None:
        self._locator = locator
        self._service = service
        self._clock = clock
        self._time = time
        self._keep_awake_s = keep_awake_s
        self._sleep_warning_s = sleep_warning_s

    async def act(self, entry: Entry, action: str, person: Visitor, cached: CachedWorkspace) -> Answer:
        """Do what a button of our own pages asks for, tell the waking page how far it is, or hear and tell
        the script in an IDE's tab, of which a port has none.
        """
        nothing = error(404, text(entry.language, "program.nothing_here"))
        if action in _OF_THE_TAB and entry.route.port is not None:
            return nothing
        with suppress(UnknownWorkspace):
            match entry.head.method, action:
                case b"GET", "progress":
                    return await self.progress(cached, entry)
                case b"GET", "state":
                    return self.state(cached, entry)
                case b"GET", "tab.js":
                    return script_answer(entry.route.query)
                case b"POST", "use":
                    return self.use(cached, entry)
                case b"POST", _:
                    by = By(person, Message(Code.ASKED_ON_A_PAGE), entry.head.request_id.decode("ascii"))
                    return await self.press(cached, by, action, entry)
        return nothing

    async def progress(self, cached: CachedWorkspace, entry: Entry) -> Answer:
        """Tell the waking page how far it is, once that is something else than it has `seen`."""
        seen = _asked(entry).get("seen", [""])[0]
        if seen == str(cached.workspace.status.version) and is_on_its_way(cached.workspace):
            await cached.wait_for_change()
        row = cached.workspace
        progress = await self._locator.progress(row.id)
        content = progress_content(row, progress, entry.language, moves=is_on_its_way(row))
        return Answer(200, json.dumps(content).encode(), headers={"Cache-Control": "no-store"})

    def state(self, cached: CachedWorkspace, entry: Entry) -> Answer:
        """Tell the script in a tab what becomes of the workspace. That is no use of it, and wakes nothing."""
        asked = _asked(entry)
        credential: Credential = entry.head.block.identity
        if cached.monitor is not None:
            cached.monitor.note_script(credential, _seconds(asked.get("for", [""])[0]))
        now = self._time.at(self._clock.monotonic())
        if now is None:  # nothing was looked at yet, and so nothing is cached
            return unavailable(text(entry.language, "program.undecided"))
        used = 0.0 if cached.monitor is None else cached.monitor.used_at
        used_at = self._time.at(used) if used else None
        view = tab_view(cached.workspace, now, used_at, warning_s=self._sleep_warning_s)
        content = asdict(view) | ({"texts": _texts(entry.language)} if "texts" in asked else {})
        body = json.dumps(content, ensure_ascii=False).encode()
        return Answer(200, body, headers={"Cache-Control": "no-store"})

    def use(self, cached: CachedWorkspace, entry: Entry) -> Answer:
        """Note that somebody is there. What sleeps is not woken by it."""
        if cached.monitor is not None and is_open(cached.workspace):
            cached.monitor.note_use(entry.head.block.identity)
        return self.state(cached, entry)

    async def press(self, cached: CachedWorkspace, by: By, action: str, entry: Entry) -> Answer:
        """Do what a button asks for, and say where it leads; a script that asks for JSON shows by itself what
        runs at the limit.
        """
        workspace_id, site, language = cached.workspace.id, entry.site, entry.language
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
                return error(404, text(language, "program.nothing_here"))
        cached.workspace = ruled.workspace
        asked = _asked(entry)
        then, to = (asked.get(name, [""])[0] for name in ("then", "to"))
        if isinstance(outcome := after_wake(ruled.ruling), AtLimit):
            if entry.head.noted(b"accept") == b"application/json":
                return over_limit(outcome.refused, language)
            return limit_page(cached.workspace, outcome.refused, language, _path_in(site, to), site)
        if action == "stop" and isinstance(ruled.ruling, Refused) and not _is_leaving(cached.workspace):
            # Which says why, and what can be done.
            return redirect(303, f"{site.hub}/workspaces/{workspace_id}")
        if not _WORKSPACE_ID.fullmatch(then) or not site.mount:
            return redirect(303, _path_in(site, to))
        await self._wait_until_stopped(cached)
        return redirect(303, _path_in(Site(mount_of(then)), to))

    async def _wait_until_stopped(self, cached: CachedWorkspace) -> None:
        """Wait until a workspace that is to stop has made room, but not for ever."""
        until = self._clock.monotonic() + _LEAVING_S_MAX
        while _is_leaving(cached.workspace) and (left := until - self._clock.monotonic()) > 0:
            await cached.wait_for_change(left)


def _asked(entry: Entry) -> dict[str, list[str]]:
    return parse_qs(entry.route.query.removeprefix("?"))


def _texts(language: str) -> dict[str, str | list[str]]:
    """Return what the script shows: a title, a sentence and a button for each case."""
    texts = section(language, "tab")
    cases = {key.partition(".")[0] for key in texts}
    return {"lang": language} | {
        case: [texts[f"{case}.title"], texts[f"{case}.why"], texts[f"{case}.do"]] for case in sorted(cases)
    }


def _seconds(text: str) -> float:
    """Return how long until a tab asks again, as it says."""
    return min(float(text), _SILENT_S_MAX) if _WHOLE.fullmatch(text) else 0.0


def _is_leaving(row: Workspace) -> bool:
    return counts_as_running(row) and row.spec.desired_state is not DesiredState.RUNNING


def _path_in(site: Site, to: str) -> str:
    """Return the path in a workspace that was asked for, or its first page if it is none (security.md 7)."""
    is_in_it = to.startswith(site.entry) and not to.startswith(f"{site.actions}/")
    return to if is_in_it and _HARMLESS.fullmatch(to) and not _CLIMBS.search(to) else site.entry
