"""What each action of a workspace is called with: its request to the
API, its form on the dashboard, its command. The one table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from codehub.core.explain import Ask

WORKSPACES = "/api/v1/workspaces"


@dataclass(frozen=True, slots=True)
class ActionRoute:
    method: str
    place: str
    """Follows the workspace's own path in the API."""
    form: str
    """Follows the workspace's own page on the dashboard."""
    command: str
    """Of `codehub`, before the workspace's name."""

    def path(self, workspace_id: object) -> str:
        """Return the path in the API."""
        return f"{WORKSPACES}/{workspace_id}{self.place}"


ROUTES: Mapping[Ask, ActionRoute] = {
    Ask.START: ActionRoute("POST", ":start", "start", "ws start"),
    Ask.STOP: ActionRoute("POST", ":stop", "stop", "ws stop"),
    Ask.ARCHIVE: ActionRoute("POST", ":archive", "archive", "ws archive"),
    Ask.RECOVER: ActionRoute("POST", ":recover", "recover", "ws recover"),
    Ask.ADOPT: ActionRoute("POST", ":recover?adopt=true", "recover", "ws recover --adopt"),
    Ask.TAKE_NEWEST: ActionRoute("POST", ":recover?take=newest", "recover", "ws recover --take-newest"),
    Ask.ACCEPT_LOSS: ActionRoute("POST", ":recover?accept_loss=true", "recover", "ws recover --accept-loss"),
    Ask.KEEP_AWAKE: ActionRoute("POST", ":keep_awake", "keep_awake", "ws awake"),
    Ask.UNDELETE: ActionRoute("POST", ":undelete", "undelete", "ws undelete"),
    Ask.DELETE: ActionRoute("DELETE", "", "delete", "ws delete"),
    Ask.PURGE: ActionRoute("DELETE", "?purge=true", "purge", "ws delete --purge"),
    Ask.FORGET: ActionRoute("POST", ":forget", "forget", "ws forget"),
}
