"""What a shell offers after Tab: names of workspaces, from the server. Nothing where it does not answer."""

import os
from contextlib import suppress

from codehub.cli.failures import Failed

_ANSWER_S_MAX = 1.5


def workspace_names(incomplete: str) -> list[tuple[str, str]]:
    return _names(incomplete, deleted=False)


def deleted_names(incomplete: str) -> list[tuple[str, str]]:
    return _names(incomplete, deleted=True)


def _names(incomplete: str, *, deleted: bool) -> list[tuple[str, str]]:
    from codehub.cli.account import find_account
    from codehub.cli.client import Client

    with suppress(Failed, OSError, KeyError, TypeError):
        client = Client(find_account(os.environ), answer_s_max=_ANSWER_S_MAX)
        items = client.ask("GET", "/workspaces", q=incomplete or None, limit=200, deleted=deleted)["items"]
        return [(item["name"], item["display"]) for item in items if item["name"].startswith(incomplete)]
    return []
