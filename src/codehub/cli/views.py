"""Workspaces and their history laid out for people: the API's objects in, rows and text out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from codehub.cli.formatting import (
    WorkspaceView,
    actor,
    ago,
    ahead,
    clock,
    harmless,
    is_over,
    span,
    state,
    why,
)
from codehub.cli.language import say
from codehub.cli.tables import colour, pairs
from codehub.core.operations import DesiredState, Phase, destination

Rows = tuple[Sequence[str], Sequence[Sequence[str]]]


def list_rows(items: Sequence[WorkspaceView], now: datetime | None, *, owned: bool, deleted: bool) -> Rows:
    """`owned`: with whose they are. `deleted`: with how long their deletion
    can be undone. Who pins nothing sees no column of pins.
    """
    has_pins = any(shown["pinned_at"] is not None for shown in items)
    headings = [
        "NAME",
        *(["PINNED"] if has_pins else []),
        *(["OWNER"] if owned else []),
        "STATE",
        "IDE",
        "LAST USED",
        "GONE" if deleted else "SLEEPS",
        "ID",
    ]
    rows = []
    for shown in harmless(items):
        pin = [say("pin") if shown["pinned_at"] is not None else ""] if has_pins else []
        whose = [shown["owner"]["username"]] if owned else []
        ends = _end_in_trash(shown, now) if deleted else ahead(shown["sleeps_at"], now)
        used = ago(shown["last_access_at"], now)
        rows.append([shown["name"], *pin, *whose, state(shown), shown["ide"], used, ends, shown["id"]])
    return headings, rows


def details(shown: WorkspaceView, now: datetime | None) -> str:
    shown = harmless(shown)
    resources, error, held_up = shown["resources"], shown["error"], shown["held_up"]
    goal = destination(Phase(shown["phase"]), DesiredState(shown["desired_state"]))
    facts = {
        "name": shown["name"],
        "state": colour(shown["display"], state(shown))
        + ("" if goal == shown["phase"] else say("view.goal", goal=goal)),
        "held up": None
        if held_up is None
        else f"{ago(held_up['since'], now)}: {held_up['message']}\n→ codehub explain {shown['id']}",
        "error": None
        if error is None or held_up is not None
        else f"{error['reason']}: {error['message']}\n→ codehub explain {shown['id']}",
        "address": shown["url"],
        "description": shown["description"],
        "memo": shown["memo"],
        "owner": shown["owner"]["username"],
        "id": shown["id"],
        "ide": shown["ide"],
        "image": None if shown["instance_backend"] == "local-process" else shown["image_ref"],
        "runs as": say("view.backends", runs_as=shown["instance_backend"], storage=shown["storage_backend"]),
        "limits": say("view.limits", **{**resources, "cpus": f"{resources['cpus']:g}"}),
        "uses": _usage_text(shown["usage"]),
        "sleeps": _lifetime("view.standby_ttl", shown["standby_ttl_seconds"], shown["sleeps_at"], now),
        "archived": _lifetime("view.archive_ttl", shown["archive_ttl_seconds"], None, now),
        "awake until": _promise(shown["awake_until"], now),
        "in the IDE": None if shown["tab_script"] else say("view.no_tab_script"),
        "ports": say("view.cross_port_access") if shown["cross_port_access"] else None,
        "last used": ago(shown["last_access_at"], now),
        "pinned": None if shown["pinned_at"] is None else clock(shown["pinned_at"]),
        "created": clock(shown["created_at"]),
        "deleted": _deletion(shown),
        "archive": shown["archive_key"],
    }
    conditions = {
        name: f"{condition['status']:<8} {condition['message'] or condition['reason']}"
        for name, condition in shown["conditions"].items()
    }
    return f"{pairs(facts)}\n\n{pairs(conditions)}"


def history(events: Sequence[WorkspaceView]) -> Rows:
    rows = [
        [
            clock(event["at"]),
            event["kind"],
            f"{event['from'] or '-'} → {event['to'] or '-'}",
            actor(event),
            why(event),
        ]
        for event in harmless(events)
    ]
    return ("WHEN", "WHAT", "CHANGE", "BY", "WHY"), rows


def _lifetime(key: str, ttl_s: int | None, at: str | None, now: datetime | None) -> str:
    if ttl_s is None:
        return say("never")
    return say(key, span=span(ttl_s)) + (f", {say('view.that_is', at=ahead(at, now))}" if at else "")


def _usage_text(usage: Mapping[str, Any] | None) -> str | None:
    if usage is None:
        return None
    used = [name for name in ("memory_mb", "cpu", "disk_mb") if usage[name] is not None]
    shown = {**usage, "cpu": None if usage["cpu"] is None else f"{usage['cpu']:g}"}
    return ", ".join(say(f"view.used.{name}", n=shown[name]) for name in used) or None


def _promise(at: str | None, now: datetime | None) -> str | None:
    return None if at is None or is_over(at, now) else clock(at)


def _deletion(shown: WorkspaceView) -> str | None:
    if shown["deleted_at"] is None:
        return None
    if shown["purge_at"] is None:
        return f"{clock(shown['deleted_at'])}, {say('view.undone.always')}"
    return f"{clock(shown['deleted_at'])}, {say('view.undone', until=clock(shown['purge_at']))}"


def _end_in_trash(shown: WorkspaceView, now: datetime | None) -> str:
    return say("view.when_purged") if shown["purge_at"] is None else ahead(shown["purge_at"], now)
