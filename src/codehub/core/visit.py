"""A visit to a workspace: who comes how, and where the workspace is, go
in; one decision comes out (spec §8). Nothing is done here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from codehub.core.access import SAFE_METHODS, is_foreign, may_enter
from codehub.core.messages import Code
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.origins import Door
from codehub.core.requests import Refusal, Refused, Ruling
from codehub.core.visibility import Visibility
from codehub.core.workspace import StorageBackend, Workspace, is_condemned


class Intent(StrEnum):
    """What kind of visit it is. Only the first two wake a workspace."""

    NAVIGATION = "navigation"
    """A person goes there: their browser wants a page."""
    PROGRAM = "program"
    """Something that is no browser, and asks because somebody told it to."""
    BACKGROUND = "background"
    """A page that is open anyway: its scripts, its sockets, its retries."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a request says of itself, as far as it decides. Empty where it says nothing."""

    method: str = "GET"
    is_upgrade: bool = False
    fetch_mode: str = ""
    fetch_dest: str = ""
    fetch_site: str = ""
    purpose: str = ""
    agent: str = ""
    accept: str = ""
    origin: str = ""
    asked_method: str = ""
    """In a preflight: the method that a page wants to use."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, as the session or the token says."""

    user_id: UUID
    username: str
    may_write: bool = True
    """False for a token that may only read: what a workspace does on a request is never mere reading."""
    door: Door | None = None
    """Who comes with a door's cookie may enter this place alone."""


class Page(StrEnum):
    """Our own pages; the value of X-Codehub-Page."""

    WAKING = "waking"
    ARCHIVED = "archived"
    PENDING = "pending"
    ERROR = "error"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class SignIn:
    """Nobody knows who this is."""


@dataclass(frozen=True, slots=True)
class NoSuch:
    """There is no such workspace, or no more."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    why: Code


@dataclass(frozen=True, slots=True)
class Connect:
    """It runs: go in."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Record the wish RUNNING, within the limits; then follow it."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Something is under way that leads there: show it, or wait for it."""


@dataclass(frozen=True, slots=True)
class Later:
    """It sleeps, and this visit may not wake it."""


@dataclass(frozen=True, slots=True)
class Show:
    """Only a person can go on from here."""

    page: Page


@dataclass(frozen=True, slots=True)
class AtLimit:
    """One more would be too many."""

    refused: Refused


Decision = SignIn | NoSuch | Forbidden | Connect | Wake | Follow | Later | Show
_CLIMBS = (DesiredState.RUNNING, DesiredState.STANDBY)


def intent(visit: Visit) -> Intent:
    """Say what kind of visit it is (wire.md, Proxy)."""
    if visit.is_upgrade:
        return Intent.BACKGROUND
    if visit.fetch_mode or visit.fetch_dest or visit.fetch_site:
        is_navigation = (
            visit.method == "GET"
            and visit.fetch_mode == "navigate"
            and visit.fetch_dest == "document"
            and not visit.purpose
        )
        return Intent.NAVIGATION if is_navigation else Intent.BACKGROUND
    if not visit.agent.startswith("Mozilla/"):
        return Intent.PROGRAM
    is_page = visit.method == "GET" and "text/html" in visit.accept and not visit.purpose
    return Intent.NAVIGATION if is_page else Intent.BACKGROUND


def wants_page(visit: Visit) -> bool:
    """Whether it is answered in HTML rather than in JSON."""
    return intent(visit) is Intent.NAVIGATION or "text/html" in visit.accept


def is_forged(visit: Visit, own_origins: Collection[str]) -> bool:
    """Whether another site makes this visitor's browser ask for
    something that must be asked for here (security.md 3).
    """
    changes = visit.is_upgrade or visit.method not in SAFE_METHODS
    return changes and is_foreign(visit.origin or None, visit.fetch_site, own_origins)


def is_from_elsewhere(visit: Visit, origin: str) -> bool:
    """Whether something else asks than a page of this very origin, a navigation or a program.

    Siblings below one domain are no border to cookies: whatever they are let do, they do as whoever is here
    (security.md 27). A browser that does not say what a request is for may ask for another page's script: it
    then names that page's origin, which no navigation does.
    """
    if intent(visit) is Intent.NAVIGATION and (visit.fetch_mode or not visit.origin):
        return False
    return visit.fetch_site in ("cross-site", "same-site") or visit.origin not in ("", origin)


def refuse_entry(
    person: Visitor | None,
    workspace: Workspace | None,
    port: int | None = None,
    visibility: Visibility = Visibility.PRIVATE,
) -> SignIn | NoSuch | Forbidden | None:
    """Say why this person may not enter, or nothing. The owner is who the row says.

    `port`: what they want to enter beside the IDE, and `visibility`, who may enter that now. A port that is
    shared is entered by its owner alone, as long as there is nobody whom a workspace is shared with.
    """
    is_there = (
        workspace is not None
        and workspace.spec.deleted_at is None
        and workspace.status.phase is not Phase.DELETED
    )
    if is_there and port is not None and visibility is Visibility.PUBLIC:
        return None
    if person is None:
        return SignIn()
    if workspace is None or not is_there:
        return NoSuch()
    if person.door is not None and person.door != Door(workspace.id, port):
        return SignIn()  # it is the door of another place, and opens nothing here
    is_for_everybody = port is not None and visibility is Visibility.SIGNED_IN
    if not is_for_everybody and not is_owner(person, workspace):
        return Forbidden(Code.OWNER_ONLY)
    if not person.may_write:
        return Forbidden(Code.READ_ONLY_TOKEN)
    return None


def is_owner(person: Visitor | None, workspace: Workspace) -> bool:
    return person is not None and may_enter(person.user_id, workspace.spec.owner_user_id)


def decide(
    visit: Visit,
    person: Visitor | None,
    workspace: Workspace | None,
    *,
    port: int | None = None,
    visibility: Visibility = Visibility.PRIVATE,
    wake_archived: bool = False,
) -> Decision:
    """Say what becomes of a visit. Who may enter is asked before where the workspace is.

    Whoever else than the owner enters a port finds it as it is, and wakes nothing.
    """
    refused = refuse_entry(person, workspace, port, visibility)
    if refused is not None:
        return refused
    assert workspace is not None
    decision = _by_state(visit, workspace, wake_archived=wake_archived)
    return decision if isinstance(decision, Connect) or is_owner(person, workspace) else Later()


def is_open(workspace: Workspace) -> bool:
    """Whether its owner would be let in as it is."""
    return isinstance(_for_its_owner(workspace), Connect)


def is_on_its_way(workspace: Workspace) -> bool:
    """Whether something is under way that leads its owner in."""
    return isinstance(_for_its_owner(workspace), Follow)


def _for_its_owner(workspace: Workspace) -> Decision:
    return decide(Visit(), Visitor(workspace.spec.owner_user_id, ""), workspace)


def _by_state(visit: Visit, workspace: Workspace, *, wake_archived: bool) -> Decision:
    spec, status = workspace.spec, workspace.status
    # What runs on a condemned volume may lose it any moment: nobody is led there.
    is_leaving = status.phase is Phase.RUNNING and is_condemned(status)
    if status.operation is not Operation.NONE or is_leaving:
        return _patiently(visit)
    climbs = spec.desired_state in _CLIMBS
    match status.phase:
        case Phase.RUNNING if spec.desired_state is DesiredState.RUNNING:
            return Connect()
        case Phase.ERROR:
            return Show(Page.ERROR)
        case Phase.RUNNING | Phase.STANDBY:
            return _patiently(visit) if spec.desired_state is DesiredState.RUNNING else _wake(visit)
        case Phase.ARCHIVED:
            if climbs:
                return _patiently(visit)
            restores = wake_archived or spec.storage_backend is StorageBackend.OBJECT_STORE
            return _wake(visit) if restores else Show(Page.ARCHIVED)
        case _:
            return _patiently(visit) if climbs else Show(Page.PENDING)


def _wake(visit: Visit) -> Decision:
    return Later() if intent(visit) is Intent.BACKGROUND else Wake()


def _patiently(visit: Visit) -> Decision:
    return Later() if intent(visit) is Intent.BACKGROUND else Follow()


def after_wake(ruling: Ruling) -> Follow | AtLimit:
    """Say what becomes of a visit whose wish was ruled on. What else was
    in the way shows when the workspace is looked at again.
    """
    if isinstance(ruling, Refused) and ruling.code is Refusal.LIMIT_EXCEEDED:
        return AtLimit(ruling)
    return Follow()
