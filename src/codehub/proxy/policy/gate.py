"""The gate: a request's head goes in; the way to its server, or an answer of our own, comes out.

It does what core/visit.py decides.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

import structlog

from codehub.core.amendments import By
from codehub.core.messages import Code, Message
from codehub.core.operations import Operation
from codehub.core.route import Kind, Route, entry_of
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
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential, WorkspaceLocator
from codehub.ports.store import Ruled, StoreUnavailable, UnknownWorkspace
from codehub.ports.system import Clock, Tasks
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.answers import RETRY_S, bad_gateway, error, redirect, unavailable
from codehub.proxy.policy.header_rules import AMBIGUOUS
from codehub.proxy.policy.page_actions import PageActions
from codehub.proxy.policy.pages import (
    ACTIONS,
    limit_page,
    refused_page,
    resting_page,
    waking_page,
)
from codehub.proxy.policy.route_cache import CachedWorkspace, Grant, RouteCache
from codehub.proxy.policy.visits import visit_of
from codehub.service.workspaces import WorkspaceService
from codehub.web.cookies import SeveralSessions
from codehub.web.domain_text import message_text
from codehub.web.language import language_of

log = structlog.get_logger()

_ACTIONS = f"/{ACTIONS}/"
_RESTING = {
    Page.ARCHIVED: "The workspace is in the archive. Start it to restore it.",
    Page.PENDING: "The workspace has not been started.",
    Page.ERROR: "The workspace is in ERROR. Recover it; `explain` says what went wrong.",
}


@dataclass(frozen=True, slots=True)
class GateRules:
    own_origins: frozenset[str]
    is_secure: bool = False
    """Whether browsers come by https: then other cookies are ours."""
    wake_archived: bool = False
    wake_wait_s: float = 60.0
    keep_awake_s: int = 3600


@dataclass(frozen=True, slots=True)
class Entry:
    """A visit on its way in: what it asks, the language of its answer, and until when it may wait."""

    head: RequestHead
    visit: Visit
    language: str
    until: float


class WorkspaceGate:
    def __init__(
        self,
        cache: RouteCache,
        locator: WorkspaceLocator,
        service: WorkspaceService,
        api: Target,
        rules: GateRules,
        *,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._cache = cache
        self._locator = locator
        self._service = service
        self._api = api
        self._rules = rules
        self._clock = clock
        self._tasks = tasks
        self._actions = PageActions(locator, service, clock=clock, keep_awake_s=rules.keep_awake_s)
        self._waking: dict[UUID, asyncio.Future[Ruled]] = {}

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        route: Route = head.route
        if route.kind is Kind.HUB:
            return self._api
        cached = self._cache.workspaces.get(route.mount)
        if cached is not None and head.method == b"GET" and head.upgrade is None:
            grant = cached.grants.get(head.block.identity)
            rest = route.rest
            if (
                grant is not None
                and rest.startswith("/")
                and not rest.startswith(_ACTIONS)
                and self._cache.is_current
            ):
                grant.idle_rounds = 0
                return grant
        return self._look(head)

    async def find_again(self, head: RequestHead, target: Target) -> Target | Answer:
        if target is self._api:
            return unavailable("codehub's API does not answer right now.")
        cached = self._cache.workspaces.get(head.route.mount)
        if cached is None or not isinstance(target, Grant) or not target.alive:
            return bad_gateway("The workspace is gone.")
        await self._cache.find_again(cached)
        return self._cache.grant(target.credential, target.person, cached) or bad_gateway(
            "The workspace does not listen."
        )

    def _look(self, head: RequestHead) -> Answer | Awaitable[Target | Answer]:
        route: Route = head.route
        visit, language = visit_of(head), self._language(head)
        workspace_id = route.workspace
        if workspace_id is None:
            return _refused(NoSuch(), head, visit, language)
        if head.block.identity is AMBIGUOUS:
            return refused_page(400, language) if wants_page(visit) else error(400, str(SeveralSessions()))
        if not route.rest.startswith("/"):
            return redirect(308, entry_of(workspace_id) + route.query)
        if not _shows_token(head) and is_forged(visit, self._rules.own_origins):
            return error(403, "This was asked for by a page of another site.")
        if not self._cache.is_current:
            return unavailable()
        if route.rest.startswith(_ACTIONS):
            action = route.rest.removeprefix(_ACTIONS).removesuffix(route.query)
            return self._act(head, workspace_id, action, route.query, language)
        until = self._clock.monotonic() + self._rules.wake_wait_s
        return self._enter(Entry(head, visit, language, until), workspace_id)

    def _language(self, head: RequestHead) -> str:
        cookies, accepted = head.block.fields.get(b"cookie", b""), head.noted(b"accept-language")
        return language_of(
            cookies.decode("latin-1"), accepted.decode("latin-1"), secure=self._rules.is_secure
        )

    async def _enter(self, entry: Entry, workspace_id: UUID) -> Target | Answer:
        try:
            person, cached = await self._who_and_where(entry.head, workspace_id)
            return await self._carry_out(entry, person, cached)
        except UnknownWorkspace:  # it was deleted meanwhile
            return _refused(NoSuch(), entry.head, entry.visit, entry.language)
        except StoreUnavailable as lost:
            log.warning("visit_not_decided", reason=str(lost))
            return unavailable()

    async def _who_and_where(
        self, head: RequestHead, workspace_id: UUID
    ) -> tuple[Visitor | None, CachedWorkspace | None]:
        credential: Credential | None = head.block.identity
        person = None if credential is None else await self._cache.person(credential)
        return person, None if person is None else await self._cache.workspace(workspace_id)

    async def _carry_out(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> Target | Answer:
        head, visit, language = entry.head, entry.visit, entry.language
        row = None if cached is None else cached.workspace
        decision = decide(visit, person, row, wake_archived=self._rules.wake_archived)
        match decision:
            case SignIn() | NoSuch() | Forbidden():
                return _refused(decision, head, visit, language)
            case Connect():
                assert cached is not None
                assert person is not None
                return await self._connect(head, person, cached)
            case Later():
                assert row is not None
                return unavailable(_why_later(row))
            case Show(page):
                assert row is not None
                return _resting(page, row, visit, language, head)
            case Wake() | Follow():
                assert cached is not None
                assert person is not None
                if isinstance(decision, Wake):
                    ruled = await self._wake(head, cached, person)
                    outcome = after_wake(ruled.ruling)
                    if isinstance(outcome, AtLimit):
                        return _at_limit(cached, outcome, visit, language, head)
                if intent(visit) is Intent.NAVIGATION:
                    progress = await self._locator.progress(cached.workspace.id)
                    return waking_page(cached.workspace, progress, language)
                return await self._wait(entry, cached.workspace.id)

    async def _connect(self, head: RequestHead, person: Visitor, cached: CachedWorkspace) -> Target | Answer:
        credential: Credential = head.block.identity
        grant = self._cache.grant(credential, person, cached)
        if grant is None:
            await self._cache.find_again(cached)
            grant = self._cache.grant(credential, person, cached)
        return grant or bad_gateway("The workspace runs, but nobody knows where it listens.")

    async def _wake(self, head: RequestHead, cached: CachedWorkspace, person: Visitor) -> Ruled:
        """Record the wish. However many visits ask at once, it is asked for once."""
        workspace_id = cached.workspace.id
        waking = self._waking.get(workspace_id)
        if waking is None:
            by = By(person, Message(Code.VISITED), head.request_id.decode("ascii"))
            waking = asyncio.get_running_loop().create_future()
            self._waking[workspace_id] = waking
            self._tasks.spawn(self._wish(workspace_id, by, waking), name="wake")
        ruled = await asyncio.shield(waking)
        cached.workspace = ruled.workspace
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
            person, cached = await self._who_and_where(entry.head, workspace_id)
            row = None if cached is None else cached.workspace
            decision = decide(entry.visit, person, row, wake_archived=self._rules.wake_archived)
            if not isinstance(decision, Follow):
                return await self._carry_out(entry, person, cached)
            assert cached is not None
            await cached.wait_for_change(left)
        return unavailable("The workspace is still waking up.")

    async def _act(
        self, head: RequestHead, workspace_id: UUID, action: str, query: str, language: str
    ) -> Target | Answer:
        """Do what a button of our own pages asks for, or tell the waking page how far it is."""
        try:
            person, cached = await self._who_and_where(head, workspace_id)
            refused = refuse_entry(person, None if cached is None else cached.workspace)
            if refused is not None:
                return _refused(refused, head, visit_of(head), language)
            assert person is not None
            assert cached is not None
            if head.method == b"GET" and action == "progress":
                return await self._actions.progress(cached, query, language)
            if head.method == b"POST":
                by = By(person, Message(Code.ASKED_ON_A_PAGE), head.request_id.decode("ascii"))
                return await self._actions.press(cached, by, action, query, language)
        except StoreUnavailable:
            return unavailable()
        except UnknownWorkspace:
            pass
        return error(404, "There is nothing here.")


def _shows_token(head: RequestHead) -> bool:
    """Whether it is let in by what no browser adds for another site's page.

    A WebSocket's Origin counts whoever asks (spec §8).
    """
    identity = head.block.identity
    return isinstance(identity, Credential) and identity.kind == "token" and head.upgrade is None


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
            return (
                refused_page(403, language) if is_seen else error(403, message_text(Message(why), language))
            )


def _resting(page: Page, row: Workspace, visit: Visit, language: str, head: RequestHead) -> Answer:
    if wants_page(visit):
        return resting_page(page, row, language, head.target.decode("ascii"))
    return error(502, _RESTING[page], details={"phase": row.status.phase})


def _at_limit(
    cached: CachedWorkspace, outcome: AtLimit, visit: Visit, language: str, head: RequestHead
) -> Answer:
    refused = outcome.refused
    if wants_page(visit):
        return limit_page(cached.workspace, refused, language, head.target.decode("ascii"))
    return error(
        429,
        message_text(refused.message, language),
        code=refused.code,
        details=dict(refused.details or {}),
        headers={"Retry-After": str(RETRY_S)},
    )
