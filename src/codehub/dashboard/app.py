"""The dashboard's table of contents: every address, who may come in there, and what answers."""

from fastapi import APIRouter

from codehub.dashboard import account, actions, admin, assets, detail, editing, home
from codehub.dashboard.face import Door, Face, Handler
from codehub.web.parts import Parts

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
    ("POST", "/account/password", Door.PERSON, account.change_password),
    ("POST", "/account/tokens", Door.PERSON, account.make_token),
    ("POST", "/account/tokens/{token_id}/delete", Door.PERSON, account.delete_token),
    ("GET", "/admin/workspaces", Door.ADMIN, home.everybody),
    ("GET", "/admin/users", Door.ADMIN, admin.users),
    ("POST", "/admin/users", Door.ADMIN, admin.add_user),
    ("POST", "/admin/users/{user_id}", Door.ADMIN, admin.change_user),
    ("GET", "/admin/health", Door.ADMIN, admin.health),
)


def make_dashboard(parts: Parts) -> APIRouter:
    """Return its routes, for the web application to include."""
    face = Face(parts)
    router = APIRouter(include_in_schema=False)
    for method, path, door, handler in TABLE:
        router.add_api_route(path, face.guarded(handler, door), methods=[method], response_model=None)
    router.add_api_route(
        assets.PREFIX + "/{digest}/{name}", assets.asset, methods=["GET"], response_model=None
    )
    return router
