"""The web application: its parts in, an ASGI application and its live feed out."""

from dataclasses import dataclass

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from codehub.api import document, errors, events, histories, people, workspaces
from codehub.api.addresses import is_local
from codehub.api.bodies import BoundedBodies
from codehub.api.desk import Desk
from codehub.api.document import OF_PEOPLE, answers
from codehub.api.feed import LiveFeed
from codehub.api.first_page import PAGE_HEADERS, first_page
from codehub.api.guard import Guard
from codehub.api.parts import Check, Parts
from codehub.api.requests import Requests
from codehub.api.shapes import Health, Readiness
from codehub.api.view import View

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Web:
    """What answers requests, and what has to run beside it so that streams are fed."""

    app: FastAPI
    feed: LiveFeed


def create_web(parts: Parts) -> Web:
    app = FastAPI(
        title="codehub",
        version="1",
        description="Cloud development environments: declare what you want, follow what happens.",
        docs_url=None,
        redoc_url=None,
    )
    errors.install(app)
    document.install(app)
    guard, view = Guard(parts.access, parts.base_url), View(parts.store, parts.base_url)
    feed = LiveFeed(parts, view)
    app.state.desk = Desk(parts, guard, view, feed)
    for router in (people.router, workspaces.router, histories.router, events.router):
        app.include_router(router)
    _health_routes(app, parts, guard)
    app.add_middleware(BoundedBodies)
    app.add_middleware(
        Requests, identity=parts.identity, clock=parts.clock, meters=parts.meters
    )  # added last: it is the outermost
    return Web(app, feed)


def _health_routes(app: FastAPI, parts: Parts, guard: Guard) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether this process answers", response_model=Health)
    async def healthz() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get(
        "/readyz",
        tags=["health"],
        summary="Whether everything it needs answers",
        response_model=Readiness,
        responses={503: {"description": "Something does not.", "model": Readiness}},
    )
    async def readyz() -> Response:
        results = {name: await _result(check) for name, check in parts.checks.items()}
        is_ready = all(result == "ok" for result in results.values())
        return JSONResponse({"ready": is_ready, "checks": results}, status_code=200 if is_ready else 503)

    @app.get(
        "/metrics",
        tags=["health"],
        summary="What operators watch, for Prometheus (admins, and programs on this machine)",
        response_class=Response,
        responses=answers(*OF_PEOPLE)
        | {200: {"description": "Meters.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics(request: Request) -> Response:
        if not is_local(request):
            await guard.admin(request)
        return Response(parts.meters.shown(await parts.store.phases()), media_type=_TEXT)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(first_page(request.headers.get("accept-language", "")), headers=PAGE_HEADERS)


async def _result(check: Check) -> str:
    try:
        await check()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why we are not ready
        return str(error) or type(error).__name__
    return "ok"
