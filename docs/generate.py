"""Writes the parts of the documentation that are made from the code: the lifecycle, the
settings, the API and the command line. A test fails when they are stale.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import codehub.__main__
from codehub.api.app import openapi
from codehub.api.document import EXAMPLE_MESSAGES
from codehub.ceiling_settings import CeilingSettings
from codehub.cli.main import SECTIONS
from codehub.cli.main import cli as commands
from codehub.cli.usage import describe
from codehub.core.errors import ErrorReason
from codehub.core.operations import LEVEL, MOVES, NEXT, DesiredState, Operation, Phase
from codehub.core.rules import DEFAULT_RULES
from codehub.error_codes import ErrorCode, Exit
from codehub.kubernetes_settings import KubernetesSettings
from codehub.role_settings import RoleSettings
from codehub.rule_settings import RuleSettings
from codehub.settings import PREFIX, Settings
from codehub.text import DEFAULT, text

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
        "A purge begins DELETING from any phase, and only a purge does its last step; STOPPING also clears away a container that has no business there.",
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
        lines.append(
            f"| {reason} | {'yes' if reason.is_terminal else 'no'} | {text(DEFAULT, f'remedy.{reason}')} |"
        )
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
    lines += _setting_rows(set(Settings.model_fields) - set(KubernetesSettings.model_fields))
    lines += [
        "",
        "## Several processes",
        "",
        "What the roles need as processes of their own ([operators](operators.md)).",
        "",
        "| variable | default | what it is for |",
        "|---|---|---|",
        *_setting_rows(set(RoleSettings.model_fields) - set(CeilingSettings.model_fields)),
        "",
        "## Kubernetes",
        "",
        "The cluster that workspaces run in ([Kubernetes](kubernetes.md)).",
        "",
        "| variable | default | what it is for |",
        "|---|---|---|",
        *_setting_rows(set(KubernetesSettings.model_fields) - set(RoleSettings.model_fields)),
    ]
    lines += [
        "",
        "## Ceilings",
        "",
        "What one workspace, one person and all of a machine may have at most.",
        "",
        "| variable | default | what it is for |",
        "|---|---|---|",
        *_setting_rows(set(CeilingSettings.model_fields) - set(RuleSettings.model_fields)),
        "",
        "## The rules",
        "",
        "The numbers that the controller decides by. The defaults are the specification's; few installations change any.",
        "",
        "| variable | default | what it is for |",
        "|---|---|---|",
        *_setting_rows(set(RuleSettings.model_fields)),
    ]
    lines += [
        "",
        "`DOCKER_HOST` is Docker's own; with `s3://` archives the usual `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,",
        "`AWS_ENDPOINT_URL` and `AWS_REGION` count. `CODEHUB_CACHE` (`/var/cache/codehub` as root, else `~/.cache/codehub`)",
        "holds what can be made again: code-server, if `make code-server` built it, and as root a copy of PostgreSQL's programs that its own",
        "user can reach.",
    ]
    return "\n".join(lines) + "\n"


def _setting_rows(names: set[str]) -> list[str]:
    rows = []
    for name, field in Settings.model_fields.items():
        if name in names:
            default = "see right" if field.default_factory or field.default is None else f"`{field.default}`"
            rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return rows


def api() -> str:
    """Return the API as a page, from the OpenAPI document that the server shows."""
    document = openapi()
    lines = [
        "# The API",
        "",
        _MARK,
        "",
        "Made from the document that every codehub shows at `/openapi.json`. JSON in UTF-8, times RFC 3339 UTC with `Z`, absent values are",
        "`null`, unknown fields are refused. Every answer has `X-Request-Id`; one that you send is kept, and is in the history.",
        "",
        "Sign in with `POST /api/v1/login` and keep the cookie, or send a token as `Authorization: Bearer cht_…`. With a cookie, a changing",
        "request that comes from another site's page is 403. An empty query value means the default.",
        "",
        "```",
        'curl -c jar -H \'Content-Type: application/json\' -d \'{"username": "admin", "password": "…"}\' $CODEHUB/api/v1/login',
        "curl -b jar -H 'Content-Type: application/json' -d '{\"name\": \"demo\"}' $CODEHUB/api/v1/workspaces",
        "curl -b jar -N $CODEHUB/api/v1/events",
        "```",
        "",
        "## Calls",
        "",
        "| call | what it does | answers | errors |",
        "|---|---|---|---|",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            responses = operation["responses"]
            good = ", ".join(status for status in responses if status.startswith("2"))
            codes = [
                code
                for status, response in responses.items()
                if not status.startswith("2")
                for code in response.get("content", {}).get("application/json", {}).get("examples", {})
            ]
            unusual = [code for code in dict.fromkeys(codes) if code not in _USUAL]
            lines.append(
                f"| `{method.upper()} {path}` | {operation['summary']} | {good} | {', '.join(unusual)} |"
            )
    lines += [
        "",
        f"Besides, any call may answer {', '.join(_USUAL[:-1])} or {_USUAL[-1]}.",
        "",
        "## Parameters and bodies",
        "",
        "| call | where | name | what |",
        "|---|---|---|---|",
        *_inputs(document),
        "",
        "## Errors",
        "",
        '`{"error": {"code", "message", "details"}}`. 422 names each field: `details` is `[{"field", "problem"}]`.',
        "",
        "| code | status | for example |",
        "|---|---|---|",
    ]
    for code in ErrorCode:
        status = "400, 422" if code is ErrorCode.INVALID_REQUEST else code.status
        lines.append(f"| {code} | {status} | {EXAMPLE_MESSAGES[code]} |")
    lines += [
        "",
        "## Events",
        "",
        document["paths"]["/api/v1/events"]["get"]["description"],
        "",
        "A reader that is too slow, or whose key has ended, is cut off. Come back with `Last-Event-ID`.",
    ]
    return "\n".join(lines) + "\n"


def cli() -> str:
    """Return the command line as a page, from the commands
    themselves: every one with its arguments and options.
    """
    assert codehub.__main__.cli is commands, "the commands that run a server are there too"  # type: ignore[attr-defined]
    root: Any = get_command(commands)
    describe(root)
    lines = [
        "# The command line",
        "",
        _MARK,
        "",
        "`CODEHUB_URL` and `CODEHUB_TOKEN`, or `codehub login URL`, say which codehub is meant. Results go to stdout, words for people to",
        'stderr; with `--json` stdout holds the API\'s own objects, an error is `{"error": …}`. Workspaces are named by name or id.',
        "",
        "| exit | means |",
        "|---|---|",
        *(f"| {code.value} | {_EXITS[code]} |" for code in Exit),
        "",
        "`codehub --install-completion` teaches your shell the commands, and the names of your workspaces.",
    ]
    for title, names in SECTIONS.items():
        lines += ["", f"## {text(DEFAULT, f'help.section.{title}')}"]
        for name in names:
            command = root.commands[name]
            for path, one in _leaves(f"codehub {name}", command):
                lines += ["", f"### `{path}`", "", _sentences(one.help), *_parameters(one)]
    return "\n".join(lines) + "\n"


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from _leaves(f"{path} {name}", one)


def _sentences(text: str | None) -> str:
    return " ".join((text or "").split())


def _parameters(command: Any) -> Iterator[str]:
    rows = []
    for one in command.params:
        if one.param_type_name == "argument":
            name = one.metavar or one.name.upper()
            rows.append(f"| `{name}` | {one.help or ''} |")
        elif "--help" not in one.opts:
            value = "" if one.is_flag else f" {one.metavar or one.type.name.upper()}"
            given = one.default
            default = f" Default: {getattr(given, 'value', given)}." if given not in (None, False) else ""
            rows.append(f"| `{', '.join(one.opts)}{value}` | {one.help or ''}{default} |")
    if rows:
        yield from ("", "| | |", "|---|---|", *rows)


def _inputs(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            call = f"`{method.upper()} {path.removeprefix('/api/v1')}`"
            for parameter in operation.get("parameters", []):
                if parameter["in"] != "path":
                    name, told = parameter["name"], parameter.get("description", "")
                    yield f"| {call} | {parameter['in']} | `{name}` | {told or _kind(parameter['schema'])} |"
            body = operation.get("requestBody")
            if body is not None:
                schema = _resolved(document, body["content"]["application/json"]["schema"])
                for name, field in schema["properties"].items():
                    needed = ", needed" if name in schema.get("required", ()) else ""
                    yield f"| {call} | body | `{name}` | {_kind(_resolved(document, field))}{needed} |"


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    options = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    reference = options[0].get("$ref")
    found = (
        options[0] if reference is None else document["components"]["schemas"][reference.rpartition("/")[2]]
    )
    return {**found, "nullable": len(options) < len(schema.get("anyOf", [schema]))}


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        words = " · ".join(f"`{value}`" for value in schema["enum"])
    elif "minimum" in schema:
        words = f"{int(schema['minimum'])} to {int(schema['maximum'])}"
    elif "maxLength" in schema:
        words = f"text, {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    else:
        words = str(schema.get("type", schema.get("title", "")))
    return words + (" or null" if schema.get("nullable") else "")


_USUAL = (
    "INVALID_REQUEST",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "PAYLOAD_TOO_LARGE",
    "INTERNAL_ERROR",
    "UNAVAILABLE",
)
_EXITS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage: an option, a value, a name that several have",
    Exit.NOT_ALLOWED: "not signed in, or forbidden",
    Exit.NOT_FOUND: "not found",
    Exit.CONFLICT: "conflict: its state does not allow it, or the name is taken",
    Exit.LIMIT: "a limit: as many run as may, or too many tries",
    Exit.UNREACHABLE: "the server, or something it needs, can't be reached",
    Exit.WAITED_INTO_ERROR: "waited, and it ended in ERROR",
    Exit.TIMED_OUT: "`--timeout` passed",
}
PAGES = {"cli.md": cli, "lifecycle.md": lifecycle, "settings.md": settings, "api.md": api}


def main() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())
        print(f"wrote docs/{name}")


if __name__ == "__main__":
    main()
