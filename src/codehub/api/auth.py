"""Signing in, one's session and password, tokens, and users: routes over the access service."""

import math
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from codehub.api.context import context_of
from codehub.api.document import OF_PEOPLE, SIGNED_IN, answers
from codehub.api.errors import ApiError, field_error
from codehub.api.guard import Admin, Asking, refuse_foreign
from codehub.api.render import time
from codehub.api.shapes import (
    KeyList,
    LoggedIn,
    SessionShape,
    TokenList,
    TokenMade,
    UserList,
    UserShape,
)
from codehub.core.access import User
from codehub.core.messages import Code, Message
from codehub.error_codes import ErrorCode
from codehub.ports.access import (
    Key,
    LastAdmin,
    Token,
    TooManyTokens,
    UnknownToken,
    UnknownUser,
    UsernameTaken,
)
from codehub.service.access import SignedIn, Throttled
from codehub.web.addresses import client_address
from codehub.web.cookies import device_cookie, sent_device, session_cookie
from codehub.web.ids import to_id
from codehub.web.schemas import LoginBody, NoBody, PasswordBody, TokenBody, UserBody, UserPatch

_NO_STORE = {"Cache-Control": "no-store"}
_NO_TOKEN = ApiError(ErrorCode.NOT_FOUND, Message(Code.NO_SUCH_TOKEN))
_NO_USER = ApiError(ErrorCode.NOT_FOUND, Message(Code.NO_SUCH_USER))
Id = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
router = APIRouter(prefix="/api/v1")


@router.post(
    "/login",
    tags=["signing in"],
    summary="Sign in with a name and a password",
    response_model=LoggedIn,
    responses=answers(ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN, ErrorCode.TOO_MANY_REQUESTS, body=True),
)
async def login(request: Request, body: LoginBody) -> Response:
    context = context_of(request)
    refuse_foreign(request)
    address = client_address(request, context.parts.trusted_proxies)
    device = sent_device(request, context.parts.base_url)
    outcome = await context.parts.access.login(body.username, body.password, address=address, device=device)
    if isinstance(outcome, Throttled):
        raise _throttle_error(outcome)
    if not isinstance(outcome, SignedIn):
        raise ApiError(ErrorCode.UNAUTHORIZED, Message(Code.WRONG_LOGIN))
    answer = JSONResponse({"user": _user(outcome.user)}, headers=_NO_STORE)
    answer.headers.append("Set-Cookie", session_cookie(context.parts.base_url, outcome.session))
    answer.headers.append("Set-Cookie", device_cookie(context.parts.base_url, outcome.device))
    return answer


@router.post(
    "/logout",
    tags=["signing in"],
    summary="End this session",
    status_code=204,
    responses=answers(*OF_PEOPLE, body=True),
    openapi_extra=SIGNED_IN,
)
async def logout(request: Request, person: Asking, _body: NoBody | None = None) -> Response:
    await context_of(request).parts.access.logout(person)
    answer = Response(status_code=204)
    if not person.is_token:
        answer.headers["Set-Cookie"] = session_cookie(context_of(request).parts.base_url, None)
    return answer


@router.get(
    "/session",
    tags=["signing in"],
    summary="Who you are, and how many of your places are taken",
    response_model=SessionShape,
    responses=answers(*OF_PEOPLE),
    openapi_extra=SIGNED_IN,
)
async def session(request: Request, person: Asking) -> Response:
    parts = context_of(request).parts
    running = {"used": await parts.store.count_running(person.id), "max": parts.limits.per_user}
    return JSONResponse({"user": _user(person.user), "limits": {"running": running}}, headers=_NO_STORE)


@router.put(
    "/session/password",
    tags=["signing in"],
    summary="Change your password, which ends your other sessions and tokens",
    status_code=204,
    responses=answers(*OF_PEOPLE, ErrorCode.TOO_MANY_REQUESTS, body=True),
    openapi_extra=SIGNED_IN,
)
async def change_password(request: Request, person: Asking, body: PasswordBody) -> Response:
    parts = context_of(request).parts
    address = client_address(request, parts.trusted_proxies)
    device = sent_device(request, parts.base_url)
    refusal = await parts.access.change_password(person, body.old, body.new, address=address, device=device)
    if isinstance(refusal, Throttled):
        raise _throttle_error(refusal)
    if refusal is not None:
        raise ApiError(ErrorCode.FORBIDDEN, Message(Code.WRONG_OLD_PASSWORD))
    return Response(status_code=204)


@router.post(
    "/tokens",
    tags=["tokens"],
    summary="Make a token. Its word is shown here and never again",
    status_code=201,
    response_model=TokenMade,
    responses=answers(*OF_PEOPLE, body=True),
    openapi_extra=SIGNED_IN,
)
async def make_token(request: Request, person: Asking, body: TokenBody) -> Response:
    lasts = None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds)
    access = context_of(request).parts.access
    try:
        token, secret = await access.make_token(person, name=body.name, scope=body.scope, lasts=lasts)
    except TooManyTokens:
        most = access.tokens_max
        raise field_error("name", Message(Code.TOO_MANY_TOKENS, {"max": most}), max=most) from None
    content = {
        "id": str(token.id),
        "name": token.name,
        "scope": token.scope,
        "expires_at": time(token.expires_at),
        "token": secret,
    }
    return JSONResponse(content, status_code=201, headers=_NO_STORE)


@router.get(
    "/tokens",
    tags=["tokens"],
    summary="Your tokens",
    response_model=TokenList,
    responses=answers(*OF_PEOPLE),
    openapi_extra=SIGNED_IN,
)
async def tokens(request: Request, person: Asking) -> Response:
    items = [_token(token) for token in await context_of(request).parts.access.tokens(person)]
    return JSONResponse({"items": items, "next_cursor": None})


@router.delete(
    "/tokens/{token_id}",
    tags=["tokens"],
    summary="Delete one of your tokens; it opens nothing any more",
    status_code=204,
    responses=answers(*OF_PEOPLE, ErrorCode.NOT_FOUND),
    openapi_extra=SIGNED_IN,
)
async def delete_token(request: Request, person: Asking, token_id: Id) -> Response:
    known_id = to_id(token_id)
    if known_id is None:
        raise _NO_TOKEN
    try:
        await context_of(request).parts.access.delete_token(person, known_id)
    except UnknownToken:
        raise _NO_TOKEN from None
    return Response(status_code=204)


@router.get(
    "/users",
    tags=["users"],
    summary="Everybody (admins)",
    response_model=UserList,
    responses=answers(*OF_PEOPLE),
    openapi_extra=SIGNED_IN,
)
async def users(request: Request, _admin: Admin) -> Response:
    items = [_user(user) for user in await context_of(request).parts.access.users()]
    return JSONResponse({"items": items, "next_cursor": None})


@router.post(
    "/users",
    tags=["users"],
    summary="Add a user (admins)",
    status_code=201,
    response_model=UserShape,
    responses=answers(*OF_PEOPLE, ErrorCode.NAME_TAKEN, body=True),
    openapi_extra=SIGNED_IN,
)
async def add_user(request: Request, _admin: Admin, body: UserBody) -> Response:
    try:
        user = await context_of(request).parts.access.add_user(body.username, body.password, body.role)
    except UsernameTaken:
        raise ApiError(ErrorCode.NAME_TAKEN, Message(Code.USERNAME_TAKEN)) from None
    return JSONResponse(_user(user), status_code=201)


@router.patch(
    "/users/{user_id}",
    tags=["users"],
    summary=(
        "Change a user's role, enable them; disable them or set their password, which ends their sessions "
        "and tokens (admins)"
    ),
    response_model=UserShape,
    responses=answers(*OF_PEOPLE, ErrorCode.NOT_FOUND, ErrorCode.INVALID_STATE, body=True),
    openapi_extra=SIGNED_IN,
)
async def amend_user(request: Request, _admin: Admin, user_id: Id, body: UserPatch) -> Response:
    known_id = to_id(user_id)
    if known_id is None:
        raise _NO_USER
    try:
        user = await context_of(request).parts.access.amend_user(
            known_id, password=body.password, role=body.role, disabled=body.disabled
        )
    except UnknownUser:
        raise _NO_USER from None
    except LastAdmin:
        raise ApiError(ErrorCode.INVALID_STATE, Message(Code.LAST_ADMIN)) from None
    return JSONResponse(_user(user))


@router.get(
    "/users/{user_id}/keys",
    tags=["users"],
    summary="What lets a user in now: their sessions and tokens (admins)",
    response_model=KeyList,
    responses=answers(*OF_PEOPLE, ErrorCode.NOT_FOUND),
    openapi_extra=SIGNED_IN,
)
async def keys(request: Request, _admin: Admin, user_id: Id) -> Response:
    known_id = to_id(user_id)
    if known_id is None:
        raise _NO_USER
    try:
        items = [_key(key) for key in await context_of(request).parts.access.keys(known_id)]
    except UnknownUser:
        raise _NO_USER from None
    return JSONResponse({"items": items, "next_cursor": None}, headers=_NO_STORE)


@router.delete(
    "/users/{user_id}/keys",
    tags=["users"],
    summary="End every session and token of a user, and what is open by them (admins)",
    status_code=204,
    responses=answers(*OF_PEOPLE, ErrorCode.NOT_FOUND),
    openapi_extra=SIGNED_IN,
)
async def end_keys(request: Request, _admin: Admin, user_id: Id) -> Response:
    known_id = to_id(user_id)
    if known_id is None:
        raise _NO_USER
    try:
        await context_of(request).parts.access.end_keys(known_id)
    except UnknownUser:
        raise _NO_USER from None
    return Response(status_code=204)


def _throttle_error(throttle: Throttled) -> ApiError:
    wait_s = math.ceil(throttle.retry_after_s)
    return ApiError(
        ErrorCode.TOO_MANY_REQUESTS,
        Message(Code.TOO_MANY_TRIES, {"seconds": wait_s}),
        {"retry_after_seconds": wait_s},
        headers={"Retry-After": str(wait_s)},
    )


def _user(user: User) -> dict[str, Any]:
    return {
        "id": str(user.id),
        "username": user.username,
        "role": user.role,
        "disabled": user.disabled,
        "created_at": time(user.created_at),
    }


def _token(token: Token) -> dict[str, Any]:
    return {
        "id": str(token.id),
        "name": token.name,
        "scope": token.scope,
        "expires_at": time(token.expires_at),
        "created_at": time(token.created_at),
        "last_used_at": time(token.last_used_at),
    }


def _key(key: Key) -> dict[str, Any]:
    return {
        "id": str(key.id),
        "kind": key.kind,
        "name": key.name,
        "scope": key.scope,
        "created_at": time(key.created_at),
        "expires_at": time(key.expires_at),
        "last_used_at": time(key.last_used_at),
    }
