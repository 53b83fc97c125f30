"""Control groups of an installation that was killed: nobody else
would remove them, for its next start never comes.
"""

import os
from contextlib import suppress
from pathlib import Path

from codehub.adapters.groups import ROOT


def groups_of(installation: str) -> list[str]:
    """Return where groups of this installation are, those of workspaces
    first. Groups come and go meanwhile: os.walk passes over those.
    """
    name = f"codehub-{installation}"
    places = [Path(place) / name for place, groups, _ in os.walk(ROOT) if name in groups]
    below = [
        Path(place) / group
        for root in places
        for place, groups, _ in os.walk(root, topdown=False)
        for group in groups
    ]
    return [str(place) for place in (*below, *places)]


def remove_groups(installation: str) -> None:
    """Remove those in which nothing runs."""
    for place in groups_of(installation):
        with suppress(OSError):
            Path(place).rmdir()
