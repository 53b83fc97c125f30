"""What lets somebody in: admins see anybody's sessions and tokens, and end them all."""

from starlette.responses import Response

from codehub.core.access import User
from codehub.dashboard.auth import EarlyAnswer
from codehub.dashboard.caller import Caller
from codehub.dashboard.forms import is_sure, read_form
from codehub.dashboard.home import usage
from codehub.dashboard.redirects import see_other
from codehub.dashboard.rendering import Pages
from codehub.web.ids import to_id


async def page(pages: Pages, caller: Caller) -> Response:
    user = await _require_user(pages, caller)
    keys = await pages.parts.access.keys(user.id)
    running = await usage(pages, caller)
    return pages.render(caller, "keys.html", user=user, keys=keys, usage=running)


async def end(pages: Pages, caller: Caller) -> Response:
    form, user = await read_form(caller.request), await _require_user(pages, caller)
    path = f"/admin/users/{user.id}/keys"
    if not is_sure(form):
        question, answer = caller.say("keys.end.sure", name=user.username), caller.say("keys.end")
        return pages.confirm(caller, question, answer=answer, fields={}, back=path)
    await pages.parts.access.end_keys(user.id)
    return see_other("/login" if user.id == caller.person.id else path)


async def _require_user(pages: Pages, caller: Caller) -> User:
    """Return whom the path names.

    Nobody is ever removed: who is there now is there when they are asked about.
    """
    user_id = to_id(caller.request.path_params["user_id"])
    for user in await pages.parts.access.users():
        if user.id == user_id:
            return user
    raise EarlyAnswer(pages.refusal(caller, 404, "error.404"))
