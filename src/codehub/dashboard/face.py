"""The dashboard's door and its pen: a request in, who asks and in which language out; a template and its values in, a page out.

Refuses whoever is not signed in, is no admin where one is needed, or was sent by another site's page.
"""

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from urllib.parse import quote, urlsplit

import structlog
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from codehub.core.access import SAFE_METHODS, Person, is_foreign, may_manage
from codehub.core.disk_space import DiskSpace
from codehub.core.language import preferred_language
from codehub.core.workspace import Workspace, is_deleted
from codehub.dashboard import assets
from codehub.dashboard.words import Say, speaker
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable, UnknownWorkspace
from codehub.service.password_queue import PasswordQueueFull
from codehub.service.workspaces import By
from codehub.web.cookies import SeveralSessions, sent_session
from codehub.web.dependencies import Dependencies
from codehub.web.ids import to_id
from codehub.web.measures import WORDS as MEASURES
from codehub.web.measures import left, relative, span

log = structlog.get_logger()

_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that a browser sends `Origin: null` with a form, which is nobody's own.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept-Language, Accept-Encoding",
}
_POLICY = (
    "default-src 'none'; script-src {0}; style-src {0}; img-src {0}; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
# What a policy can name: no address in IPv6, for one.
_NAMED_HOST = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
SAID: Mapping[str, str] = {"X-Codehub-Said": "yes"}
"""Marks an answer of ours that has words for the reader, whatever its status is: codehub.js shows it."""
_IN_PART: Mapping[str, str] = {"error.404.workspace": "no.WORKSPACE_NOT_FOUND"}
_ROWS = ("ws-", "trash-")
_PACKED_FROM, _PACKING = 1000, 4
_OF_A_PLACE = "%/:?#[]@!$&'()*+,;=~"

_TEMPLATES = Environment(
    loader=PackageLoader("codehub.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["asset"] = assets.address


class Door(Enum):
    """Who may come in."""

    ANYBODY = "anybody"
    PERSON = "person"
    ADMIN = "admin"


class Ended(Enum):
    """How somebody noticed that their session has ended; the value is what the address of the sign-in page says. codehub.js says PAGE, too."""

    FORM = "1"
    """They sent a form, and nothing of it was saved."""
    PAGE = "page"
    """A page asked for news of itself."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A request as a page needs it. `person` is None only where anybody may come in."""

    request: Request
    known: Person | None
    language: str
    say: Say
    now: datetime
    shortage: DiskSpace | None = None
    """How little room is left, if nothing starts because of it."""

    @property
    def person(self) -> Person:
        assert self.known is not None
        return self.known

    @property
    def is_partial(self) -> bool:
        """Whether a script asks for a part of the page it is on."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def target(self) -> str:
        return self.request.headers.get("hx-target", "")

    def by(self, reason: str) -> By:
        return By(self.person.user.username, reason, self.request.state.request_id)


class Turned(Exception):
    """The caller is sent away, with this answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


Handler = Callable[["Face", Caller], Awaitable[Response]]


class Face:
    """What every page stands on."""

    def __init__(self, parts: Dependencies) -> None:
        self.parts = parts

    def guarded(self, handler: Handler, door: Door) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers requests: the handler behind its door. Whatever is away is said so on a page."""

        async def answer(request: Request) -> Response:
            language = preferred_language(request.headers.get("accept-language", ""))
            try:
                caller = await self._let_in(request, language, door)
                return await handler(self, caller)
            except Turned as turned:
                return turned.answer
            except UnknownWorkspace:  # it went while we looked
                if request.headers.get("hx-request") == "true":
                    return self._told(request, language, "no.WORKSPACE_NOT_FOUND", 404)
                return self._plain(request, language, "error.404.workspace", 404)
            except PasswordQueueFull:
                return self._plain(request, language, "error.503.crowded", 503)
            except SeveralSessions:
                return self._plain(request, language, "error.400.sessions", 400)
            except (StoreUnavailable, BackendUnreachable) as away:
                log.warning("dashboard_blind", reason=str(away))
                return self._plain(request, language, "error.503", 503)

        return answer

    # The door

    async def _let_in(self, request: Request, language: str, door: Door) -> Caller:
        is_change = request.method not in SAFE_METHODS
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if is_change and is_foreign(origin, site, self.parts.origins):
            facts = {"base": self.parts.base_url}
            raise Turned(self._plain(request, language, "error.403.foreign", 403, **facts))
        access, store = self.parts.access, self.parts.store
        person, now, shortage = await asyncio.gather(
            access.authenticate(sent_session(request, self.parts.base_url), None),
            store.now(),
            store.shortage(),
        )
        if person is None and door is not Door.ANYBODY:
            raise Turned(_to_login(request))
        if person is not None:
            wait_s = self.parts.pace.wait_s(person.id, self.parts.clock.monotonic())
            if wait_s > 0:
                raise Turned(self._plain(request, language, "error.429", 429, max=self.parts.pace.per_minute))
        caller = Caller(request, person, language, speaker(language), now, shortage)
        if door is Door.ADMIN and not caller.person.is_admin:
            raise Turned(self.refusal(caller, 403, "error.403.admin"))
        return caller

    async def find(self, caller: Caller, *, even_deleted: bool = False) -> Workspace:
        """Find the workspace that the path names, if the caller may see it."""
        found = to_id(caller.request.path_params["workspace_id"])
        if found is None:
            raise Turned(self.refusal(caller, 404, "error.404.workspace"))
        try:
            row = await self.parts.store.get(found)
        except UnknownWorkspace:
            raise Turned(self.refusal(caller, 404, "error.404.workspace")) from None
        if not may_manage(caller.person, row.spec.owner_user_id):
            raise Turned(self.refusal(caller, 403, "error.403"))
        if is_deleted(row) and not even_deleted:
            raise Turned(self.refusal(caller, 404, "error.404.workspace"))
        return row

    # The pen

    def page(self, caller: Caller, template: str, *, status: int = 200, **values: Any) -> Response:
        """Draw a page, or a part of one. It is packed, but for the one that may show a secret beside what others can influence (BREACH)."""
        body, headers = (
            self.drawn(caller, template, **values).encode(),
            self._headers(caller.request, caller.language),
        )
        accepted = caller.request.headers.get("accept-encoding", "")
        if template != "account.html" and "gzip" in accepted and len(body) > _PACKED_FROM:
            body = gzip.compress(body, _PACKING, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, status, headers, "text/html")

    def drawn(self, caller: Caller, template: str, **values: Any) -> str:
        language, now = caller.language, caller.now
        return _TEMPLATES.get_template(template).render(
            say=caller.say,
            language=language,
            me=caller.known,
            now=now,
            stamp=_stamp,
            exact=_exact,
            relative=lambda at: relative(at, now, language),
            span=lambda seconds: span(seconds, language),
            left=lambda at: left(at, now, language),
            units=json.dumps(MEASURES[language], ensure_ascii=False),
            path=caller.request.url.path,
            shortage=caller.shortage,
            **values,
        )

    def refusal(self, caller: Caller, status: int, key: str, **facts: object) -> Response:
        if caller.is_partial:
            return self._told(caller.request, caller.language, _IN_PART.get(key, key), status, **facts)
        return self.page(caller, "refusal.html", status=status, message=caller.say(key, **facts), usage=None)

    def _told(self, request: Request, language: str, key: str, status: int, **facts: object) -> Response:
        """A word for whoever pressed a button of something that is not theirs, or not there. The row that it was in goes."""
        say = speaker(language)
        toast = {"message": say(key, **facts), "is_bad": True, "undo": None}
        word = _TEMPLATES.get_template("toast.html").render(say=say, toast=toast)
        headers = {**self._headers(request, language), **SAID}
        if not request.headers.get("hx-target", "").startswith(_ROWS):
            headers["HX-Reswap"] = "none"
        return Response(word, status, headers, "text/html")

    def question(
        self, caller: Caller, words: str, *, answer: str, fields: Mapping[str, str], back: str
    ) -> Response:
        """Ask before it is done, where no script has: whoever says yes posts the same fields again."""
        kept = {name: value for name, value in fields.items() if name != "sure"}
        return self.page(
            caller, "sure.html", question=words, answer=answer, fields=kept, back=back, usage=None
        )

    def astray(self, request: Request, status: int) -> Response:
        """A page for an address that leads nowhere, and for what failed though it should not have."""
        language = preferred_language(request.headers.get("accept-language", ""))
        return self._plain(request, language, f"error.{status}", status, request_id=request.state.request_id)

    def _plain(self, request: Request, language: str, key: str, status: int, **facts: object) -> Response:
        """A page for when not even the time can be asked for."""
        say = speaker(language)
        # What leads nowhere, and what was posted, is not asked for again.
        is_again = status != 404 and request.method in SAFE_METHODS  # noqa: PLR2004
        page = _TEMPLATES.get_template("plain.html").render(
            say=say,
            language=language,
            message=say(key, **facts),
            again=request.url.path if is_again else None,
        )
        headers = self._headers(request, language) | ({"Retry-After": "2"} if status in (429, 503) else {})
        headers["X-Request-Id"] = request.state.request_id
        return Response(page, status, headers, "text/html")

    def _headers(self, request: Request, language: str) -> dict[str, str]:
        policy = _POLICY.format(self._own_files(request))
        return {**_HEADERS, "Content-Security-Policy": policy, "Content-Language": language}

    def _own_files(self, request: Request) -> str:
        """Return where a page may load from: our files alone, for in path form workspaces answer under this origin, too."""
        named = (urlsplit(self.parts.base_url).netloc, request.headers.get("host", ""))
        hosts = {host.lower() for host in named if host}
        if not all(_NAMED_HOST.fullmatch(host) for host in hosts):
            return "'self'"
        return " ".join(f"{host}{assets.PREFIX}/" for host in sorted(hosts))


def local_path(text: str | None) -> str:
    """Return where to go next, if it is a place of ours; else home (security 7)."""
    if (
        not text
        or not text.startswith("/")
        or text.startswith("//")
        or "\\" in text
        or not text.isprintable()
    ):
        return "/"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else text


def see_other(place: str) -> Response:
    """Send them there. A header is ASCII; what is escaped already stays as it is."""
    return Response(
        status_code=303, headers={"Location": quote(place, safe=_OF_A_PLACE), "Cache-Control": "no-store"}
    )


def _to_login(request: Request) -> Response:
    """Send them to sign in, and back afterwards. Who was on a page of ours is told that the session ended, and what became of the form."""
    is_change = request.method not in SAFE_METHODS
    ended = Ended.FORM if is_change else Ended.PAGE
    if request.headers.get("hx-request") == "true":
        place = _door(_path_of(request.headers.get("hx-current-url", "/")), ended)
        return Response(status_code=401, headers={"HX-Redirect": place})
    if request.url.path == "/logout":
        return see_other("/login")
    if is_change:
        return see_other(_door(_path_of(request.headers.get("referer", "/")), ended))
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return see_other("/login" if here == "/" else f"/login?next={quote(here)}")


def _door(shown: str, ended: Ended) -> str:
    return f"/login?next={quote(local_path(shown))}&ended={ended.value}"


def _path_of(url: str) -> str:
    """Return the place that a page's address names on its site."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _exact(at: datetime) -> str:
    """Return a time for whoever wants to know it exactly. Scripts tell it by the clock of whoever looks."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _stamp(at: datetime) -> str:
    """Return a time as `<time datetime>` wants it."""
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
