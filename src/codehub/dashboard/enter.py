"""Into a workspace's own origin: a browser comes from there with a challenge, and goes back with a code."""

from starlette.requests import Request
from starlette.responses import Response

from codehub.core.entering import read_challenge, read_path
from codehub.core.origins import read_place
from codehub.core.route import Kind, parse_route
from codehub.core.visit import Intent, Visit, intent
from codehub.dashboard.caller import Caller
from codehub.dashboard.redirects import to_login
from codehub.dashboard.rendering import Pages
from codehub.ports.access import KeyEnded
from codehub.ports.store import UnknownWorkspace
from codehub.service.doors import EntryRefused

PATH = "/enter/{name}"
_BEGINNING = PATH.partition("{")[0]


async def page(pages: Pages, caller: Caller) -> Response:
    request, doors = caller.request, pages.parts.doors
    assert doors is not None
    if not _is_navigation(request):
        return pages.refusal(caller, 403, "error.403.entry")
    place = read_place(request.path_params["name"])
    if place is None:
        raise UnknownWorkspace(request.path_params["name"])
    challenge = read_challenge(request.query_params.get("c", ""))
    if challenge is None:
        return pages.refusal(caller, 400, "error.400.entry")
    path = read_path(request.query_params.get("next", ""))
    try:
        address = await doors.issue_code(caller.person, place, challenge=challenge, path=path)
    except EntryRefused:
        return pages.refusal(caller, 403, "error.403.owner")
    except KeyEnded:
        return to_login(request)
    return Response(
        status_code=303,
        headers={"Location": address, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"},
    )


def leads_to_an_origin(path: str) -> bool:
    """Whether a path of the hub's leads on to a workspace's own origin."""
    is_mount = path.isascii() and parse_route(path.encode()).kind is Kind.WORKSPACE
    return is_mount or path.startswith(_BEGINNING)


def _is_navigation(request: Request) -> bool:
    """Whether somebody goes there themselves. A frame, a script, a prefetch gets no code."""
    headers = request.headers
    visit = Visit(
        request.method,
        fetch_mode=headers.get("sec-fetch-mode", ""),
        fetch_dest=headers.get("sec-fetch-dest", ""),
        fetch_site=headers.get("sec-fetch-site", ""),
        purpose=headers.get("sec-purpose") or headers.get("purpose", ""),
    )
    is_told = visit.fetch_mode or visit.fetch_dest or visit.fetch_site
    if is_told:
        return intent(visit) is Intent.NAVIGATION
    return visit.method == "GET" and not visit.purpose
