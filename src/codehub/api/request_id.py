"""One id per request: taken from the caller if it is plain, else made; bound to the logs and the history, and
sent back. Counted, too.
"""

import re

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.ports.metrics import Metrics
from codehub.ports.system import Clock, Identity

_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_API = "/api/"
_FAILED = 500
# A page of another host of this site asks with this site's cookies: no answer gets into a frame, nor to it.
_FOR_OUR_PAGES_ALONE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
log = structlog.get_logger()


class RequestIds:
    def __init__(self, app: ASGIApp, *, identity: Identity, clock: Clock, metrics: Metrics) -> None:
        self._app = app
        self._identity = identity
        self._clock = clock
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id = Headers(scope=scope).get("x-request-id", "")
        request_id = sent_id if _PLAIN.fullmatch(sent_id) else str(self._identity.new_id())
        scope.setdefault("state", {})["request_id"] = request_id
        began_at = self._clock.monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                if scope["path"].startswith(_API):
                    for name, value in _FOR_OUR_PAGES_ALONE.items():
                        headers[name] = value
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        # Never unbound: each request is its own task, and what the server logs about it afterwards should
        # have its id.
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            status = _FAILED  # answered outside of here
            raise
        finally:
            elapsed_s = self._clock.monotonic() - began_at
            self._metrics.record_request(scope["method"], _route(scope), status, elapsed_s)
            log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                elapsed_ms=round(elapsed_s * 1000, 1),
            )


def _route(scope: Scope) -> str:
    """Return the route's pattern, never the path: a metric must have one row per route."""
    return getattr(scope.get("route"), "path_format", "") or "none"
