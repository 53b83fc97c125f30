"""Signing in and out, one's password and tokens."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codehub.core.access import PASSWORD_LENGTH_MIN
from codehub.dashboard.caller import Caller
from codehub.dashboard.enter import leads_to_an_origin
from codehub.dashboard.forms import WrongFields, is_sure, read_form, token_fields, validate
from codehub.dashboard.home import usage
from codehub.dashboard.redirects import SessionEnd, local_path, see_other
from codehub.dashboard.rendering import Pages
from codehub.ports.access import KeyEnded, TooManyTokens, UnknownToken
from codehub.service.access import SignedIn, Throttled
from codehub.text import LANGUAGES, text
from codehub.web.addresses import client_address
from codehub.web.cookies import device_cookie, language_cookie, sent_device, sent_language, session_cookie
from codehub.web.schemas import LoginBody, PasswordBody, TokenBody

_EXPIRY_DAYS = (7, 30, 90, 365)
_DAY_S = 86_400
_END_NOTICES: Mapping[str, str] = {
    SessionEnd.FORM.value: "login.ended.form",
    SessionEnd.PAGE.value: "login.ended",
}


async def login_page(pages: Pages, caller: Caller) -> Response:
    request, next_path = caller.request, local_path(caller.request.query_params.get("next"))
    if caller.known:
        return see_other(next_path)
    if _is_by_another_name(pages, request):
        query = f"?{request.url.query}" if request.url.query else ""
        return see_other(f"{pages.parts.base_url}{request.url.path}{query}")
    return _login(pages, caller, next_path)


def _is_by_another_name(pages: Pages, request: Request) -> bool:
    """Whether it was opened by one of codehub's own names that workspaces' origins don't lead to: a session
    there would be none for them.
    """
    origin, parts = f"http://{request.headers.get('host', '')}", pages.parts
    return parts.doors is not None and origin != parts.base_url and origin in parts.own_origins


async def login(pages: Pages, caller: Caller) -> Response:
    form = await read_form(caller.request)
    next_path = local_path(form.get("next"))
    username = form.get("username", "").strip()
    try:
        body = validate(LoginBody, {"username": username, "password": form.get("password", "")})
    except WrongFields:
        return _login(pages, caller, next_path, username, caller.say("login.wrong"), status=401)
    address = client_address(caller.request, pages.parts.trusted_proxies)
    device = sent_device(caller.request, pages.parts.base_url)
    outcome = await pages.parts.access.login(body.username, body.password, address=address, device=device)
    if isinstance(outcome, Throttled):
        wait_s = math.ceil(outcome.retry_after_s)
        answer = _login(
            pages, caller, next_path, username, caller.say("login.throttled", seconds=wait_s), status=429
        )
        answer.headers["Retry-After"] = str(wait_s)
        return answer
    if not isinstance(outcome, SignedIn):
        return _login(pages, caller, next_path, username, caller.say("login.wrong"), status=401)
    answer = _leave_login(pages, caller, next_path)
    answer.headers.append("Set-Cookie", session_cookie(pages.parts.base_url, outcome.session))
    answer.headers.append("Set-Cookie", device_cookie(pages.parts.base_url, outcome.device))
    return answer


def _leave_login(pages: Pages, caller: Caller, path: str) -> Response:
    """Send a browser that has signed in to the page it asked for. To another origin a page of ours sends it:
    no browser follows the redirect of a form there, since our policy lets forms be sent to codehub alone.
    """
    if pages.parts.doors is None or not leads_to_an_origin(path):
        return see_other(path)
    return pages.render(caller, "onward.html", next=path)


def _login(
    pages: Pages,
    caller: Caller,
    next_path: str,
    username: str = "",
    problem: str | None = None,
    *,
    status: int = 200,
) -> Response:
    notice = _END_NOTICES.get(caller.request.query_params.get("ended", ""))
    return pages.render(
        caller,
        "login.html",
        status=status,
        next=next_path,
        username=username,
        problem=problem,
        ended=None if notice is None else caller.say(notice),
        usage=None,
    )


async def logout(pages: Pages, caller: Caller) -> Response:
    await pages.parts.access.logout(caller.person)
    answer = see_other("/login")
    answer.headers["Set-Cookie"] = session_cookie(pages.parts.base_url, None)
    return answer


async def page(pages: Pages, caller: Caller) -> Response:
    return await _account(pages, caller)


async def redirect_back(_pages: Pages, _caller: Caller) -> Response:
    """Redirect a GET of an address that only answers to a form."""
    return see_other("/account")


async def choose_language(pages: Pages, caller: Caller) -> Response:
    """Keep the language that was chosen for this browser; without one the browser's own counts again."""
    language = (await read_form(caller.request)).get("language")
    answer = see_other("/account")
    known_language = language if language in LANGUAGES else None
    answer.headers["Set-Cookie"] = language_cookie(pages.parts.base_url, known_language)
    return answer


async def change_password(pages: Pages, caller: Caller) -> Response:
    form = await read_form(caller.request)
    try:
        body = validate(PasswordBody, {"old": form.get("old", ""), "new": form.get("new", "")})
    except WrongFields as error:
        return await _account(pages, caller, status=422, wrong=error.fields)
    if form.get("again") != body.new:
        return await _account(pages, caller, status=422, wrong={"again"})
    address = client_address(caller.request, pages.parts.trusted_proxies)
    refusal = await pages.parts.access.change_password(
        caller.person,
        body.old,
        body.new,
        address=address,
        device=sent_device(caller.request, pages.parts.base_url),
    )
    if isinstance(refusal, Throttled):
        wait_s = math.ceil(refusal.retry_after_s)
        problem = caller.say("login.throttled", seconds=wait_s)
        answer = await _account(pages, caller, status=429, problem=problem)
        answer.headers["Retry-After"] = str(wait_s)
        return answer
    if refusal is not None:
        return await _account(pages, caller, status=403, wrong={"old"})
    return await _account(pages, caller, message=caller.say("done.password"))


async def make_token(pages: Pages, caller: Caller) -> Response:
    """Show the token's secret, on this one answer and never again."""
    try:
        body = validate(TokenBody, token_fields(await read_form(caller.request)))
    except WrongFields as error:
        return await _account(pages, caller, status=422, wrong={f"token.{field}" for field in error.fields})
    lasts = None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds)
    access = pages.parts.access
    try:
        _token, secret = await access.make_token(caller.person, name=body.name, scope=body.scope, lasts=lasts)
    except TooManyTokens:
        problem = caller.say("above.tokens", max=access.tokens_max)
        return await _account(pages, caller, status=422, tokens_problem=problem)
    except KeyEnded:
        return see_other("/login")
    return await _account(pages, caller, status=201, secret=secret)


async def delete_token(pages: Pages, caller: Caller) -> Response:
    form, tokens = await read_form(caller.request), await pages.parts.access.tokens(caller.person)
    token = next(
        (candidate for candidate in tokens if str(candidate.id) == caller.request.path_params["token_id"]),
        None,
    )
    if token is not None and not is_sure(form):
        question, answer = caller.say("tokens.sure", name=token.name), caller.say("do.delete")
        return pages.confirm(caller, question, answer=answer, fields={}, back="/account")
    try:
        await pages.parts.access.delete_token(caller.person, UUID(caller.request.path_params["token_id"]))
    except (ValueError, UnknownToken):
        return pages.refusal(caller, 404, "error.404")
    return see_other("/account")


async def _account(pages: Pages, caller: Caller, *, status: int = 200, **values: Any) -> Response:
    defaults = {
        "wrong": frozenset(),
        "message": None,
        "problem": None,
        "secret": None,
        "tokens_problem": None,
    } | values
    return pages.render(
        caller,
        "account.html",
        status=status,
        tokens=await pages.parts.access.tokens(caller.person),
        expiries=[(str(days * _DAY_S), days) for days in _EXPIRY_DAYS],
        length_min=PASSWORD_LENGTH_MIN,
        languages=[(language, text(language, "language.name")) for language in LANGUAGES],
        chosen_language=sent_language(caller.request, pages.parts.base_url),
        usage=await usage(pages, caller),
        address="/account",  # so that a reload sends no form again
        **defaults,
    )
