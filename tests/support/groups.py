"""Control groups of an installation that was killed: nobody else would remove them, for its next start never comes."""

import os
from contextlib import suppress
from pathlib import Path

from codehub.adapters.groups import ROOT


def groups_of(installation: str) -> list[str]:
    """Return where groups of this installation are, those of workspaces first."""
    # By os.walk: other containers' groups vanish while one looks, which it passes over.
    name = f"codehub-{installation}"
    found = [Path(place) / name for place, groups, _files in os.walk(ROOT) if name in groups]
    below = [each for place in found for each in place.iterdir() if each.is_dir()]
    return [str(place) for place in (*below, *found)]


def remove_groups(installation: str) -> None:
    """Remove those in which nothing runs."""
    for place in groups_of(installation):
        with suppress(OSError):
            Path(place).rmdir()
