"""The health port: whether one process of a role lives and is ready,
for whoever starts, stops and balances it.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codehub.api.health import failures_of, readiness
from codehub.app.server import bind_port, serving
from codehub.engine.system import System
from codehub.error_codes import error_of_status
from codehub.settings import Settings
from codehub.web.dependencies import Check

_NOT_FOUND = {"code": error_of_status(404), "message": "There is nothing here.", "details": None}


@asynccontextmanager
async def answering_health(
    settings: Settings, checks: Mapping[str, Check], system: System
) -> AsyncIterator[None]:
    """Answer `/healthz` and `/readyz` on the health port, if there is to be one."""
    if settings.health_port is None:
        yield
        return
    with bind_port(settings, port="health_port") as listener:
        async with serving(_make_app(checks), listener, system):
            yield


def _make_app(checks: Mapping[str, Check]) -> ASGIApp:
    async def answer(path: str) -> Response:
        if path == "/healthz":
            return JSONResponse({"status": "ok"})
        if path == "/readyz":
            return readiness(await failures_of(checks), may_see_reasons=False)
        return JSONResponse({"error": _NOT_FOUND}, status_code=404)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await answer(scope["path"]))(scope, receive, send)

    return app
