"""The output of a garbage collection: what it did, or would do, as text or as JSON."""

import json

from codehub.cli.language import say
from codehub.core.garbage import BackendItem, Removal
from codehub.engine.gc import Collected


def format_collection(collected: Collected, *, dry_run: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "dry_run": dry_run,
                "removed": [{**_item(removal.item), "why": _why(removal)} for removal in collected.removed],
                "failed": [{**_item(removal.item), "why": reason} for removal, reason in collected.failed],
                "unknown": [_item(item) for item in collected.unknown],
                "forgotten": [_item(item) for item in collected.forgotten],
                "newer": [_item(item) for item in collected.newer],
                "unreachable": list(collected.unreachable),
                "leftovers": list(collected.leftovers),
                "events": collected.events,
            },
            indent=2,
        )
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {_describe(removal.item)}: {_why(removal)}" for removal in collected.removed]
    lines += [f"could not remove {_describe(removal.item)}: {reason}" for removal, reason in collected.failed]
    lines += [f"unknown, left alone (--orphans removes it): {_describe(item)}" for item in collected.unknown]
    lines += [
        f"left of a forgotten workspace, goes when it is purged or its time in the trash is over: {_describe(item)}"
        for item in collected.forgotten
    ]
    lines += [
        f"newer than what its workspace names, so it is kept (is the database older than the homes?): {_describe(item)}"
        for item in collected.newer
    ]
    lines += [f"could not look at {backend}" for backend in collected.unreachable]
    lines += [
        f"left over by something that died, goes when it is old enough: {leftover}"
        for leftover in collected.leftovers
    ]
    lines += [f"forgot {collected.events} old events"] if collected.events else []
    return "\n".join(lines) or "There is no garbage."


def _item(item: BackendItem) -> dict[str, str | None]:
    return {"thing": item.thing, "workspace_id": str(item.workspace_id), "name": item.name}


def _describe(item: BackendItem) -> str:
    return f"{item.thing} {item.name or item.workspace_id}"


def _why(removal: Removal) -> str:
    return say(f"garbage.{removal.why}")
