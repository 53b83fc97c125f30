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
    """`deleted`: among what can be undeleted. `owner` counts for names alone: an id says all."""
    if not deleted and _is_id(name_or_id):
        try:
            found: dict[str, Any] = client.ask("GET", f"/workspaces/{name_or_id}")
        except Failed as failed:
            if failed.code != "WORKSPACE_NOT_FOUND":
                raise
        else:
            return found
    return _named(client, name_or_id, owner, deleted)


def spelled(shown: Mapping[str, Any], name_or_id: str, owner: str) -> str:
    """Return how the next command names what this one found, as a shell takes it."""
    if name_or_id.startswith("-"):  # it would be read as an option
        return str(shown["id"])
    return shlex.quote(name_or_id) + _whose(owner)


def _whose(owner: str) -> str:
    return "" if owner == "me" else f" --owner {shlex.quote(owner)}"


def _named(client: Client, name: str, owner: str, deleted: bool) -> dict[str, Any]:
    # Words that no name can hold are refused in a search; here they are a name that nobody has.
    words = None if _is_id(name) or len(name) > _NAME_LENGTH_MAX else name
    everything = list(client.pages("/workspaces", q=words, owner=owner, deleted=deleted))
    found: list[dict[str, Any]] = [one for one in everything if name in (one["name"], one["id"])]
    if len(found) == 1:
        return found[0]
    if found:
        raise Failed(
            "AMBIGUOUS",
            f"{len(found)} workspaces are called {name}. Say which one by its id:"
            + "".join(f"\n  {one['id']}  {one['display']}, {one['owner']['username']}" for one in found),
            [{"id": one["id"], "name": one["name"], "owner": one["owner"]["username"]} for one in found],
        )
    where = "in the trash" if deleted else "here" if owner == "me" else f"of {owner}"
    raise Failed(
        "WORKSPACE_NOT_FOUND",
        f"There is no workspace {name} {where}.",
        do=_near(client, name, owner, deleted),
    )


def _near(client: Client, name: str, owner: str, deleted: bool) -> str | None:
    import difflib

    if not deleted:
        for one in client.pages("/workspaces", owner=owner, deleted=True):
            if one["name"] == name:
                return (
                    f"It is in the trash. Undo its deletion: codehub ws undelete {spelled(one, name, owner)}"
                )
    names = [one["name"] for one in client.pages("/workspaces", owner=owner, deleted=deleted)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return None if deleted else f"codehub ws list{_whose(owner)}"


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
