"""What a garbage collection did, or would do, in words or as JSON."""

import json

from codehub.core.garbage import Found
from codehub.engine.gc import Collected


def told(collected: Collected, *, dry_run: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "dry_run": dry_run,
                "removed": [{**_item(one.found), "why": one.why} for one in collected.removed],
                "failed": [{**_item(one.found), "why": why} for one, why in collected.failed],
                "unknown": [_item(found) for found in collected.unknown],
                "forgotten": [_item(found) for found in collected.forgotten],
                "newer": [_item(found) for found in collected.newer],
                "unreachable": list(collected.unreachable),
                "leftovers": list(collected.leftovers),
                "events": collected.events,
            },
            indent=2,
        )
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {_words(one.found)}: {one.why}" for one in collected.removed]
    lines += [f"could not remove {_words(one.found)}: {why}" for one, why in collected.failed]
    lines += [f"unknown, left alone (--orphans removes it): {_words(found)}" for found in collected.unknown]
    lines += [
        f"left of a forgotten workspace, goes when its time in the trash is over: {_words(found)}"
        for found in collected.forgotten
    ]
    lines += [
        f"newer than what its workspace names, so it is kept (is the database older than the homes?): {_words(found)}"
        for found in collected.newer
    ]
    lines += [f"could not look at {backend}" for backend in collected.unreachable]
    lines += [
        f"left over by something that died, goes when it is old enough: {left}"
        for left in collected.leftovers
    ]
    lines += [f"forgot {collected.events} old events"] if collected.events else []
    return "\n".join(lines) or "There is no garbage."


def _item(found: Found) -> dict[str, str | None]:
    return {"thing": found.thing, "workspace_id": str(found.workspace_id), "name": found.name}


def _words(found: Found) -> str:
    return f"{found.thing} {found.name or found.workspace_id}"
