"""The output of a garbage collection: what it did, or would do, as text or as JSON."""

import json

from codehub.cli.language import say
from codehub.core.garbage import BackendItem, Removal
from codehub.core.messages import Message
from codehub.engine.gc import Collected
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import message_text


def format_collection(collected: Collected, *, dry_run: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "dry_run": dry_run,
                "removed": [{**_item(removal.item), "why": _why(removal)} for removal in collected.removed],
                "failed": [
                    {**_item(removal.item), "why": _text(reason)} for removal, reason in collected.failed
                ],
                "unknown": [_item(item) for item in collected.unknown],
                "forgotten": [_item(item) for item in collected.forgotten],
                "newer": [_item(item) for item in collected.newer],
                "unreachable": [_text(message) for message in collected.unreachable],
                "leftovers": list(collected.leftovers),
                "events": collected.events,
            },
            indent=2,
        )
    removed = "garbage.would_remove" if dry_run else "garbage.removed"
    lines = [say(removed, item=_describe(each.item), why=_why(each)) for each in collected.removed]
    lines += [
        say("garbage.failed", item=_describe(each.item), why=_text(reason))
        for each, reason in collected.failed
    ]
    lines += [say("garbage.unknown", item=_describe(item)) for item in collected.unknown]
    lines += [say("garbage.forgotten", item=_describe(item)) for item in collected.forgotten]
    lines += [say("garbage.newer", item=_describe(item)) for item in collected.newer]
    lines += [say("garbage.unreachable", message=_text(message)) for message in collected.unreachable]
    lines += [say("garbage.leftover", leftover=leftover) for leftover in collected.leftovers]
    lines += [say("garbage.events", count=collected.events)] if collected.events else []
    return "\n".join(lines) or say("garbage.none")


def _item(item: BackendItem) -> dict[str, str | None]:
    return {"thing": item.thing, "workspace_id": str(item.workspace_id), "name": item.name}


def _describe(item: BackendItem) -> str:
    return say(f"thing.{item.thing}", name=item.name or item.workspace_id)


def _why(removal: Removal) -> str:
    return say(f"garbage.{removal.why}")


def _text(message: Message) -> str:
    return message_text(message, terminal_language())
