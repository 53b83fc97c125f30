"""The dashboard's table of contents: every address, who may open it, and what answers; and what answers
everywhere else.
"""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from codehub.dashboard import account, actions, admin, assets, detail, editing, enter, home, keys, ports
from codehub.dashboard.auth import Audience, Handler, guard
from codehub.dashboard.rendering import Pages
from codehub.web.dependencies import Dependencies

_WORKSPACE = "/workspaces/{workspace_id}"
TABLE: tuple[tuple[str, str, Audience, Handler], ...] = (
    ("GET", "/login", Audience.ANYBODY, account.login_page),
    ("POST", "/login", Audience.ANYBODY, account.login),
    ("POST", "/logout", Audience.PERSON, account.logout),
    ("GET", "/", Audience.PERSON, home.page),
    ("GET", "/rows", Audience.PERSON, home.rows),
    ("GET", "/trash", Audience.PERSON, home.trash),
    ("GET", "/new", Audience.PERSON, editing.new),
    ("POST", "/new", Audience.PERSON, editing.create),
    ("GET", _WORKSPACE, Audience.PERSON, detail.page),
    ("GET", f"{_WORKSPACE}/history", Audience.PERSON, detail.history),
    ("GET", f"{_WORKSPACE}/logs", Audience.PERSON, detail.logs),
    ("GET", f"{_WORKSPACE}/ports", Audience.PERSON, ports.show),
    ("POST", f"{_WORKSPACE}/ports", Audience.PERSON, ports.share),
    ("GET", f"{_WORKSPACE}/settings", Audience.PERSON, editing.settings),
    ("POST", f"{_WORKSPACE}/settings", Audience.PERSON, editing.change),
    ("POST", f"{_WORKSPACE}/start", Audience.PERSON, actions.start),
    ("POST", f"{_WORKSPACE}/stop", Audience.PERSON, actions.stop),
    ("POST", f"{_WORKSPACE}/archive", Audience.PERSON, actions.archive),
    ("POST", f"{_WORKSPACE}/keep_awake", Audience.PERSON, actions.keep_awake),
    ("POST", f"{_WORKSPACE}/pin", Audience.PERSON, actions.pin),
    ("POST", f"{_WORKSPACE}/unpin", Audience.PERSON, actions.unpin),
    ("POST", f"{_WORKSPACE}/recover", Audience.PERSON, actions.recover),
    ("POST", f"{_WORKSPACE}/delete", Audience.PERSON, actions.delete),
    ("POST", f"{_WORKSPACE}/undelete", Audience.PERSON, actions.undelete),
    ("POST", f"{_WORKSPACE}/purge", Audience.PERSON, actions.purge),
    ("POST", f"{_WORKSPACE}/forget", Audience.ADMIN, actions.forget),
    ("GET", "/account", Audience.PERSON, account.page),
    ("GET", "/account/language", Audience.PERSON, account.redirect_back),
    ("GET", "/account/password", Audience.PERSON, account.redirect_back),
    ("GET", "/account/tokens", Audience.PERSON, account.redirect_back),
    ("GET", "/account/tokens/{token_id}/delete", Audience.PERSON, account.redirect_back),
    ("POST", "/account/language", Audience.PERSON, account.choose_language),
    ("POST", "/account/password", Audience.PERSON, account.change_password),
    ("POST", "/account/tokens", Audience.PERSON, account.make_token),
    ("POST", "/account/tokens/{token_id}/delete", Audience.PERSON, account.delete_token),
    ("GET", "/admin/workspaces", Audience.ADMIN, home.everybody),
    ("GET", "/admin/users", Audience.ADMIN, admin.users),
    ("POST", "/admin/users", Audience.ADMIN, admin.add_user),
    ("GET", "/admin/users/{user_id}", Audience.ADMIN, admin.redirect_back),
    ("POST", "/admin/users/{user_id}", Audience.ADMIN, admin.change_user),
    ("GET", "/admin/users/{user_id}/keys", Audience.ADMIN, keys.page),
    ("POST", "/admin/users/{user_id}/keys", Audience.ADMIN, keys.end),
    ("GET", "/admin/health", Audience.ADMIN, admin.health),
)
TO_ORIGINS: tuple[tuple[str, str, Audience, Handler], ...] = (
    ("GET", enter.PATH, Audience.PERSON, enter.page),
)
"""What is there beside it if workspaces have origins of their own."""

_NOT_FOUND = (404, 405)
_READS = ("GET", "HEAD")
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


def add_dashboard(app: FastAPI, parts: Dependencies) -> None:
    """Add its pages to the web application.

    A browser gets a page where an address does not exist or a request fails; all others get what they got.
    """
    pages = Pages(parts)
    app.include_router(_routes(pages))
    refuse_by_default: ErrorHandler = app.exception_handlers[HTTPException]  # type: ignore[assignment]  # starlette's type allows a plain function
    fail_by_default: ErrorHandler = app.exception_handlers[Exception]  # type: ignore[assignment]

    async def handle_refusal(request: Request, error: Exception) -> Response:
        is_not_found = isinstance(error, HTTPException) and error.status_code in _NOT_FOUND
        return (
            pages.error(request, 404)
            if is_not_found and _is_page(request)
            else await refuse_by_default(request, error)
        )

    async def handle_failure(request: Request, error: Exception) -> Response:
        return pages.error(request, 500) if _is_page(request) else await fail_by_default(request, error)

    app.add_exception_handler(HTTPException, handle_refusal)
    app.add_exception_handler(Exception, handle_failure)


def _is_page(request: Request) -> bool:
    """Whether somebody looks at the answer in a browser: the API's addresses are for programs,
    whoever asks.
    """
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def _routes(pages: Pages) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    table = TABLE if pages.parts.doors is None else TABLE + TO_ORIGINS
    for method, path, audience, handler in table:
        methods = [*_READS] if method == "GET" else [method]
        router.add_api_route(path, guard(pages, handler, audience), methods=methods, response_model=None)
    router.add_api_route(
        assets.PREFIX + "/{digest}/{name}", assets.asset, methods=[*_READS], response_model=None
    )
    return router
