"""The dashboard's table of contents: every address, who may come in there, and what answers; and what answers everywhere else."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from codehub.dashboard import account, actions, admin, assets, detail, editing, home, keys
from codehub.dashboard.face import Door, Face, Handler
from codehub.web.dependencies import Dependencies

_ONE = "/workspaces/{workspace_id}"
TABLE: tuple[tuple[str, str, Door, Handler], ...] = (
    ("GET", "/login", Door.ANYBODY, account.login_page),
    ("POST", "/login", Door.ANYBODY, account.login),
    ("POST", "/logout", Door.PERSON, account.logout),
    ("GET", "/", Door.PERSON, home.page),
    ("GET", "/rows", Door.PERSON, home.rows),
    ("GET", "/trash", Door.PERSON, home.trash),
    ("GET", "/new", Door.PERSON, editing.new),
    ("POST", "/new", Door.PERSON, editing.create),
    ("GET", _ONE, Door.PERSON, detail.page),
    ("GET", f"{_ONE}/history", Door.PERSON, detail.history),
    ("GET", f"{_ONE}/logs", Door.PERSON, detail.logs),
    ("GET", f"{_ONE}/settings", Door.PERSON, editing.settings),
    ("POST", f"{_ONE}/settings", Door.PERSON, editing.change),
    ("POST", f"{_ONE}/start", Door.PERSON, actions.start),
    ("POST", f"{_ONE}/stop", Door.PERSON, actions.stop),
    ("POST", f"{_ONE}/archive", Door.PERSON, actions.archive),
    ("POST", f"{_ONE}/keep_awake", Door.PERSON, actions.keep_awake),
    ("POST", f"{_ONE}/recover", Door.PERSON, actions.recover),
    ("POST", f"{_ONE}/delete", Door.PERSON, actions.delete),
    ("POST", f"{_ONE}/undelete", Door.PERSON, actions.undelete),
    ("POST", f"{_ONE}/purge", Door.PERSON, actions.purge),
    ("POST", f"{_ONE}/forget", Door.ADMIN, actions.forget),
    ("GET", "/account", Door.PERSON, account.page),
    ("GET", "/account/password", Door.PERSON, account.reloaded),
    ("GET", "/account/tokens", Door.PERSON, account.reloaded),
    ("GET", "/account/tokens/{token_id}/delete", Door.PERSON, account.reloaded),
    ("POST", "/account/password", Door.PERSON, account.change_password),
    ("POST", "/account/tokens", Door.PERSON, account.make_token),
    ("POST", "/account/tokens/{token_id}/delete", Door.PERSON, account.delete_token),
    ("GET", "/admin/workspaces", Door.ADMIN, home.everybody),
    ("GET", "/admin/users", Door.ADMIN, admin.users),
    ("POST", "/admin/users", Door.ADMIN, admin.add_user),
    ("GET", "/admin/users/{user_id}", Door.ADMIN, admin.reloaded),
    ("POST", "/admin/users/{user_id}", Door.ADMIN, admin.change_user),
    ("GET", "/admin/users/{user_id}/keys", Door.ADMIN, keys.page),
    ("POST", "/admin/users/{user_id}/keys", Door.ADMIN, keys.end),
    ("GET", "/admin/health", Door.ADMIN, admin.health),
)


_NOWHERE = (404, 405)
_READS = ("GET", "HEAD")
Failing = Callable[[Request, Exception], Awaitable[Response]]


def add_dashboard(app: FastAPI, parts: Dependencies) -> None:
    """Add its pages to the web application. A browser that goes astray, or whose request fails, gets a page; all others what they got."""
    face = Face(parts)
    app.include_router(_routes(face))
    refuse: Failing = app.exception_handlers[HTTPException]  # type: ignore[assignment]  # starlette's type allows a plain function
    fail: Failing = app.exception_handlers[Exception]  # type: ignore[assignment]

    async def refused(request: Request, error: Exception) -> Response:
        is_nowhere = isinstance(error, HTTPException) and error.status_code in _NOWHERE
        return face.astray(request, 404) if is_nowhere and _is_page(request) else await refuse(request, error)

    async def failed(request: Request, error: Exception) -> Response:
        return face.astray(request, 500) if _is_page(request) else await fail(request, error)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, failed)


def _is_page(request: Request) -> bool:
    """Whether somebody looks at the answer in a browser: the API's addresses are for programs, whoever asks."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def _routes(face: Face) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for method, path, door, handler in TABLE:
        methods = [*_READS] if method == "GET" else [method]
        router.add_api_route(path, face.guarded(handler, door), methods=methods, response_model=None)
    router.add_api_route(
        assets.PREFIX + "/{digest}/{name}", assets.asset, methods=[*_READS], response_model=None
    )
    return router
