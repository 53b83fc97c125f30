"""Authenticates requests of the API.

Refuses those without a valid key, without permission, or from another site.
"""

import hmac
import math
from collections.abc import Collection

from starlette.requests import Request

from codehub.api.errors import ApiError
from codehub.core.access import SAFE_METHODS, Person, Scope, is_foreign
from codehub.error_codes import ErrorCode
from codehub.ports.system import Clock
from codehub.service.access import AccessService
from codehub.web.cookies import sent_session
from codehub.web.request_rate import MINUTE_S, RequestRate

_SIGN_IN_FIRST = "Sign in first: POST /api/v1/login, or send a token as `Authorization: Bearer cht_…`."


class Guard:
    """Called once per request, as a dependency."""

    def __init__(
        self,
        access: AccessService,
        base_url: str,
        own_origins: Collection[str],
        rate: RequestRate,
        clock: Clock,
        *,
        metrics_token: str | None,
    ) -> None:
        self._access = access
        self._rate = rate
        self._clock = clock
        self._base_url = base_url
        self._own_origins = own_origins
        self._metrics_token = metrics_token

    async def person(self, request: Request) -> Person:
        """Return whoever asks, signed in by a session or a token; a change needs more than either.

        Raises SeveralSessions.
        """
        bearer = _bearer(request)
        person = await self._access.authenticate(sent_session(request, self._base_url), bearer)
        if person is None:
            raise ApiError(ErrorCode.UNAUTHORIZED, _SIGN_IN_FIRST, headers={"WWW-Authenticate": "Bearer"})
        self._refuse_too_fast(person)
        if request.method not in SAFE_METHODS:
            if bearer is None:
                self.refuse_foreign(request)
            if person.scope is not Scope.WRITE:
                raise ApiError(ErrorCode.FORBIDDEN, "This token may only read.")
        return person

    def _refuse_too_fast(self, person: Person) -> None:
        wait_s = self._rate.wait_s(person.id, self._clock.monotonic())
        if wait_s > 0:
            most = self._rate.per_minute
            raise ApiError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"You have sent more than {most} requests in a minute. Wait a moment.",
                {"max": most, "per_seconds": MINUTE_S},
                headers={"Retry-After": str(math.ceil(wait_s))},
            )

    async def admin(self, request: Request) -> Person:
        person = await self.person(request)
        if not person.is_admin:
            raise ApiError(ErrorCode.FORBIDDEN, "Only an admin may do this.")
        return person

    async def admit_monitoring(self, request: Request) -> None:
        """Admit monitoring: by the metrics token, or as an admin.

        The client's address does not matter (security 23).
        """
        if not self.has_metrics_token(request):
            await self.admin(request)

    def has_metrics_token(self, request: Request) -> bool:
        """Whether the request has the metrics token."""
        bearer, token = _bearer(request), self._metrics_token
        return token is not None and hmac.compare_digest((bearer or "").encode(), token.encode())

    def refuse_foreign(self, request: Request) -> None:
        """Refuse a change that a page of another site asks for (security 3)."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if is_foreign(origin, site, self._own_origins):
            raise ApiError(
                ErrorCode.FORBIDDEN,
                f"This request comes from another site. Open codehub at {self._base_url}.",
            )


def _bearer(request: Request) -> str | None:
    """Return the token that was sent; any other Authorization counts as one that opens nothing."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
