"""The doctor's findings, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from codehub.doctor.language import say
from codehub.text.terminal import columns


class Verdict(StrEnum):
    OK = "ok"
    OPTIONAL = "optional"
    """Not there, and not needed as codehub is configured now."""
    BROKEN = "broken"


Part = Literal[
    "python",
    "data directory",
    "homes",
    "disk",
    "database",
    "port",
    "origins",
    "archives",
    "backend",
    "sandbox",
    "limits",
    "ide",
    "docker",
    "kubernetes",
    "isolation",
    "redis",
]
"""What is examined. Each has a text `doctor.part.…`."""


@dataclass(frozen=True, slots=True)
class Finding:
    part: Part
    verdict: Verdict
    result: str
    do: str | None = None

    @property
    def is_fine(self) -> bool:
        return self.verdict is not Verdict.BROKEN


@dataclass(frozen=True, slots=True)
class Running(Finding):
    """The finding that codehub runs here already: nothing else could start, or needs to."""


_MARKS = {Verdict.OK: "✓", Verdict.OPTIONAL: "-", Verdict.BROKEN: "✗"}


def report(findings: Sequence[Finding], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([_to_json(finding) for finding in findings], indent=2, ensure_ascii=False)
    width = max(columns(say(f"part.{finding.part}")) for finding in findings)
    lines = []
    for finding in findings:
        part = say(f"part.{finding.part}")
        lines.append(f"{_MARKS[finding.verdict]} {part}{' ' * (width - columns(part))}  {finding.result}")
        if finding.do:
            lines.append(f"  {'':<{width}}  → {finding.do}")
    broken_parts = [say(f"part.{finding.part}") for finding in findings if not finding.is_fine]
    if broken_parts:
        verdict = say("can_not_start", parts=", ".join(broken_parts))
    elif any(isinstance(finding, Running) for finding in findings):
        verdict = say("runs")
    else:
        verdict = say("can_start")
    return "\n".join([*lines, "", verdict])


def _to_json(finding: Finding) -> dict[str, str | None]:
    return {
        "part": finding.part,
        "verdict": finding.verdict,
        "found": finding.result,
        "do": finding.do,
    }
