"""The output of a back-up or its restore: its progress, and at the end what is in it."""

import json
import time
from typing import TYPE_CHECKING

from codehub.cli.formatting import size
from codehub.cli.language import say

if TYPE_CHECKING:
    from codehub.cli.output import Output
    from codehub.core.backups import Manifest

_EVERY_S = 1.0


class ProgressReporter:
    """Prints the progress: the beginning and end of each part, and about once a second in between."""

    def __init__(self, output: "Output") -> None:
        self._output = output
        self._reported_at = 0.0
        self._part = ""

    def __call__(self, part: str, done: int, total: int, length: int) -> None:
        now = time.monotonic()
        if part == self._part and done != total and now - self._reported_at < _EVERY_S:
            return
        self._part, self._reported_at = part, now
        amount = f" ({size(length)})" if length else ""
        self._output.say(
            say("backup.part", part=say(f"backup.part.{part}"), done=done, total=total, amount=amount)
        )


def contents(manifest: "Manifest") -> list[str]:
    """Return the lines that list what a back-up holds."""
    lines = [
        say("backup.taken", at=manifest.taken_at, installation=manifest.installation),
        say("backup.database", size=size(manifest.dump_size)),
        say("backup.archives", count=len(manifest.archives), size=size(manifest.archives_size)),
        *(say("backup.home", name=home.name) for home in manifest.homes),
    ]
    return lines + [say("backup.missing", name=name, reason=reason) for name, reason in manifest.missing]


def format_manifest(manifest: "Manifest", *, done: str, as_json: bool) -> str:
    if as_json:
        return json.dumps(
            {
                "done": done,
                "installation": manifest.installation,
                "taken_at": manifest.taken_at,
                "archives": len(manifest.archives),
                "homes": [home.name for home in manifest.homes],
                "missing": [{"name": name, "why": reason} for name, reason in manifest.missing],
            },
            ensure_ascii=False,
            indent=2,
        )
    return "\n".join([f"{done}:", *(f"  {line}" for line in contents(manifest))])
