"""Authenticates requests of the API.

Refuses those without a valid key, without permission, or from another site.
"""

import hmac
import math
from typing import Annotated

from fastapi import Depends, Request

from codehub.api.context import context_of
from codehub.api.errors import ApiError, field_error
from codehub.core.access import SAFE_METHODS, Person, Scope, is_foreign
from codehub.core.messages import Code, Message
from codehub.error_codes import ErrorCode
from codehub.web.cookies import sent_session
from codehub.web.dependencies import Dependencies
from codehub.web.request_rate import MINUTE_S


async def refuse_repeated(request: Request) -> None:
    """Refuse a query that gives a parameter more than once: it may be read in two ways."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise field_error(name, Message(Code.GIVEN_TWICE))
        seen.add(name)


async def find_person(request: Request) -> Person:
    """Return whoever asks, signed in by a session or a token; a
    change needs more than either. Raises SeveralSessions.
    """
    parts, bearer = context_of(request).parts, _bearer(request)
    person = await parts.access.authenticate(sent_session(request, parts.base_url), bearer)
    if person is None:
        raise ApiError(
            ErrorCode.UNAUTHORIZED, Message(Code.SIGN_IN_FIRST), headers={"WWW-Authenticate": "Bearer"}
        )
    _refuse_too_fast(person, parts)
    if request.method not in SAFE_METHODS:
        if bearer is None:
            refuse_foreign(request)
        if person.scope is not Scope.WRITE:
            raise ApiError(ErrorCode.FORBIDDEN, Message(Code.TOKEN_ONLY_READS))
    return person


async def find_admin(request: Request) -> Person:
    person = await find_person(request)
    if not person.is_admin:
        raise ApiError(ErrorCode.FORBIDDEN, Message(Code.ADMINS_ONLY))
    return person


# Who asks, for a route. FastAPI finds them before the route's own function is called.
Asking = Annotated[Person, Depends(find_person)]
Admin = Annotated[Person, Depends(find_admin)]


async def admit_monitoring(request: Request) -> None:
    """Admit monitoring: by the metrics token, or as an admin.

    The client's address does not matter (security 23).
    """
    if not has_metrics_token(request):
        await find_admin(request)


def has_metrics_token(request: Request) -> bool:
    """Whether the request has the metrics token."""
    bearer, token = _bearer(request), context_of(request).parts.metrics_token
    return token is not None and hmac.compare_digest((bearer or "").encode(), token.encode())


def refuse_foreign(request: Request) -> None:
    """Refuse a change that a page of another site asks for (security 3)."""
    parts = context_of(request).parts
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if is_foreign(origin, site, parts.origins):
        raise ApiError(
            ErrorCode.FORBIDDEN,
            Message(Code.OTHER_SITE, {"base": parts.base_url}),
        )


def _refuse_too_fast(person: Person, parts: Dependencies) -> None:
    wait_s = parts.pace.wait_s(person.id, parts.clock.monotonic())
    if wait_s > 0:
        most = parts.pace.per_minute
        raise ApiError(
            ErrorCode.TOO_MANY_REQUESTS,
            Message(Code.TOO_MANY_REQUESTS, {"max": most}),
            {"max": most, "per_seconds": MINUTE_S},
            headers={"Retry-After": str(math.ceil(wait_s))},
        )


def _bearer(request: Request) -> str | None:
    """Return the token that was sent; any other Authorization counts as one that opens nothing."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
