"""People in words or as JSON."""

import json
from collections.abc import Sequence

from codehub.core.access import User


def told(users: Sequence[User], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([_item(user) for user in users], indent=2)
    width = max((len(user.username) for user in users), default=0)
    lines = [
        f"{user.username:<{width}}  {user.role}{'  disabled' if user.disabled else ''}" for user in users
    ]
    return "\n".join(lines) or "There is nobody yet."


def told_one(user: User, words: str, *, as_json: bool) -> str:
    return json.dumps(_item(user), indent=2) if as_json else words


def _item(user: User) -> dict[str, object]:
    created_at = user.created_at.isoformat().replace("+00:00", "Z")
    return {
        "id": str(user.id),
        "username": user.username,
        "role": user.role,
        "disabled": user.disabled,
        "created_at": created_at,
    }
