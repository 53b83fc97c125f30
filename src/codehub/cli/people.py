"""Users and their keys, as text or as JSON."""

import json
from collections.abc import Sequence
from datetime import datetime

from codehub.cli.formatting import harmless
from codehub.cli.language import heading_text, say
from codehub.cli.tables import plain
from codehub.core.access import User
from codehub.ports.access import Key

_HEADINGS = ("KEY", "NAME", "SCOPE", "LAST USED", "EXPIRES")


def format_users(users: Sequence[User], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([_item(user) for user in users], indent=2)
    width = max((len(user.username) for user in users), default=0)
    disabled = f"  {say('user.is_disabled')}"
    lines = [f"{user.username:<{width}}  {user.role}{disabled if user.disabled else ''}" for user in users]
    return "\n".join(lines) or say("user.none")


def format_user(user: User, message: str, *, as_json: bool) -> str:
    return json.dumps(_item(user), indent=2) if as_json else message


def format_keys(keys: Sequence[Key], username: str, *, are_ended: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps([_key(key) for key in keys], indent=2)
    if not keys:
        return say("user.no_keys", name=username)
    rows = [
        (
            key.kind,
            key.name or "-",
            key.scope,
            _minute(key.last_used_at) or say("never"),
            _minute(key.expires_at) or say("never"),
        )
        for key in keys
    ]
    table = plain([[heading_text(heading) for heading in _HEADINGS], *harmless(rows)])
    return f"{table}\n{say('user.keys_ended')}" if are_ended else table


def _key(key: Key) -> dict[str, object]:
    return {
        "id": str(key.id),
        "kind": key.kind,
        "name": key.name,
        "scope": key.scope,
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "last_used_at": _time(key.last_used_at),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _minute(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d %H:%M}Z"


def _item(user: User) -> dict[str, object]:
    return {
        "id": str(user.id),
        "username": user.username,
        "role": user.role,
        "disabled": user.disabled,
        "created_at": _time(user.created_at),
    }
