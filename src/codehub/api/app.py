"""The web application: checks in, an ASGI application out."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from codehub.api.first_page import PAGE_HEADERS, first_page
from codehub.api.request_id import RequestId
from codehub.ports.system import Clock, Identity

# A check returns, or raises with a text that says why the part is not ready.
Check = Callable[[], Awaitable[None]]

_CODES = {
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    413: "PAYLOAD_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
    503: "UNAVAILABLE",
}


def create_app(checks: Mapping[str, Check], *, identity: Identity, clock: Clock) -> FastAPI:
    """Return the application. `checks` are what `/readyz` asks."""
    app = FastAPI(title="codehub", docs_url=None, redoc_url=None)
    app.add_middleware(RequestId, identity=identity, clock=clock)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)

    @app.get("/healthz", summary="Whether this process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(
        "/readyz",
        summary="Whether everything it needs answers",
        responses={503: {"description": "Something does not."}},
    )
    async def readyz() -> JSONResponse:
        results = {name: await _result(check) for name, check in checks.items()}
        is_ready = all(result == "ok" for result in results.values())
        return JSONResponse({"ready": is_ready, "checks": results}, status_code=200 if is_ready else 503)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(first_page(request.headers.get("accept-language", "")), headers=PAGE_HEADERS)

    return app


def error_body(code: str, message: str, details: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "details": details}}


async def _result(check: Check) -> str:
    try:
        await check()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why we are not ready
        return str(error) or type(error).__name__
    return "ok"


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "INVALID_REQUEST")
    return JSONResponse(
        error_body(code, str(error.detail)), status_code=error.status_code, headers=error.headers
    )


async def _failed(_request: Request, _error: Exception) -> JSONResponse:
    return JSONResponse(
        error_body(
            "INTERNAL_ERROR", "Something went wrong here. The log has it under this request's X-Request-Id."
        ),
        status_code=500,
    )
