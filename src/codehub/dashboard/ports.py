"""The ports of a workspace on its page: a live list, one click into each, and who else may enter it."""

from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import Response

from codehub.core.requests import Refused
from codehub.core.visibility import ORDER, PORT_MAX, SharedPort, Visibility
from codehub.dashboard.caller import Caller
from codehub.dashboard.forms import read_form
from codehub.dashboard.redirects import see_other
from codehub.dashboard.rendering import Pages
from codehub.ports.backends import BackendUnreachable
from codehub.web.domain_text import message_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codehub.service.ports import WorkspacePort

HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
_PUBLIC_S = (HOUR_S, DAY_S, WEEK_S)


async def show(pages: Pages, caller: Caller) -> Response:
    return await _list(pages, caller)


async def share(pages: Pages, caller: Caller) -> Response:
    """Set who may enter a port, as its list offers it: `visibility`, for `public` with how long."""
    given = await read_form(caller.request)
    port, choice = given.get("port", ""), given.get("visibility", "")
    visibility, _, seconds = choice.partition(":")
    if choice not in _choices(Visibility.PUBLIC) or not port.isdecimal() or not 0 < int(port[:6]) <= PORT_MAX:
        return pages.refusal(caller, 400, "error.400.port")
    expires_at = caller.now + timedelta(seconds=int(seconds)) if seconds else None
    shared = await pages.parts.ports.share(
        caller.person,
        caller.workspace_id,
        SharedPort(int(port), Visibility(visibility), expires_at),
        caller.request.state.request_id,
    )
    if not caller.is_partial:
        return see_other(f"/workspaces/{caller.workspace_id}")
    problem = message_text(shared.message, caller.language) if isinstance(shared, Refused) else None
    return await _list(pages, caller, problem)


async def _list(pages: Pages, caller: Caller, problem: str | None = None) -> Response:
    row = await pages.parts.workspaces.find(caller.person, caller.workspace_id)
    is_mine = caller.person.id == row.spec.owner_user_id
    items: Sequence[WorkspacePort] = ()
    try:
        listed = await pages.parts.ports.list(caller.person, caller.workspace_id)
    except BackendUnreachable:
        problem = caller.say("ports.away")
    else:
        if isinstance(listed, Refused):
            problem = message_text(listed.message, caller.language)
        else:
            items = listed
    ceiling = pages.parts.ports.ceiling if is_mine else Visibility.PRIVATE
    return pages.render(
        caller,
        "ports.html",
        place=f"/workspaces/{row.id}",
        items=items,
        choices=_choices(ceiling),
        is_mine=is_mine,
        problem=problem,
        is_running=row.status.phase == "RUNNING",
    )


def _choices(ceiling: Visibility) -> list[str]:
    """Return what the list offers. Whom something is shared with is nobody yet, so that is not offered."""
    allowed = ORDER[: ORDER.index(ceiling) + 1]
    choices = [str(each) for each in (Visibility.PRIVATE, Visibility.SIGNED_IN) if each in allowed]
    if Visibility.PUBLIC in allowed:
        choices += [f"{Visibility.PUBLIC}:{seconds}" for seconds in _PUBLIC_S]
    return choices
