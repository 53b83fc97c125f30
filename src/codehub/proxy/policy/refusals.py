"""Answers to visits that do not come in, or not yet: why goes in, a page for a browser or JSON comes out."""

from urllib.parse import quote

from codehub.core.conditions import lost_host
from codehub.core.messages import Message
from codehub.core.operations import Operation
from codehub.core.requests import Refused
from codehub.core.visit import (
    AtLimit,
    Forbidden,
    Intent,
    NoSuch,
    Page,
    SignIn,
    intent,
    is_on_its_way,
    wants_page,
)
from codehub.core.workspace import Workspace
from codehub.ports.instance_access import NothingListens, NotRunning, RelayRefused
from codehub.proxy.engine.runtime import Address
from codehub.proxy.engine.targets import Answer
from codehub.proxy.policy.answers import RETRY_S, bad_gateway, error, redirect, unavailable
from codehub.proxy.policy.entrances import CachedWorkspace, Grant
from codehub.proxy.policy.pages import (
    PAGE_HEADER,
    SILENT,
    limit_page,
    lost_page,
    refused_page,
    resting_page,
    silent_page,
)
from codehub.proxy.policy.visits import Entry, shows_token
from codehub.text import text
from codehub.web.cookies import SeveralSessions
from codehub.web.domain_text import message_text

_RESTING = {
    Page.ARCHIVED: "program.archived",
    Page.PENDING: "program.pending",
    Page.ERROR: "program.error",
}


def refuse(decision: SignIn | NoSuch | Forbidden, entry: Entry) -> Answer:
    head, visit, language, hub = entry.head, entry.visit, entry.language, entry.site.hub
    # Whoever shows a token is no browser, and may be refused for what the token is.
    is_seen = wants_page(visit) and not shows_token(head)
    match decision:
        case SignIn():
            if intent(visit) is Intent.NAVIGATION:
                return redirect(303, hub + "/login?next=" + quote(head.target.decode("ascii"), safe="/"))
            header = "X-Codehub-Token: cht_…" if entry.is_at_origin else "Authorization: Bearer cht_…"
            return error(401, text(language, "program.sign_in", header=header))
        case NoSuch():
            if is_seen:
                return refused_page("missing", language, hub)
            return error(404, text(language, "program.no_workspace"), code="WORKSPACE_NOT_FOUND")
        case Forbidden(why):
            if is_seen:
                return refused_page("foreign", language, hub)
            return error(403, message_text(Message(why), language))


def several_cookies(entry: Entry) -> Answer:
    """Refuse whoever shows several cookies of which only one can count."""
    if wants_page(entry.visit):
        return refused_page("sessions", entry.language, entry.site.hub)
    return error(400, str(SeveralSessions()))


def no_ports(entry: Entry) -> Answer:
    if wants_page(entry.visit):
        return refused_page("port", entry.language, entry.site.hub)
    return error(404, text(entry.language, "program.port"))


def not_there(entry: Entry, port: int, address: Address | None) -> Answer:
    """Say why a port could not be reached."""
    match getattr(address, "refusal", None):
        case NothingListens():
            return _silent(entry, port)
        case RelayRefused():
            return no_ports(entry)
        case NotRunning():
            return bad_gateway(text(entry.language, "program.gone"))
        case _:
            return bad_gateway(text(entry.language, "program.unreachable"))


def _silent(entry: Entry, port: int) -> Answer:
    if wants_page(entry.visit):
        return silent_page(port, entry.language, entry.site)
    return error(502, text(entry.language, "program.silent", port=port), headers={PAGE_HEADER: SILENT})


def another_way(grant: Grant | None, silent: Grant, entry: Entry) -> Grant | Answer:
    """Return where to try next, of what did not answer."""
    workspace = silent.entrance.cached.workspace
    is_lost = lost_host(workspace.status.conditions) is not None
    if grant is None or (is_lost and grant.address == silent.address):
        return out_of_reach(workspace, entry, "program.not_listening")
    return grant


def out_of_reach(workspace: Workspace, entry: Entry, otherwise: str) -> Answer:
    """Say that it can't be reached though it runs: to its owner why, if its host has fallen silent."""
    lost = lost_host(workspace.status.conditions)
    if lost is None or entry.route.port is not None:
        return bad_gateway(text(entry.language, otherwise))
    if intent(entry.visit) is Intent.NAVIGATION:
        return lost_page(workspace, lost, entry.language, entry.head.target.decode("ascii"), entry.site)
    return bad_gateway(message_text(lost, entry.language))


def asleep(entry: Entry) -> Answer:
    """Refuse a visitor who may not wake a workspace for now."""
    if wants_page(entry.visit):
        return refused_page("asleep", entry.language, entry.site.hub)
    return unavailable(text(entry.language, "program.asleep"))


def resting(page: Page, row: Workspace, entry: Entry) -> Answer:
    if wants_page(entry.visit):
        return resting_page(page, row, entry.language, entry.head.target.decode("ascii"), entry.site)
    return error(502, text(entry.language, _RESTING[page]), details={"phase": row.status.phase})


def at_limit(cached: CachedWorkspace, outcome: AtLimit, entry: Entry) -> Answer:
    if wants_page(entry.visit):
        to = entry.head.target.decode("ascii")
        return limit_page(cached.workspace, outcome.refused, entry.language, to, entry.site)
    return over_limit(outcome.refused, entry.language)


def over_limit(refused: Refused, language: str) -> Answer:
    """Tell a script or a program of the limit."""
    return error(
        429,
        message_text(refused.message, language),
        code=refused.code,
        details=dict(refused.details or {}),
        headers={"Retry-After": str(RETRY_S)},
    )


def why_later(row: Workspace, language: str) -> str:
    if not is_on_its_way(row):
        return text(language, "program.sleeps")
    operation = row.status.operation
    if operation is Operation.NONE:
        return text(language, "program.changing")
    return text(language, "program.under_way", operation=operation)
