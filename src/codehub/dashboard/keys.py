"""What lets somebody in: admins see anybody's sessions and tokens, and end them all."""

from starlette.responses import Response

from codehub.core.access import User
from codehub.dashboard.face import Caller, Face, Turned, see_other
from codehub.dashboard.forms import is_sure, posted
from codehub.dashboard.home import usage
from codehub.web.ids import to_id


async def page(face: Face, caller: Caller) -> Response:
    user = await _whose(face, caller)
    keys = await face.parts.access.keys(user.id)
    shown = await usage(face, caller)
    return face.page(caller, "keys.html", user=user, keys=keys, usage=shown)


async def end(face: Face, caller: Caller) -> Response:
    given, user = await posted(caller.request), await _whose(face, caller)
    here = f"/admin/users/{user.id}/keys"
    if not is_sure(given):
        question, answer = caller.say("keys.end.sure", name=user.username), caller.say("keys.end")
        return face.question(caller, question, answer=answer, fields={}, back=here)
    await face.parts.access.end_keys(user.id)
    return see_other("/login" if user.id == caller.person.id else here)


async def _whose(face: Face, caller: Caller) -> User:
    """Return whom the path names. Nobody is ever removed: who is there now is there when they are asked about."""
    user_id = to_id(caller.request.path_params["user_id"])
    for user in await face.parts.access.users():
        if user.id == user_id:
            return user
    raise Turned(face.refusal(caller, 404, "error.404"))
