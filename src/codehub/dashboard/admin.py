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
from codehub.dashboard.forms import WrongFields, checked, is_sure, posted
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


async def reloaded(_pages: Pages, _caller: Caller) -> Response:
    """Lead back whoever asks by name for what only answers to a form."""
    return see_other("/admin/users")


async def add_user(pages: Pages, caller: Caller) -> Response:
    given = await posted(caller.request)
    fields = {name: given.get(name, "") for name in ("username", "password", "role")}
    try:
        body = checked(UserBody, fields)
        added = await pages.parts.access.add_user(body.username, body.password, body.role)
    except WrongFields as wrong:
        return await _users(pages, caller, status=422, wrong=wrong.fields, typed=fields["username"])
    except UsernameTaken:
        problem = caller.say("users.taken")
        return await _users(pages, caller, status=409, problem=problem, typed=fields["username"])
    return _done("add", added.id)


async def change_user(pages: Pages, caller: Caller) -> Response:
    given = await posted(caller.request)
    fields: dict[str, Any] = {name: given[name] for name in ("password", "role") if name in given}
    if given.get("disabled") in ("yes", "no"):
        fields["disabled"] = given["disabled"] == "yes"
    user_id = caller.request.path_params["user_id"]
    try:
        body = checked(UserPatch, fields)
        word, before = _word(body), await _user(pages, UUID(user_id))
        if word == "disable" and before.id == caller.person.id:
            return await _users(pages, caller, status=409, problem=caller.say("users.not_yourself"))
        is_taken = word == "disable" or (word == "make_member" and before.role is Role.ADMIN)
        if is_taken and not is_sure(given):
            question = caller.say(f"users.{word}.sure", name=before.username)
            answer = caller.say(f"users.{word}")
            return pages.confirm(caller, question, answer=answer, fields=given, back="/admin/users")
        await pages.parts.access.amend_user(
            before.id, password=body.password, role=body.role, disabled=body.disabled
        )
    except WrongFields as wrong:
        return await _users(pages, caller, status=422, wrong={f"{field} {user_id}" for field in wrong.fields})
    except LastAdmin:
        return await _users(pages, caller, status=409, problem=caller.say("users.last_admin"))
    except (ValueError, UnknownUser):
        return pages.refusal(caller, 404, "error.404")
    if word == "make_member" and before.id == caller.person.id:
        return see_other("/")  # these pages are no longer theirs to see
    return _done(word, before.id)


def _word(body: UserPatch) -> str:
    """What is done to a person, by one word: what takes most from them comes first."""
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
_IS_SO: Mapping[str, Callable[[User], bool]] = {
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


def _done(word: str, user_id: UUID) -> Response:
    """Back to the people, with a word on what was done: the page says it in its own language, and only while it is so."""
    return see_other(f"/admin/users?{urlencode({'done': word, 'user': str(user_id)})}")


def _said(caller: Caller, users: Sequence[User]) -> dict[str, Any] | None:
    asked = caller.request.query_params
    word = asked.get("done", "")
    user = next((one for one in users if str(one.id) == asked.get("user")), None)
    if user is None or word not in _IS_SO or not _IS_SO[word](user):
        return None
    words = caller.say(f"users.done.{word}", name=user.username)
    return {"words": words, "user": user, "undo": _UNDO.get(word)}


async def _users(pages: Pages, caller: Caller, *, status: int = 200, **values: Any) -> Response:
    shown = {"wrong": frozenset(), "problem": None, "typed": ""} | values
    people = await pages.parts.access.users()
    return pages.render(
        caller,
        "users.html",
        status=status,
        users=people,
        said=None if status != HTTPStatus.OK else _said(caller, people),
        roles=list(Role),
        length_min=PASSWORD_LENGTH_MIN,
        usage=await usage(pages, caller),
        address="/admin/users" if caller.request.method == "POST" else None,  # a reload sends no form again
        **shown,
    )


async def health(pages: Pages, caller: Caller) -> Response:
    parts = pages.parts
    names = [*parts.checks, *parts.backends]
    looks = await asyncio.gather(
        *(_look(check) for check in (*parts.checks.values(), *parts.backends.values()))
    )
    results = list(zip(names, looks, strict=True))
    heard = await parts.store.members()
    controllers = [(one, (caller.now - one.at).total_seconds() > _SILENT_S) for one in heard]
    counts = await parts.store.phases()
    return pages.render(
        caller,
        "health.html",
        checks=results[: len(parts.checks)],
        backends=results[len(parts.checks) :],
        controllers=controllers,
        counts=[(phase, counts.get(phase, 0)) for phase in FILTERS],
        is_good=all(problem is None for problem in looks) and any(not silent for _one, silent in controllers),
        usage=await usage(pages, caller),
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
