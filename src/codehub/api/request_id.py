"""One id per request: taken from the caller if it is plain, else made; bound to the logs and sent back."""

import re
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.ports.system import Clock, Identity

_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")
log = structlog.get_logger()


class RequestId:
    def __init__(self, app: ASGIApp, *, identity: Identity, clock: Clock) -> None:
        self._app = app
        self._identity = identity
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _PLAIN.fullmatch(given) else str(self._identity.new_id())
        began = self._clock.monotonic()
        status: Any = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                elapsed_ms = round((self._clock.monotonic() - began) * 1000, 1)
                log.info(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    elapsed_ms=elapsed_ms,
                )
