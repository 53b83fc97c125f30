"""A workspace as people are shown it: a row and the time in, words and what can be done out.

Pure: what it says is what the core says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from codehub.core.access import Person, may_enter
from codehub.core.errors import ErrorReason
from codehub.core.explain import Ask, Explanation, explain
from codehub.core.history import Event, EventKind
from codehub.core.idle import archives_at, sleeps_at, sleeps_soon
from codehub.core.listing import sort_key
from codehub.core.operations import LEVEL, MOVES, DesiredState, Operation, Phase, destination
from codehub.core.plan import Why
from codehub.core.progress import Progress
from codehub.core.requests import Accepted, rule_keep_awake
from codehub.core.workspace import Workspace, display, holdup
from codehub.text import Say
from codehub.web.actions import ROUTES
from codehub.web.domain_text import message_text, trouble_text, under_way_text, why_text
from codehub.web.measures import percent, progress_text

# How long its button keeps a workspace awake; its time to sleep comes after that.
KEPT_AWAKE_S = 3600
# Stages that are called like their operation: to say so beside it would say it twice.
_PLAIN = frozenset({"archive", "restore"})
# Who asks in the history when nobody does.
OUR_OWN = frozenset({"ttl", "disk"})
"""Who wishes on codehub's own behalf: unused for too long, or growing on a full disk."""
# How each state looks: the name of a colour, never the only sign of it.
TONES: Mapping[str, str] = {
    "PENDING": "quiet",
    "ARCHIVED": "quiet",
    "STANDBY": "info",
    "RUNNING": "good",
    "ERROR": "bad",
    "DELETED": "quiet",
    "DELETING": "warn",
}


@dataclass(frozen=True, slots=True)
class WorkspaceView:
    row: Workspace
    explanation: Explanation
    owner: str
    entry: str
    """Where it is opened."""
    is_mine: bool
    state: str
    tone: str
    label: str
    note: str | None
    """What is under way, or what is wrong; None while it rests."""
    is_moving: bool
    doing: str | None
    """The operation under way, as a word."""
    progress: Progress | None
    moved: str | None
    """How far bytes have moved, in words."""
    sleeps_at: datetime | None
    archives_at: datetime | None
    could_sleep_at: datetime | None
    """When it would sleep if somebody asked now to keep it awake; None if that would change nothing."""
    is_sleepy: bool
    """It sleeps so soon that its owner should be told."""

    @property
    def badge(self) -> str:
        """The word for where it is, or for what is being done about it."""
        return self.label if self.doing is None else self.doing

    @property
    def badge_note(self) -> str | None:
        """What stands beside the badge: how far it is, if that is known."""
        if self.doing is None or self.is_held_up:
            return self.note
        return self.moved

    @property
    def goal(self) -> Phase:
        """Where it should be."""
        if self.row.spec.deleted_at is not None:
            return Phase.DELETED
        return destination(self.row.status.phase, self.row.spec.desired_state)

    @property
    def percent(self) -> int | None:
        return None if self.progress is None else percent(self.progress)

    @property
    def order(self) -> str:
        """Lists begin with the greatest of these."""
        return sort_key(self.row)

    @property
    def key(self) -> str:
        return f"ws-{self.row.id}"

    @property
    def place(self) -> str:
        return f"/workspaces/{self.row.id}"

    @property
    def is_held_up(self) -> bool:
        """Whether its operation can't go on for now: it can be given up, or tried at once."""
        return holdup(self.row.status) is not None

    @property
    def retry(self) -> str | None:
        """Where to ask for a try at once."""
        retries = (action.ask for action in self.explanation.actions if action.is_retry)
        ask = next(retries, None)
        return None if ask is None else f"{self.place}/{ROUTES[ask].form}"

    def can(self, ask: str) -> bool:
        return Ask[ask] in (action.label for action in self.explanation.actions)

    @property
    def primary(self) -> str | None:
        """The one thing a person most likely wants next."""
        if self.state == "DELETING":
            return "undo" if self.can("UNDELETE") else None
        if self.state == "ERROR":
            return "look"
        if self.retry is not None:
            return "try"
        if not self.is_mine:
            return None
        if self.is_moving:
            return "open" if self.row.spec.desired_state is DesiredState.RUNNING else None
        if self.state in ("RUNNING", "STANDBY"):
            return "open"
        return {"ARCHIVED": "restore", "PENDING": "start"}.get(self.state)


def make_view(
    row: Workspace,
    person: Person,
    now: datetime,
    language: str,
    say: Say,
    *,
    entry: str,
    owner: str = "",
    warning_s: float = 0.0,
    progress: Progress | None = None,
) -> WorkspaceView:
    explanation = explain(row, now, is_admin=person.is_admin)
    state = display(row)
    note, (tone, is_moving, doing) = (
        _note(row, explanation, language),
        _movement(row, explanation, state, say),
    )
    return WorkspaceView(
        row=row,
        explanation=explanation,
        owner=owner,
        entry=entry,
        is_mine=may_enter(person.id, row.spec.owner_user_id),
        state=state,
        tone=tone,
        label=say(f"phase.{state}"),
        note=note,
        is_moving=is_moving,
        doing=doing,
        progress=progress if is_moving else None,
        moved=None
        if progress is None or not is_moving
        else progress_text(progress, language, saying=progress.stage not in _PLAIN),
        sleeps_at=sleeps_at(row),
        archives_at=archives_at(row),
        could_sleep_at=_could_sleep_at(row, now),
        is_sleepy=sleeps_soon(row, now, warning_s=warning_s) is not None,
    )


def _movement(row: Workspace, explanation: Explanation, state: str, say: Say) -> tuple[str, bool, str | None]:
    """Return how it looks, whether it moves, and the word for what is being done about it, if
    there is one.
    """
    is_moving = explanation.operation is not Operation.NONE
    if holdup(row.status) is not None and state != "DELETING":
        return "warn", False, say("held_up")
    if explanation.why is Why.CANNOT_LOOK:
        return "warn", False, None
    if not is_moving or state == "DELETING":
        return TONES[state], is_moving, None
    operation = row.status.operation
    return "moving", True, None if operation is Operation.NONE else say(f"doing.{operation}")


def _could_sleep_at(row: Workspace, now: datetime) -> datetime | None:
    ruling = rule_keep_awake(row, now, seconds=KEPT_AWAKE_S)
    return sleeps_at(replace(row, spec=ruling.spec)) if isinstance(ruling, Accepted) else None


def _note(row: Workspace, explanation: Explanation, language: str) -> str | None:
    if (held := holdup(row.status)) is not None:
        return message_text(held.message, language)
    if explanation.why is Why.CANNOT_LOOK and (waiting := explanation.waiting_for) is not None:
        message = waiting.facts.get("message")  # of a host or a mark that is missing
        return why_text(explanation.why, language) if message is None else message_text(message, language)
    if explanation.why is Why.BACKING_OFF:
        return why_text(explanation.why, language)
    if row.status.operation is not Operation.NONE:
        return under_way_text(row.status.operation, language)
    if explanation.operation is not Operation.NONE:
        return under_way_text(Operation.NONE, language)
    if row.status.phase is Phase.ERROR and row.status.error_info is not None:
        return trouble_text(row.status.error_info.reason, language)
    return None


@dataclass(frozen=True, slots=True)
class Stop:
    """One of the places on the way up, and what it has to do with the workspace now."""

    phase: Phase
    is_here: bool
    is_wanted: bool
    is_next: bool


def track(row: Workspace, explanation: Explanation) -> tuple[Stop, ...]:
    """Return the lifecycle as a line of stops: where it is, where it goes next, where it should be."""
    phase_now = row.status.phase
    wish = destination(phase_now, row.spec.desired_state)
    next_phase = MOVES[explanation.operation].target if explanation.operation is not Operation.NONE else None
    is_leaving = row.spec.deleted_at is not None
    return tuple(
        Stop(phase, phase is phase_now, phase is wish and not is_leaving, phase is next_phase)
        for phase in LEVEL
    )


# What has words of its own; everything else is `event.` and its kind.
_SPECIAL: Mapping[tuple[EventKind, str | None], str] = {
    (EventKind.OPERATION, Operation.NONE): "event.operation.end",
    (EventKind.ERROR, None): "event.error.end",
    (EventKind.RECOVERY, "accept_loss"): "event.recovery.loss",
    (EventKind.RECOVERY, "take_newest"): "event.recovery.newest",
    (EventKind.RECOVERY, "adopt"): "event.recovery.adopt",
    (EventKind.DELETION, "purge"): "event.deletion.purge",
    (EventKind.DELETION, "forgotten"): "event.deletion.forgotten",
    (EventKind.DELETION, None): "event.deletion.end",
}


def event_text(event: Event, say: Say, language: str) -> str:
    """Return a line of the history as a sentence."""
    key = _SPECIAL.get((event.kind, event.after), f"event.{event.kind}")
    if event.kind is EventKind.WISH and event.before in (None, event.after):
        key = "event.made" if event.before is None else "event.settings"
    return say(
        key,
        actor=say(f"actor.{event.actor}") if event.actor in OUR_OWN else event.actor,
        before=_noun(event.kind, event.before, say, language),
        after=_noun(event.kind, event.after, say, language),
    )


def _noun(kind: EventKind, value: str | None, say: Say, language: str) -> str:
    if value is None:
        return ""
    match kind:
        case EventKind.OPERATION:
            return say(f"op.{value}")
        case EventKind.WISH:
            return say(f"wish.{value}")
        case EventKind.PHASE:
            return say(f"phase.{value}")
        case EventKind.ERROR:
            return trouble_text(ErrorReason(value), language)
        case _:
            return value


def event_tone(event: Event) -> str:
    """Return how a line of the history looks."""
    if event.kind is EventKind.PHASE:
        return TONES[event.after or ""]
    is_over = event.kind is EventKind.ERROR and event.after is None
    return "good" if is_over else EVENT_TONES[event.kind]


EVENT_TONES: Mapping[EventKind, str] = {
    EventKind.WISH: "accent",
    EventKind.OPERATION: "moving",
    EventKind.PHASE: "good",
    EventKind.ERROR: "bad",
    EventKind.RECOVERY: "accent",
    EventKind.DELETION: "warn",
}
