"""The gate: a request's head goes in; the way to its server, or an answer of our own, comes out. It does what core/visit.py decides."""

import asyncio
import json
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote
from uuid import UUID

import structlog

from codehub.core.operations import DesiredState, Operation
from codehub.core.requests import Refused
from codehub.core.visit import (
    AtLimit,
    Connect,
    Follow,
    Forbidden,
    Intent,
    Later,
    NoSuch,
    Page,
    Show,
    SignIn,
    Visit,
    Visitor,
    Wake,
    after_wake,
    decide,
    intent,
    is_forged,
    is_on_its_way,
    refuse_entry,
    wants_page,
)
from codehub.core.workspace import Workspace, counts_as_running
from codehub.ports.proxy_lookups import WorkspaceLocator
from codehub.ports.store import Ruled, StoreUnavailable, UnknownWorkspace
from codehub.ports.system import Clock, Tasks
from codehub.proxy.answers import RETRY_S, bad_gateway, error, redirect, unavailable
from codehub.proxy.pages import (
    ACTIONS,
    language_of,
    limit_page,
    refused_page,
    resting_page,
    told_progress,
    waking_page,
)
from codehub.proxy.requests import ID_END, ID_START, RequestHead
from codehub.proxy.route_cache import Grant, Place, RouteCache
from codehub.proxy.targets import Answer, Target
from codehub.proxy.visits import visit_of
from codehub.service.workspaces import By, WorkspaceService
from codehub.web.cookies import SeveralSessions
from codehub.web.ids import WRITTEN_ID

log = structlog.get_logger()

_WORKSPACE_ID = re.compile(WRITTEN_ID)
# In lower case alone: the prefix that an IDE lives under, and its cookies' Path, are written so, and a browser compares letters.
_WORKSPACE_PATH = re.compile(rb"/w/(%b)(/[^?]*)?(\?.*)?" % WRITTEN_ID.encode())
# What a button may lead to afterwards: what stands in a request's line, and does not climb out of its workspace.
_HARMLESS = re.compile(r"/[!-\[\]-~]*")
_CLIMBS = re.compile(r"/(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)
_ACTIONS = b"/" + ACTIONS.encode() + b"/"
_FOLLOW_S_MAX = 20.0
_LEAVING_S_MAX = 30.0
_RESTING = {
    Page.ARCHIVED: "The workspace is in the archive. Start it to restore it.",
    Page.PENDING: "The workspace has not been started.",
    Page.ERROR: "The workspace is in ERROR. Recover it; `explain` says what went wrong.",
}


@dataclass(frozen=True, slots=True)
class GateRules:
    own_origins: frozenset[str]
    wake_archived: bool = False
    wake_wait_s: float = 60.0
    keep_awake_s: int = 3600


@dataclass(frozen=True, slots=True)
class Entry:
    """A visit on its way in: what it asks, the language of its answer, and until when it may wait, however many steps that takes."""

    head: RequestHead
    visit: Visit
    language: str
    until: float


class WorkspaceGate:
    def __init__(
        self,
        directory: RouteCache,
        places: WorkspaceLocator,
        service: WorkspaceService,
        api: Target,
        rules: GateRules,
        *,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._directory = directory
        self._places = places
        self._service = service
        self._api = api
        self._rules = rules
        self._clock = clock
        self._tasks = tasks
        self._waking: dict[UUID, asyncio.Future[Ruled]] = {}

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        if not head.to_workspace:
            return self._api
        credential = head.block.credential
        target = head.target
        place = self._directory.places.get(target[ID_START:ID_END])
        if place is not None and credential is not None and head.method == b"GET" and head.upgrade is None:
            grant = place.grants.get(credential)
            if (
                grant is not None
                and target[ID_END : ID_END + 1] == b"/"
                and not target.startswith(_ACTIONS, ID_END)
                and self._directory.is_current
            ):
                grant.idle_rounds = 0
                return grant
        return self._look(head)

    async def find_again(self, head: RequestHead, target: Target) -> Target | Answer:
        if target is self._api:
            return unavailable("codehub's API does not answer right now.")
        place = self._directory.places.get(head.target[ID_START:ID_END])
        credential = head.block.credential
        if place is None or credential is None or not isinstance(target, Grant) or not target.alive:
            return bad_gateway("The workspace is gone.")
        await self._directory.find_again(place)
        return self._directory.grant(credential, target.person, place) or bad_gateway(
            "The workspace does not listen."
        )

    def _look(self, head: RequestHead) -> Answer | Awaitable[Target | Answer]:
        match = _WORKSPACE_PATH.fullmatch(head.target)
        visit, language = visit_of(head), language_of(head.field(b"accept-language"))
        if match is None:
            return _refused(NoSuch(), head, visit, language)
        workspace_id, rest, query = UUID(match[1].decode()), match[2], match[3] or b""
        if head.block.has_several_sessions:
            return refused_page(400, language) if wants_page(visit) else error(400, str(SeveralSessions()))
        if rest is None:
            return redirect(308, f"/w/{workspace_id}/{query.decode('ascii')}")
        if not _shows_token(head) and is_forged(visit, self._rules.own_origins):
            return error(403, "This was asked for by a page of another site.")
        if not self._directory.is_current:
            return unavailable()
        if rest.startswith(_ACTIONS):
            action = rest[len(_ACTIONS) :].decode("ascii")
            return self._act(head, workspace_id, action, query.decode("ascii"), language)
        until = self._clock.monotonic() + self._rules.wake_wait_s
        return self._enter(Entry(head, visit, language, until), workspace_id)

    async def _enter(self, entry: Entry, workspace_id: UUID) -> Target | Answer:
        try:
            person, place = await self._who_and_where(entry.head, workspace_id)
            return await self._decided(entry, person, place)
        except UnknownWorkspace:  # it was deleted meanwhile
            return _refused(NoSuch(), entry.head, entry.visit, entry.language)
        except StoreUnavailable as lost:
            log.warning("gate_blind", reason=str(lost))
            return unavailable()

    async def _who_and_where(
        self, head: RequestHead, workspace_id: UUID
    ) -> tuple[Visitor | None, Place | None]:
        credential = head.block.credential
        person = None if credential is None else await self._directory.person(credential)
        return person, None if person is None else await self._directory.place(workspace_id)

    async def _decided(self, entry: Entry, person: Visitor | None, place: Place | None) -> Target | Answer:
        head, visit, language = entry.head, entry.visit, entry.language
        row = None if place is None else place.workspace
        decision = decide(visit, person, row, wake_archived=self._rules.wake_archived)
        match decision:
            case SignIn() | NoSuch() | Forbidden():
                return _refused(decision, head, visit, language)
            case Connect():
                assert place is not None
                assert person is not None
                return await self._connect(head, person, place)
            case Later():
                assert row is not None
                return unavailable(_why_later(row))
            case Show(page):
                assert row is not None
                return _resting(page, row, visit, language, head)
            case Wake() | Follow():
                assert place is not None
                assert person is not None
                if isinstance(decision, Wake):
                    ruled = await self._wake(head, place, person)
                    outcome = after_wake(ruled.ruling)
                    if isinstance(outcome, AtLimit):
                        return _at_limit(place, outcome, visit, language, head)
                if intent(visit) is Intent.NAVIGATION:
                    progress = await self._places.progress(place.workspace.id)
                    return waking_page(place.workspace, progress, language)
                return await self._wait(entry, place.workspace.id)

    async def _connect(self, head: RequestHead, person: Visitor, place: Place) -> Target | Answer:
        credential = head.block.credential
        assert credential is not None
        grant = self._directory.grant(credential, person, place)
        if grant is None:
            await self._directory.find_again(place)
            grant = self._directory.grant(credential, person, place)
        return grant or bad_gateway("The workspace runs, but nobody knows where it listens.")

    async def _wake(self, head: RequestHead, place: Place, person: Visitor) -> Ruled:
        """Record the wish. However many visits ask at once, it is asked for once."""
        workspace_id = place.workspace.id
        waking = self._waking.get(workspace_id)
        if waking is None:
            by = By(person, "visited", head.request_id.decode("ascii"))
            waking = asyncio.get_running_loop().create_future()
            self._waking[workspace_id] = waking
            self._tasks.spawn(self._wish(workspace_id, by, waking), name="wake")
        ruled = await asyncio.shield(waking)
        place.workspace = ruled.workspace
        return ruled

    async def _wish(self, workspace_id: UUID, by: By, waking: asyncio.Future[Ruled]) -> None:
        try:
            ruled = await self._service.wake(workspace_id, by)
        except Exception as failed:  # noqa: BLE001  # whoever waits for it is told
            waking.set_exception(failed)
            waking.exception()
        else:
            log.info("woken", workspace_id=str(workspace_id), actor=by.actor)
            waking.set_result(ruled)
        finally:
            del self._waking[workspace_id]

    async def _wait(self, entry: Entry, workspace_id: UUID) -> Target | Answer:
        """Let a program wait until it can be served, for as long as the settings say."""
        while (left := entry.until - self._clock.monotonic()) > 0:
            person, place = await self._who_and_where(entry.head, workspace_id)
            row = None if place is None else place.workspace
            decision = decide(entry.visit, person, row, wake_archived=self._rules.wake_archived)
            if not isinstance(decision, Follow):
                return await self._decided(entry, person, place)
            assert place is not None
            await self._changed(place, left)
        return unavailable("The workspace is still waking up.")

    async def _changed(self, place: Place, seconds: float) -> None:
        place.idle_rounds = 0
        try:
            async with asyncio.timeout(min(seconds, _FOLLOW_S_MAX)):
                await place.changed.wait()
        except TimeoutError:
            return

    async def _act(
        self, head: RequestHead, workspace_id: UUID, action: str, query: str, language: str
    ) -> Target | Answer:
        """Do what a button of our own pages asks for, or tell the waking page how far it is."""
        try:
            person, place = await self._who_and_where(head, workspace_id)
            refused = refuse_entry(person, None if place is None else place.workspace)
            if refused is not None:
                return _refused(refused, head, visit_of(head), language)
            assert person is not None
            assert place is not None
            if head.method == b"GET" and action == "progress":
                return await self._progress(place, query, language)
            if head.method == b"POST":
                by = By(person, "asked for on a page", head.request_id.decode("ascii"))
                return await self._button(place, by, action, query, language)
        except StoreUnavailable:
            return unavailable()
        except UnknownWorkspace:
            pass
        return error(404, "There is nothing here.")

    async def _progress(self, place: Place, query: str, language: str) -> Answer:
        seen = parse_qs(query.removeprefix("?")).get("seen", [""])[0]
        if seen == str(place.workspace.status.version) and is_on_its_way(place.workspace):
            await self._changed(place, _FOLLOW_S_MAX)
        row = place.workspace
        progress = await self._places.progress(row.id)
        told = told_progress(row, progress, language, moves=is_on_its_way(row))
        return Answer(200, json.dumps(told).encode(), headers={"Cache-Control": "no-store"})

    async def _button(self, place: Place, by: By, action: str, query: str, language: str) -> Target | Answer:
        workspace_id = place.workspace.id
        match action:
            case "start":
                ruled = await self._service.set_wish(workspace_id, DesiredState.RUNNING, by)
            case "stop":
                ruled = await self._service.set_wish(workspace_id, DesiredState.STANDBY, by)
            case "recover":
                ruled = await self._service.recover(workspace_id, by)
            case "keep_awake":
                ruled = await self._service.keep_awake(workspace_id, by, seconds=self._rules.keep_awake_s)
            case _:
                return error(404, "There is nothing here.")
        place.workspace = ruled.workspace
        asked = parse_qs(query.removeprefix("?"))
        then, to = (asked.get(name, [""])[0] for name in ("then", "to"))
        if isinstance(outcome := after_wake(ruled.ruling), AtLimit):
            return limit_page(place.workspace, outcome.refused, language, _place_in(workspace_id, to))
        if action == "stop" and isinstance(ruled.ruling, Refused) and not _is_leaving(place.workspace):
            return redirect(303, f"/workspaces/{workspace_id}")  # which says why, and what can be done
        if not _WORKSPACE_ID.fullmatch(then):
            return redirect(303, _place_in(workspace_id, to))
        await self._has_left(place)
        return redirect(303, _place_in(then, to))

    async def _has_left(self, place: Place) -> None:
        """Wait until a workspace that is to stop has made room, but not for ever."""
        until = self._clock.monotonic() + _LEAVING_S_MAX
        while _is_leaving(place.workspace) and (left := until - self._clock.monotonic()) > 0:
            await self._changed(place, left)


def _shows_token(head: RequestHead) -> bool:
    """Whether it is let in by what no browser adds for another site's page. A WebSocket's Origin counts whoever asks (spec §8)."""
    credential = head.block.credential
    return credential is not None and credential.kind == "token" and head.upgrade is None


def _is_leaving(row: Workspace) -> bool:
    return counts_as_running(row) and row.spec.desired_state is not DesiredState.RUNNING


def _why_later(row: Workspace) -> str:
    if not is_on_its_way(row):
        return "The workspace sleeps. Open it in a browser to wake it."
    operation = row.status.operation
    doing = "something" if operation is Operation.NONE else operation
    return f"The workspace can't answer yet: {doing} is under way. Try again soon."


def _refused(decision: SignIn | NoSuch | Forbidden, head: RequestHead, visit: Visit, language: str) -> Answer:
    # Whoever shows a token is no browser, and may be refused for what the token is.
    is_seen = wants_page(visit) and not _shows_token(head)
    match decision:
        case SignIn():
            if intent(visit) is Intent.NAVIGATION:
                return redirect(303, "/login?next=" + quote(head.target.decode("ascii"), safe="/"))
            return error(401, "Sign in first.")
        case NoSuch():
            if is_seen:
                return refused_page(404, language)
            return error(404, "There is no such workspace.", code="WORKSPACE_NOT_FOUND")
        case Forbidden(why):
            return refused_page(403, language) if is_seen else error(403, why)


def _place_in(workspace_id: UUID | str, to: str) -> str:
    """Return the place in a workspace that a page was asked for, or its front door if `to` is none (security.md 7)."""
    door = f"/w/{workspace_id}/"
    is_in_it = to.startswith(door) and not to.startswith(f"{door}{ACTIONS}/")
    return to if is_in_it and _HARMLESS.fullmatch(to) and not _CLIMBS.search(to) else door


def _resting(page: Page, row: Workspace, visit: Visit, language: str, head: RequestHead) -> Answer:
    if wants_page(visit):
        return resting_page(page, row, language, head.target.decode("ascii"))
    return error(502, _RESTING[page], details={"phase": row.status.phase})


def _at_limit(place: Place, outcome: AtLimit, visit: Visit, language: str, head: RequestHead) -> Answer:
    refused = outcome.refused
    if wants_page(visit):
        return limit_page(place.workspace, refused, language, head.target.decode("ascii"))
    return error(
        429,
        refused.message,
        code=refused.code,
        details=dict(refused.details or {}),
        headers={"Retry-After": str(RETRY_S)},
    )
