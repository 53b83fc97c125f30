"""What admins alone see: people, and whether everything answers."""

import asyncio
from typing import Any
from uuid import UUID

from starlette.responses import Response

from codehub.core.access import PASSWORD_LENGTH_MIN, Role
from codehub.dashboard.face import Caller, Face, see_other
from codehub.dashboard.forms import WrongFields, checked, posted
from codehub.dashboard.home import FILTERS, usage
from codehub.ports.access import LastAdmin, UnknownUser, UsernameTaken
from codehub.web.asks import UserBody, UserPatch
from codehub.web.parts import Check

_LOOK_S_MAX = 5.0
_SILENT_S = 15.0


async def users(face: Face, caller: Caller) -> Response:
    return await _users(face, caller)


async def add_user(face: Face, caller: Caller) -> Response:
    given = await posted(caller.request)
    fields = {name: given.get(name, "") for name in ("username", "password", "role")}
    try:
        body = checked(UserBody, fields)
        await face.parts.access.add_user(body.username, body.password, body.role)
    except WrongFields as wrong:
        return await _users(face, caller, status=422, wrong=wrong.fields, typed=fields["username"])
    except UsernameTaken:
        problem = caller.say("users.taken")
        return await _users(face, caller, status=409, problem=problem, typed=fields["username"])
    return see_other("/admin/users")


async def change_user(face: Face, caller: Caller) -> Response:
    given = await posted(caller.request)
    fields: dict[str, Any] = {name: given[name] for name in ("password", "role") if name in given}
    if given.get("disabled") in ("yes", "no"):
        fields["disabled"] = given["disabled"] == "yes"
    user_id = caller.request.path_params["user_id"]
    try:
        body = checked(UserPatch, fields)
        await face.parts.access.amend_user(
            UUID(user_id), password=body.password, role=body.role, disabled=body.disabled
        )
    except WrongFields as wrong:
        return await _users(face, caller, status=422, wrong={f"{field} {user_id}" for field in wrong.fields})
    except LastAdmin:
        return await _users(face, caller, status=409, problem=caller.say("users.last_admin"))
    except (ValueError, UnknownUser):
        return face.refusal(caller, 404, "error.404")
    return see_other("/admin/users")


async def _users(face: Face, caller: Caller, *, status: int = 200, **values: Any) -> Response:
    shown = {"wrong": frozenset(), "problem": None, "typed": ""} | values
    return face.page(
        caller,
        "users.html",
        status=status,
        users=await face.parts.access.users(),
        roles=list(Role),
        length_min=PASSWORD_LENGTH_MIN,
        usage=await usage(face, caller),
        **shown,
    )


async def health(face: Face, caller: Caller) -> Response:
    parts = face.parts
    names = [*parts.checks, *parts.backends]
    looks = await asyncio.gather(
        *(_look(check) for check in (*parts.checks.values(), *parts.backends.values()))
    )
    results = list(zip(names, looks, strict=True))
    heard = await parts.store.members()
    controllers = [(one, (caller.now - one.at).total_seconds() > _SILENT_S) for one in heard]
    counts = await parts.store.phases()
    return face.page(
        caller,
        "health.html",
        checks=results[: len(parts.checks)],
        backends=results[len(parts.checks) :],
        controllers=controllers,
        counts=[(phase, counts.get(phase, 0)) for phase in FILTERS],
        is_good=all(problem is None for problem in looks) and any(not silent for _one, silent in controllers),
        usage=await usage(face, caller),
    )


async def _look(check: Check) -> str | None:
    """Return why it does not answer, or nothing."""
    try:
        async with asyncio.timeout(_LOOK_S_MAX):
            await check()
    except TimeoutError:
        return f"> {_LOOK_S_MAX:g} s"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why it does not answer
        return str(error) or type(error).__name__
    return None
