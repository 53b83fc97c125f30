"""Writes the parts of the documentation that are made from the code: the lifecycle and the settings. A test fails when they are stale."""

from pathlib import Path

from codehub.core.errors import REMEDY, ErrorReason
from codehub.core.operations import LEVEL, MOVES, NEXT, DesiredState, Operation, Phase
from codehub.core.rules import DEFAULT_RULES
from codehub.settings import PREFIX, Settings

DOCS = Path(__file__).parent
_MARK = "<!-- made by `make docs` from the code: do not edit -->"


def lifecycle() -> str:
    lines = [
        "# The lifecycle",
        "",
        _MARK,
        "",
        "Made from the tables in `src/codehub/core/operations.py`: a workspace moves one level up or down, one operation at a time.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> PENDING",
    ]
    for operation, move in MOVES.items():
        lines += [
            f"    {source} --> {move.target}: {operation}"
            for source in move.sources
            if source is not move.target
        ]
    lines += [
        "    PENDING --> ERROR: a rule is broken, or an operation failed for good (from any phase)",
        "    ERROR --> PENDING: recovered, then judged anew (to whatever phase is seen)",
        "    DELETED --> ARCHIVED: undeleted, then judged anew",
        "    DELETED --> [*]",
        "```",
        "",
        "## Operations",
        "",
        "| operation | from → to | steps, in this order | time limit |",
        "|---|---|---|---|",
    ]
    for operation, move in MOVES.items():
        limit_s = DEFAULT_RULES.time_limits[operation].total_seconds()
        lines.append(
            f"| {operation} | {', '.join(move.sources)} → {move.target} | {', '.join(move.steps)} | {limit_s:g} s |"
        )
    lines += [
        "",
        "A purge begins DELETING from any phase; STOPPING also clears away a container that has no business there.",
        "",
        "## The next operation",
        "",
        f"| phase (level) | {' | '.join(f'wish {wish}' for wish in DesiredState)} |",
        f"|---|{'---|' * len(DesiredState)}",
    ]
    for phase, row in NEXT.items():
        cells = " | ".join("-" if row[wish] is Operation.NONE else row[wish] for wish in DesiredState)
        lines.append(f"| {phase} ({LEVEL[phase]}) | {cells} |")
    lines += [
        "",
        f"{Phase.ERROR} waits for a person; a deletion steps down as for the wish {DesiredState.PENDING} and ends in {Operation.DELETING}.",
        "",
        "## Errors",
        "",
        "| reason | stops it | what to do |",
        "|---|---|---|",
    ]
    for reason in ErrorReason:
        lines.append(f"| {reason} | {'yes' if reason.is_terminal else 'no'} | {REMEDY[reason]} |")
    return "\n".join(lines) + "\n"


def settings() -> str:
    lines = [
        "# Settings",
        "",
        _MARK,
        "",
        "Environment variables, read once at the start. None is needed. `codehub doctor` says what would work with them.",
        "",
        "| variable | default | what it is for |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "see right" if field.default_factory or field.default is None else f"`{field.default}`"
        lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    lines += [
        "",
        "`DOCKER_HOST` is Docker's own; with `s3://` archives the usual `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,",
        "`AWS_ENDPOINT_URL` and `AWS_REGION` count. `CODEHUB_CACHE` (`/var/cache/codehub` as root, else `~/.cache/codehub`)",
        "holds what can be made again: as root, a copy of PostgreSQL's programs that its own user can reach.",
    ]
    return "\n".join(lines) + "\n"


PAGES = {"lifecycle.md": lifecycle, "settings.md": settings}


def main() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
