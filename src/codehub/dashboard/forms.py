"""Forms: what a browser posted goes in; a checked request, or which fields are wrong, comes out. The checks are the API's own."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

_FIELDS_MAX = 100
_NUMBERS = frozenset(
    {"memory_mb", "pids", "disk_mb", "standby_ttl_seconds", "archive_ttl_seconds", "expires_in_seconds"}
)
_RESOURCES = ("memory_mb", "cpus", "pids", "disk_mb")
Model = TypeVar("Model", bound=BaseModel)


class WrongFields(Exception):
    """Which fields are wrong. What is wrong with each is said in words of the dashboard's own."""

    def __init__(self, *fields: str) -> None:
        super().__init__(", ".join(fields))
        self.fields = frozenset(fields)


async def posted(request: Request) -> dict[str, str]:
    """Return the fields of an ordinary form. The last of a name counts."""
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}


def is_sure(given: Mapping[str, str]) -> bool:
    """Whether the question was answered, by the page that asks it or by the script that asks without a page."""
    return given.get("sure") == "yes"


def checked(model: type[Model], fields: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as wrong:
        raise WrongFields(*(str(problem["loc"][-1]) for problem in wrong.errors())) from None


def workspace_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a form's words as the API would have got them: numbers as numbers, an empty field left out, `never` as nothing."""
    fields: dict[str, Any] = {}
    for name in ("name", "ide", "image_ref", "standby_ttl_seconds", "archive_ttl_seconds"):
        if given.get(name, "").strip():
            fields[name] = _value(name, given[name].strip())
    fields.setdefault("name", "")
    fields["description"] = given.get("description", "").strip() or None
    resources = {name: _value(name, given[name]) for name in _RESOURCES if given.get(name, "").strip()}
    if resources:
        fields["resources"] = resources
    return fields


def _value(name: str, text: str) -> Any:
    if name.endswith("_seconds") and text == "never":
        return None
    try:
        if name == "cpus":
            return float(text)
        return int(text) if name in _NUMBERS else text
    except ValueError:
        return text  # the check says what is wrong with it


def token_fields(given: Mapping[str, str]) -> dict[str, Any]:
    expires = given.get("expires_in_seconds", "never")
    return {
        "name": given.get("name", "").strip(),
        "scope": given.get("scope", ""),
        "expires_in_seconds": None if expires == "never" else _value("expires_in_seconds", expires),
    }
