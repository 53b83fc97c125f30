"""Who may open a page: a request in, the caller or an answer that turns them away out.

Refuses whoever is not signed in, is no admin where one is needed, or was sent by another site's page.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

import structlog
from starlette.requests import Request
from starlette.responses import Response

from codehub.core.access import SAFE_METHODS, is_foreign
from codehub.dashboard.caller import Caller
from codehub.dashboard.redirects import to_login
from codehub.dashboard.rendering import Pages
from codehub.ports.backends import BackendUnreachable
from codehub.ports.store import StoreUnavailable, UnknownWorkspace
from codehub.service.password_queue import PasswordQueueFull
from codehub.service.workspaces import NotAllowed
from codehub.text import speaker
from codehub.web.cookies import SeveralSessions, sent_session
from codehub.web.language import request_language

log = structlog.get_logger()


class Audience(Enum):
    """Who may open a page."""

    ANYBODY = "anybody"
    PERSON = "person"
    ADMIN = "admin"


class EarlyAnswer(Exception):
    """The request goes no further: this is its answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status_code)
        self.answer = answer


Handler = Callable[[Pages, Caller], Awaitable[Response]]


def guard(pages: Pages, handler: Handler, audience: Audience) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers requests: the handler, for its audience.

    Whatever does not answer is said so on a page.
    """

    async def answer(request: Request) -> Response:
        language = request_language(request, pages.parts.base_url)
        try:
            return await _answer(pages, handler, await _authenticate(pages, request, language, audience))
        except EarlyAnswer as error:
            return error.answer
        except PasswordQueueFull:
            return pages.plain(request, language, "error.503.crowded", 503)
        except SeveralSessions:
            return pages.plain(request, language, "error.400.sessions", 400)
        except (StoreUnavailable, BackendUnreachable) as error:
            log.warning("dashboard_blind", reason=str(error))
            return pages.plain(request, language, "error.503", 503)

    return answer


async def _answer(pages: Pages, handler: Handler, caller: Caller) -> Response:
    try:
        return await handler(pages, caller)
    except UnknownWorkspace:
        return pages.refusal(caller, 404, "error.404.workspace")
    except NotAllowed:
        return pages.refusal(caller, 403, "error.403")


async def _authenticate(pages: Pages, request: Request, language: str, audience: Audience) -> Caller:
    is_change = request.method not in SAFE_METHODS
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if is_change and is_foreign(origin, site, pages.parts.origins):
        facts = {"base": pages.parts.base_url}
        raise EarlyAnswer(pages.plain(request, language, "error.403.foreign", 403, **facts))
    access, store = pages.parts.access, pages.parts.store
    person, now, shortage = await asyncio.gather(
        access.authenticate(sent_session(request, pages.parts.base_url), None),
        store.now(),
        store.shortage(),
    )
    if person is None and audience is not Audience.ANYBODY:
        raise EarlyAnswer(to_login(request))
    if person is not None:
        wait_s = pages.parts.pace.wait_s(person.id, pages.parts.clock.monotonic())
        if wait_s > 0:
            raise EarlyAnswer(
                pages.plain(request, language, "error.429", 429, max=pages.parts.pace.per_minute)
            )
    caller = Caller(request, person, language, speaker(language), now, shortage)
    if audience is Audience.ADMIN and not caller.person.is_admin:
        raise EarlyAnswer(pages.refusal(caller, 403, "error.403.admin"))
    return caller
