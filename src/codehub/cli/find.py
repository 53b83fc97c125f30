"""A name or an id in, a workspace out. Refuses a name that several have, and says which they are."""

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from codehub.cli.client import Client
from codehub.cli.failures import Failed

_NAME_LENGTH_MAX = 255


def find_workspace(
    client: Client, name_or_id: str, *, owner: str = "me", deleted: bool = False
) -> dict[str, Any]:
    """`deleted`: among what can be undeleted. `owner` is used for names only: an id needs none."""
    if not deleted and _is_id(name_or_id):
        try:
            workspace: dict[str, Any] = client.ask("GET", f"/workspaces/{name_or_id}")
        except Failed as error:
            if error.code != "WORKSPACE_NOT_FOUND":
                raise
        else:
            return workspace
    return _find_by_name(client, name_or_id, owner, deleted)


def spelled(workspace: Mapping[str, Any], name_or_id: str, owner: str) -> str:
    """Return the argument by which the next command names this workspace, quoted for a shell."""
    if name_or_id.startswith("-"):  # it would be read as an option
        return str(workspace["id"])
    return shlex.quote(name_or_id) + _owner_option(owner)


def _owner_option(owner: str) -> str:
    return "" if owner == "me" else f" --owner {shlex.quote(owner)}"


def _find_by_name(client: Client, name: str, owner: str, deleted: bool) -> dict[str, Any]:
    # The search refuses a text that can't be a name; here that is just a name without a workspace.
    search_text = None if _is_id(name) or len(name) > _NAME_LENGTH_MAX else name
    candidates = list(client.pages("/workspaces", q=search_text, owner=owner, deleted=deleted))
    matches: list[dict[str, Any]] = [
        candidate for candidate in candidates if name in (candidate["name"], candidate["id"])
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Failed(
            "AMBIGUOUS",
            f"{len(matches)} workspaces are called {name}. Say which one by its id:"
            + "".join(
                f"\n  {match['id']}  {match['display']}, {match['owner']['username']}" for match in matches
            ),
            [
                {"id": match["id"], "name": match["name"], "owner": match["owner"]["username"]}
                for match in matches
            ],
        )
    place = "in the trash" if deleted else "here" if owner == "me" else f"of {owner}"
    raise Failed(
        "WORKSPACE_NOT_FOUND",
        f"There is no workspace {name} {place}.",
        do=_suggest(client, name, owner, deleted),
    )


def _suggest(client: Client, name: str, owner: str, deleted: bool) -> str | None:
    import difflib

    if not deleted:
        for deleted_workspace in client.pages("/workspaces", owner=owner, deleted=True):
            if deleted_workspace["name"] == name:
                return f"It is in the trash. Undo its deletion: codehub ws undelete {spelled(deleted_workspace, name, owner)}"
    names = [candidate["name"] for candidate in client.pages("/workspaces", owner=owner, deleted=deleted)]
    similar = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if similar:
        return f"Did you mean {' or '.join(similar)}?"
    return None if deleted else f"codehub ws list{_owner_option(owner)}"


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
