"""What admins alone see: people, and whether everything answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from starlette.responses import Response

from codehub.core.access import PASSWORD_LENGTH_MIN, Role, User
from codehub.dashboard.caller import Caller
from codehub.dashboard.forms import WrongFields, is_sure, read_form, validate
from codehub.dashboard.home import FILTERS, usage
from codehub.dashboard.redirects import see_other
from codehub.dashboard.rendering import Pages
from codehub.ports.access import LastAdmin, UnknownUser, UsernameTaken
from codehub.web.dependencies import Check
from codehub.web.schemas import UserBody, UserPatch

_LOOK_S_MAX = 5.0
_SILENT_S = 15.0


async def users(pages: Pages, caller: Caller) -> Response:
    return await _users(pages, caller)


async def redirect_back(_pages: Pages, _caller: Caller) -> Response:
    """Redirect a GET of an address that only answers to a form."""
    return see_other("/admin/users")


async def add_user(pages: Pages, caller: Caller) -> Response:
    form = await read_form(caller.request)
    fields = {name: form.get(name, "") for name in ("username", "password", "role")}
    try:
        body = validate(UserBody, fields)
        added = await pages.parts.access.add_user(body.username, body.password, body.role)
    except WrongFields as error:
        return await _users(pages, caller, status=422, wrong=error.fields, typed=fields["username"])
    except UsernameTaken:
        problem = caller.say("users.taken")
        return await _users(pages, caller, status=409, problem=problem, typed=fields["username"])
    return _done("add", added.id)


async def change_user(pages: Pages, caller: Caller) -> Response:
    form = await read_form(caller.request)
    fields: dict[str, Any] = {name: form[name] for name in ("password", "role") if name in form}
    if form.get("disabled") in ("yes", "no"):
        fields["disabled"] = form["disabled"] == "yes"
    user_id = caller.request.path_params["user_id"]
    try:
        body = validate(UserPatch, fields)
        action, user_before = _action_of(body), await _user(pages, UUID(user_id))
        if action == "disable" and user_before.id == caller.person.id:
            return await _users(pages, caller, status=409, problem=caller.say("users.not_yourself"))
        removes_rights = action == "disable" or (action == "make_member" and user_before.role is Role.ADMIN)
        if removes_rights and not is_sure(form):
            question = caller.say(f"users.{action}.sure", name=user_before.username)
            answer = caller.say(f"users.{action}")
            return pages.confirm(caller, question, answer=answer, fields=form, back="/admin/users")
        await pages.parts.access.amend_user(
            user_before.id, password=body.password, role=body.role, disabled=body.disabled
        )
    except WrongFields as error:
        return await _users(pages, caller, status=422, wrong={f"{field} {user_id}" for field in error.fields})
    except LastAdmin:
        return await _users(pages, caller, status=409, problem=caller.say("users.last_admin"))
    except (ValueError, UnknownUser):
        return pages.refusal(caller, 404, "error.404")
    if action == "make_member" and user_before.id == caller.person.id:
        return see_other("/")  # these pages are no longer theirs to see
    return _done(action, user_before.id)


def _action_of(body: UserPatch) -> str:
    """Return the action on a user. The one with the greatest effect comes first."""
    if body.disabled is not None:
        return "disable" if body.disabled else "enable"
    if body.role is not None:
        return "make_admin" if body.role is Role.ADMIN else "make_member"
    return "set_password"


async def _user(pages: Pages, user_id: UUID) -> User:
    for user in await pages.parts.access.users():
        if user.id == user_id:
            return user
    raise UnknownUser(str(user_id))


# What was done, where it is still so; and the form that undoes it.
_IS_STILL_TRUE: Mapping[str, Callable[[User], bool]] = {
    "add": lambda _user: True,
    "set_password": lambda _user: True,
    "disable": lambda user: user.disabled,
    "enable": lambda user: not user.disabled,
    "make_admin": lambda user: user.role is Role.ADMIN,
    "make_member": lambda user: user.role is Role.MEMBER,
}
_UNDO: Mapping[str, tuple[str, str]] = {
    "disable": ("disabled", "no"),
    "make_member": ("role", "admin"),
}


def _done(action: str, user_id: UUID) -> Response:
    """Redirect to the users, with the action in the address: the page confirms it, in its language, while it
    is still true.
    """
    return see_other(f"/admin/users?{urlencode({'done': action, 'user': str(user_id)})}")


def _done_message(caller: Caller, users: Sequence[User]) -> dict[str, Any] | None:
    query = caller.request.query_params
    action = query.get("done", "")
    user = next((candidate for candidate in users if str(candidate.id) == query.get("user")), None)
    if user is None or action not in _IS_STILL_TRUE or not _IS_STILL_TRUE[action](user):
        return None
    message = caller.say(f"users.done.{action}", name=user.username)
    return {"text": message, "user": user, "undo": _UNDO.get(action)}


async def _users(pages: Pages, caller: Caller, *, status: int = 200, **values: Any) -> Response:
    defaults = {"wrong": frozenset(), "problem": None, "typed": ""} | values
    people = await pages.parts.access.users()
    return pages.render(
        caller,
        "users.html",
        status=status,
        users=people,
        message=None if status != HTTPStatus.OK else _done_message(caller, people),
        roles=list(Role),
        length_min=PASSWORD_LENGTH_MIN,
        usage=await usage(pages, caller),
        address="/admin/users" if caller.request.method == "POST" else None,  # a reload sends no form again
        **defaults,
    )


async def health(pages: Pages, caller: Caller) -> Response:
    parts = pages.parts
    names = [*parts.checks, *parts.backends]
    problems = await asyncio.gather(
        *(_find_problem(check) for check in (*parts.checks.values(), *parts.backends.values()))
    )
    results = list(zip(names, problems, strict=True))
    members = await parts.store.members()
    controllers = [(member, (caller.now - member.at).total_seconds() > _SILENT_S) for member in members]
    counts = await parts.store.phases()
    return pages.render(
        caller,
        "health.html",
        checks=results[: len(parts.checks)],
        backends=results[len(parts.checks) :],
        controllers=controllers,
        counts=[(phase, counts.get(phase, 0)) for phase in FILTERS],
        is_good=all(problem is None for problem in problems)
        and any(not silent for _member, silent in controllers),
        usage=await usage(pages, caller),
    )


async def _find_problem(check: Check) -> str | None:
    """Return why it does not answer, or nothing."""
    try:
        async with asyncio.timeout(_LOOK_S_MAX):
            await check()
    except TimeoutError:
        return f"> {_LOOK_S_MAX:g} s"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why it does not answer
        return str(error) or type(error).__name__
    return None
