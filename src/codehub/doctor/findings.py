"""What the doctor found, and how it is told to people and to programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    OPTIONAL = "optional"
    """Not there, and not needed as codehub is configured now."""
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    part: str
    verdict: Verdict
    found: str
    do: str | None = None

    @property
    def is_fine(self) -> bool:
        return self.verdict is not Verdict.BROKEN


@dataclass(frozen=True, slots=True)
class Running(Finding):
    """That codehub itself was found at work. Nothing could start there, and nothing need."""


_MARKS = {Verdict.OK: "✓", Verdict.OPTIONAL: "-", Verdict.BROKEN: "✗"}


def report(findings: Sequence[Finding], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False)
    width = max(len(finding.part) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.verdict]} {finding.part:<{width}}  {finding.found}")
        if finding.do:
            lines.append(f"  {'':<{width}}  → {finding.do}")
    broken = [finding.part for finding in findings if not finding.is_fine]
    if broken:
        verdict = f"codehub can't start as configured: {', '.join(broken)}."
    elif any(isinstance(finding, Running) for finding in findings):
        verdict = "codehub runs already."
    else:
        verdict = "codehub can start as configured."
    return "\n".join([*lines, "", verdict])
