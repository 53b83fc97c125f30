"""An error about a field of the API goes in, an error about the command's option comes out."""

import re
from collections.abc import Mapping

from codehub.cli.formatting import span

_OPTIONS: Mapping[str, str] = {
    "seconds": "--for",
    "expires_in_seconds": "--expires",
    "standby_ttl_seconds": "--sleep-after",
    "tab_script": "--tab-script",
    "cross_port_access": "--cross-port-access",
    "archive_ttl_seconds": "--archive-after",
    "resources.memory_mb": "--memory",
    "resources.cpus": "--cpus",
    "resources.pids": "--pids",
    "resources.disk_mb": "--disk-mb",
    "image_ref": "--image",
    "ide": "--ide",
    "instance_backend": "--backend",
    "storage_backend": "--storage",
    "description": "--description",
    "memo": "--memo",
    "q": "--query",
    "phase": "--phase",
    "owner": "--owner",
    "tail": "--tail",
}
_IN_SECONDS = frozenset(name for name in _OPTIONS if name.endswith("seconds"))
_NUMBER = re.compile(r"\d+")


def describe_fields(details: object) -> str | None:
    """Return a sentence per field, or None if the details are of no fields."""
    if not isinstance(details, list) or not details:
        return None
    try:
        return "\ncodehub: ".join(
            _in_option(str(detail["field"]), str(detail["problem"])) for detail in details
        )
    except (KeyError, TypeError):
        return None


def _in_option(field: str, problem: str) -> str:
    if field in _IN_SECONDS:
        problem = _NUMBER.sub(lambda count: span(int(count[0])), problem)
    return f"{_OPTIONS.get(field, field)}: {problem}"
