"""A name or an id in, a workspace out. Refuses a name that several have, and says which they are."""

import shlex
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from codehub.cli.client import Client
from codehub.cli.failures import Failed
from codehub.cli.language import say

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


def command_argument(workspace: Mapping[str, Any], name_or_id: str, owner: str) -> str:
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
            say("find.several", count=len(matches), name=name)
            + "".join(
                f"\n  {match['id']}  {match['display']}, {match['owner']['username']}" for match in matches
            ),
            [
                {"id": match["id"], "name": match["name"], "owner": match["owner"]["username"]}
                for match in matches
            ],
        )
    raise Failed(
        "WORKSPACE_NOT_FOUND", _missing_text(name, owner, deleted), do=_suggest(client, name, owner, deleted)
    )


def _missing_text(name: str, owner: str, deleted: bool) -> str:
    if deleted:
        return say("find.none.trash", name=name)
    return say("find.none", name=name) if owner == "me" else say("find.none.owner", name=name, owner=owner)


def _suggest(client: Client, name: str, owner: str, deleted: bool) -> str | None:
    import difflib

    if not deleted:
        for deleted_workspace in client.pages("/workspaces", owner=owner, deleted=True):
            if deleted_workspace["name"] == name:
                command = f"codehub ws undelete {command_argument(deleted_workspace, name, owner)}"
                return say("find.in_trash", command=command)
    names = [candidate["name"] for candidate in client.pages("/workspaces", owner=owner, deleted=deleted)]
    similar = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if similar:
        return say("find.similar", names=say("find.or").join(similar))
    return None if deleted else f"codehub ws list{_owner_option(owner)}"


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
