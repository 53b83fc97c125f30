"""The gate: a request's head goes in; the way to its server, or an answer of our own, comes out.

It does what core/visit.py decides.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from uuid import UUID

import structlog

from codehub.core.access import SAFE_METHODS
from codehub.core.cross_port import Crossing
from codehub.core.route import Kind, Route, mount_of
from codehub.core.visibility import Visibility
from codehub.core.visit import (
    AtLimit,
    Connect,
    Decision,
    Follow,
    Forbidden,
    Intent,
    Later,
    NoSuch,
    Show,
    SignIn,
    Visit,
    Visitor,
    Wake,
    after_wake,
    decide,
    intent,
    is_forged,
    is_from_elsewhere,
    is_owner,
    refuse_entry,
)
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential, WorkspaceLocator
from codehub.ports.store import StoreUnavailable, UnknownWorkspace
from codehub.ports.system import Clock, Tasks
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy import refusals
from codehub.proxy.policy.answers import bad_gateway, error, not_ready, redirect, unavailable
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.cross_port import change_answer, change_of, crossing_of, preflight_answer
from codehub.proxy.policy.entering import Entering
from codehub.proxy.policy.entrances import CachedWorkspace, Grant
from codehub.proxy.policy.header_rules import AMBIGUOUS
from codehub.proxy.policy.page_actions import PageActions
from codehub.proxy.policy.pages import ACTIONS, SIGN_IN, Site, refused_page, waking_page
from codehub.proxy.policy.route_cache import RouteCache
from codehub.proxy.policy.visits import Entry, has_token, is_root, shows_token, visit_of
from codehub.proxy.policy.waker import Waker
from codehub.service.workspaces import WorkspaceService
from codehub.text import text
from codehub.web.cookies import SeveralSessions
from codehub.web.language import language_of

log = structlog.get_logger()

_ACTIONS = f"/{ACTIONS}/"
_IS_PLAIN = "is plain at its origin"
_READYZ = b"/readyz"
_NOT_READY = not_ready("this process is about to end")


@dataclass(frozen=True, slots=True)
class GateRules:
    own_origins: frozenset[str]
    is_secure: bool = False
    """Whether browsers come by https: then other cookies are ours."""
    wake_archived: bool = False
    wake_wait_s: float = 60.0
    keep_awake_s: int = 3600
    sleep_warning_s: float = 60.0


class WorkspaceGate:
    def __init__(
        self,
        cache: RouteCache,
        locator: WorkspaceLocator,
        service: WorkspaceService,
        apis: ApiTargets,
        rules: GateRules,
        *,
        clock: Clock,
        tasks: Tasks,
        entering: Entering | None = None,
    ) -> None:
        """`entering`: the way into workspaces' own origins, where they have them."""
        self._cache = cache
        self._entering = entering
        self._locator = locator
        self._apis = apis
        self._rules = rules
        self._clock = clock
        self._actions = PageActions(
            locator,
            service,
            clock=clock,
            time=cache.time,
            keep_awake_s=rules.keep_awake_s,
            sleep_warning_s=rules.sleep_warning_s,
        )
        self._waker = Waker(service, tasks=tasks)
        self.is_leaving = False
        """Whether this process is about to end: then it is not ready, whatever an API says of itself."""

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        route: Route = head.route
        head.answer_change = None
        if route.kind is Kind.HUB:
            return _NOT_READY if self.is_leaving and head.target == _READYZ else self._apis.choose()
        entrance = self._cache.entrances.get(route.mount or route.name)
        if entrance is not None and head.method == b"GET" and head.upgrade is None:
            grant = entrance.grants.get(head.block.identity)
            rest = route.rest
            if (
                grant is not None
                and rest.startswith("/")
                and not rest.startswith(_ACTIONS)
                and self._cache.is_current
                and (route.mount or self._is_plain(head, grant))
            ):
                grant.idle_rounds = 0
                return grant
        return self._look(head)

    async def find_again(self, head: RequestHead, target: Target) -> Target | Answer:
        language = self._language(head)
        if target in self._apis:
            return self._apis.find_other(target) or unavailable(text(language, "program.api_silent"))
        if not isinstance(target, Grant) or not target.alive:
            return bad_gateway(text(language, "program.gone"))
        entrance = target.entrance
        if entrance.port is not None:
            silent = refusals.not_there(self._entry(head), entrance.port, entrance.address)
            return change_answer(silent, head.answer_change)
        await self._cache.find_again(entrance.cached)
        grant = self._cache.grant(target.credential, target.person, entrance.cached, entrance.name)
        return refusals.another_way(grant, target, self._entry(head))

    def _is_plain(self, head: RequestHead, grant: Grant) -> bool:
        """Whether a GET at an origin needs no second look: what decides is in its header block, but for the
        path that leads below the mount.
        """
        if grant.keeps_prefix and is_root(head.route):
            return False
        derived = head.block.derived
        is_plain: bool | None = derived.get(_IS_PLAIN)
        if is_plain is None:
            is_plain = derived[_IS_PLAIN] = not self._is_forged(head, visit_of(head))
        return is_plain

    def _is_forged(self, head: RequestHead, visit: Visit) -> bool:
        """Whether a page of another site, or of a sibling, makes a browser ask."""
        route: Route = head.route
        if route.label is None:
            return is_forged(visit, self._rules.own_origins)
        assert self._entering is not None
        return is_from_elsewhere(visit, self._entering.origin_of(route))

    def _entry(self, head: RequestHead) -> Entry:
        route: Route = head.route
        until = self._clock.monotonic() + self._rules.wake_wait_s
        hub = self._entering.hub if self._entering is not None and not route.mount else ""
        return Entry(head, visit_of(head), self._language(head), until, Site(route.mount, hub))

    def _look(self, head: RequestHead) -> Answer | Awaitable[Target | Answer]:
        route: Route = head.route
        entry = self._entry(head)
        if route.workspace is None and route.label is None:
            return self._refused(NoSuch(), entry)
        if head.block.identity is AMBIGUOUS:
            return refusals.several_cookies(entry)
        if not route.rest.startswith("/"):
            return redirect(308, entry.site.entry + route.query)
        if self._comes_from_elsewhere(entry) and self._crossing(entry) is None:
            return error(403, text(entry.language, "program.other_site"))
        if not self._cache.is_current:
            return unavailable(text(entry.language, "program.undecided"))
        return self._decide(entry)

    def _comes_from_elsewhere(self, entry: Entry) -> bool:
        head, route = entry.head, entry.route
        is_nobody = route.port is not None and head.block.identity is None
        return not shows_token(head) and not is_nobody and self._is_forged(head, entry.visit)

    def _crossing(self, entry: Entry) -> Crossing | None:
        return None if self._entering is None else crossing_of(entry, self._entering.origins)

    def _language(self, head: RequestHead) -> str:
        cookies, accepted = head.block.fields.get(b"cookie", b""), head.noted(b"accept-language")
        return language_of(
            cookies.decode("latin-1"), accepted.decode("latin-1"), secure=self._rules.is_secure
        )

    async def _decide(self, entry: Entry) -> Target | Answer:
        route = entry.route
        try:
            workspace_id = route.workspace
            if route.label is not None:
                workspace_id = await self._cache.labelled(route.label)
            if workspace_id is None:
                return self._refused(NoSuch(), entry)
            if entry.is_at_origin and entry.action == "enter":
                return await self._open_door(entry, workspace_id)
            return await self._decide_at(entry, workspace_id)
        except SeveralSessions:
            return refusals.several_cookies(entry)
        except UnknownWorkspace:  # it was deleted meanwhile
            return self._refused(NoSuch(), entry)
        except StoreUnavailable as lost:
            log.warning("visit_not_decided", reason=str(lost))
            return unavailable(text(entry.language, "program.undecided"))

    async def _decide_at(self, entry: Entry, workspace_id: UUID) -> Target | Answer:
        if entry.is_at_origin and entry.action == SIGN_IN and intent(entry.visit) is Intent.NAVIGATION:
            return self._refused(SignIn(), entry)
        person, cached = await self._who_and_where(entry.head, workspace_id)
        crossing = self._crossing(entry)
        if crossing is None:
            return await self._let_in(entry, person, cached)
        if cached is not None and cached.workspace.spec.cross_port_access:
            return await self._cross(entry, crossing, person, cached)
        if self._comes_from_elsewhere(entry):
            return error(403, text(entry.language, "program.other_site"))
        return await self._let_in(entry, person, cached)

    async def _cross(
        self, entry: Entry, crossing: Crossing, person: Visitor | None, cached: CachedWorkspace
    ) -> Target | Answer:
        """Let a page at one port of a workspace ask another, and its IDE show one, for their owner."""
        assert self._entering is not None
        change = change_of(crossing, entry.head, self._entering.origins)
        if person is None or crossing is Crossing.PREFLIGHT:
            answer = await self._let_in(entry, None, cached)
            if crossing is Crossing.REQUEST or not isinstance(answer, Answer):
                return answer  # a public port's server says itself what nobody in particular may ask
            if crossing is Crossing.PREFLIGHT:
                return preflight_answer(entry.head, change)
            return change_answer(refused_page("frame", entry.language, entry.site.hub), change)
        if not is_owner(person, cached.workspace):
            return error(403, text(entry.language, "program.other_site"))
        entry.head.answer_change = change
        answer = await self._let_in(entry, person, cached)
        return change_answer(answer, change) if isinstance(answer, Answer) else answer

    async def _let_in(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> Target | Answer:
        if (answer := await self._turn_away(entry, person, cached)) is not None:
            return answer
        if entry.action is None:
            return await self._carry_out(entry, person, cached)
        assert cached is not None
        if person is None or not is_owner(person, cached.workspace):
            return error(404, text(entry.language, "program.nothing_here"))
        return await self._actions.act(entry, entry.action, person, cached)

    async def _open_door(self, entry: Entry, workspace_id: UUID) -> Answer:
        """Let a browser in that comes back from the hub with a code, and show another how to begin anew."""
        assert self._entering is not None
        if intent(entry.visit) is not Intent.NAVIGATION:
            return error(403, text(entry.language, "program.enter"))
        cached = await self._cache.workspace(workspace_id) if entry.route.port is not None else None
        crosses_sites = cached is not None and cached.workspace.spec.cross_port_access
        answer = await self._entering.open_door(entry.head, workspace_id, crosses_sites=crosses_sites)
        if answer is not None:
            return answer
        person, cached = await self._who_and_where(entry.head, workspace_id)
        refused = await self._refuse_entry(entry, person, cached)
        if refused is None and person is not None:  # by another tab's code, a moment ago
            return redirect(303, "/")
        return refused_page("door", entry.language, entry.site.hub)

    async def _refuse_entry(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> SignIn | NoSuch | Forbidden | None:
        row, port = None if cached is None else cached.workspace, entry.route.port
        if cached is None or port is None:
            return refuse_entry(person, row)
        return refuse_entry(person, row, port, await self._cache.visibility(cached, port))

    async def _turn_away(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> Answer | None:
        """Say why a visit does not come in here, whatever the workspace's state; None if it may."""
        row = None if cached is None else cached.workspace
        route = entry.route
        refused = await self._refuse_entry(entry, person, cached)
        if refused is not None:
            return self._refused(refused, entry)
        assert row is not None
        if self._entering is None:
            return None
        if not entry.is_at_origin:
            return None if has_token(entry.head) else self._lead_to_origin(entry, row)
        if route.port is not None:
            return None
        if self._cache.keeps_prefix(row) and is_root(route) and entry.visit.method in SAFE_METHODS:
            return redirect(303, mount_of(row.id) + route.rest)
        return None

    def _refused(self, decision: SignIn | NoSuch | Forbidden, entry: Entry) -> Answer:
        is_nobody = isinstance(decision, SignIn) and intent(entry.visit) is Intent.NAVIGATION
        if is_nobody and entry.is_at_origin and self._entering is not None:
            return self._entering.send_to_hub(entry.head)
        return refusals.refuse(decision, entry)

    def _lead_to_origin(self, entry: Entry, row: Workspace) -> Answer:
        """Let a session enter at the workspace's own origin alone: here its pages would be the hub's."""
        assert self._entering is not None
        origin, route = self._entering.origins.origin_of(row.label), entry.route
        if intent(entry.visit) is not Intent.NAVIGATION:
            return error(403, text(entry.language, "program.own_origin", origin=origin))
        lives_below = self._cache.keeps_prefix(row) and entry.action is None
        return redirect(303, origin + (route.mount if lives_below else "") + route.rest)

    async def _who_and_where(
        self, head: RequestHead, workspace_id: UUID
    ) -> tuple[Visitor | None, CachedWorkspace | None]:
        credential: Credential | None = head.block.identity
        person = None if credential is None else await self._cache.person(credential)
        is_known = person is not None or head.route.port is not None  # a port may be anybody's
        return person, await self._cache.workspace(workspace_id) if is_known else None

    async def _carry_out(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> Target | Answer:
        head, visit, language = entry.head, entry.visit, entry.language
        row = None if cached is None else cached.workspace
        decision = await self._by_state(entry, person, cached)
        match decision:
            case SignIn() | NoSuch() | Forbidden():
                return self._refused(decision, entry)
            case Connect():
                assert cached is not None
                return await self._connect(head, person, cached)
            case Later():
                assert row is not None
                if not is_owner(person, row):
                    return refusals.asleep(entry)
                return unavailable(refusals.why_later(row, language))
            case Show(page):
                assert row is not None
                return refusals.resting(page, row, entry)
            case Wake() | Follow():
                assert cached is not None
                assert person is not None
                if isinstance(decision, Wake):
                    ruled = await self._waker.wake(head, cached, person)
                    outcome = after_wake(ruled.ruling)
                    if isinstance(outcome, AtLimit):
                        return refusals.at_limit(cached, outcome, entry)
                if intent(visit) is Intent.NAVIGATION:
                    progress = await self._locator.progress(cached.workspace.id)
                    return waking_page(cached.workspace, progress, language, entry.site)
                return await self._wait(entry, cached.workspace.id)

    async def _by_state(
        self, entry: Entry, person: Visitor | None, cached: CachedWorkspace | None
    ) -> Decision:
        row, port, visibility = None, entry.route.port, Visibility.PRIVATE
        if cached is not None:
            row = cached.workspace
            if port is not None:
                visibility = await self._cache.visibility(cached, port)
        return decide(
            entry.visit,
            person,
            row,
            port=port,
            visibility=visibility,
            wake_archived=self._rules.wake_archived,
        )

    async def _connect(
        self, head: RequestHead, person: Visitor | None, cached: CachedWorkspace
    ) -> Target | Answer:
        credential: Credential | None = head.block.identity
        name, port = head.route.name, head.route.port
        grant = self._cache.grant(credential, person, cached, name, port)
        if grant is None:
            await self._cache.find_again(cached)
            grant = self._cache.grant(credential, person, cached, name, port)
        return grant or refusals.out_of_reach(cached.workspace, self._entry(head), "program.no_address")

    async def _wait(self, entry: Entry, workspace_id: UUID) -> Target | Answer:
        """Let a program wait until it can be served, for as long as the settings say."""
        while (left := entry.until - self._clock.monotonic()) > 0:
            person, cached = await self._who_and_where(entry.head, workspace_id)
            if not isinstance(await self._by_state(entry, person, cached), Follow):
                return await self._carry_out(entry, person, cached)
            assert cached is not None
            await cached.wait_for_change(left)
        return unavailable(text(entry.language, "program.waking"))
