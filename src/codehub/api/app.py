"""The web application: its parts in, an ASGI application and its live feed out."""

from dataclasses import dataclass
from typing import Any

from fastapi import Depends, FastAPI

from codehub.api import auth, document, errors, events, health, histories, ports, workspaces
from codehub.api.context import Context
from codehub.api.feed import LiveFeed
from codehub.api.guard import refuse_repeated
from codehub.api.incoming import IncomingRequests
from codehub.api.request_id import RequestIds
from codehub.api.view import View
from codehub.web.dependencies import Dependencies


@dataclass(frozen=True, slots=True)
class Web:
    """What answers requests, and what has to run beside it so that streams are fed."""

    app: FastAPI
    feed: LiveFeed


def create_web(parts: Dependencies) -> Web:
    app = _make_routes()
    view = View(parts.store, parts.addresses, parts.clock)
    feed = LiveFeed(parts, view)
    app.state.context = Context(parts, view, feed)
    app.add_middleware(IncomingRequests)
    app.add_middleware(
        RequestIds, identity=parts.identity, clock=parts.clock, metrics=parts.metrics
    )  # added last: it is the outermost
    return Web(app, feed)


def openapi() -> dict[str, Any]:
    """Return the document. It is the same for every installation."""
    return _make_routes().openapi()


def _make_routes() -> FastAPI:
    app = FastAPI(
        title="codehub",
        version="1",
        description="Cloud development environments: declare what you want, follow what happens.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would go wherever the Host header says, in plain http
    )
    errors.install_handlers(app)
    document.install(app)
    app.state.routes = []
    for module in (auth, workspaces, ports, histories, events, health):
        app.include_router(module.router, dependencies=[Depends(refuse_repeated)])
        app.state.routes += module.router.routes
    return app
