"""Forms: what a browser posted goes in; a checked request, or which fields are wrong, comes out.

The checks are the API's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from enum import Enum, auto
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from codehub.core.workspace import Spec

_FIELDS_MAX = 100
NEVER = "never"
Model = TypeVar("Model", bound=BaseModel)


class Kind(Enum):
    """What a field of a form holds."""

    WORD = auto()
    """One line that must not be empty."""
    LINE = auto()
    """One line; empty means none."""
    TEXT = auto()
    """Lines; empty means none."""
    COUNT = auto()
    NUMBER = auto()
    SECONDS = auto()
    """A time to live, or `never`."""
    SWITCH = auto()
    """`yes` or `no`."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A setting of a workspace as the form has it: from here it is drawn, read and compared."""

    name: str
    kind: Kind
    is_resource: bool = False

    def form_value(self, settings: object) -> str:
        """Return the value as it stands in the form.

        `settings`: a spec, or what this installation has for new ones.
        """
        value = getattr(getattr(settings, "resources") if self.is_resource else settings, self.name, None)  # noqa: B009  # neither type is known here
        if self.kind is Kind.SWITCH:
            return "yes" if (_SWITCHED_AT_FIRST[self.name] if value is None else value) else "no"
        if value is None:
            return NEVER if self.kind is Kind.SECONDS else ""
        return f"{value:g}" if self.kind is Kind.NUMBER else str(value)

    def normalise(self, text: str) -> str:
        """Return what a browser makes of a text, so that one that nobody touched is not taken for changed."""
        text = text.replace("\r", "").strip()
        return text if self.kind is Kind.TEXT else text.replace("\n", "")

    def parse(self, text: str) -> Any:
        """Return it as the API would have got it; the API's check says what is wrong with it."""
        text = self.normalise(text)
        if self.kind in (Kind.LINE, Kind.TEXT):
            return text or None
        if self.kind is Kind.SECONDS and text == NEVER:
            return None
        if self.kind is Kind.SWITCH:
            return _SWITCHED.get(text, text)
        try:
            return _READ[self.kind](text)
        except ValueError:
            return text


_READ: Mapping[Kind, Callable[[str], Any]] = {
    Kind.WORD: str,
    Kind.COUNT: int,
    Kind.NUMBER: float,
    Kind.SECONDS: int,
}
_SWITCHED = {"yes": True, "no": False}
_SWITCHED_AT_FIRST = {field.name: field.default is True for field in fields_of(Spec)}
FIELDS = (
    FormField("name", Kind.WORD),
    FormField("description", Kind.LINE),
    FormField("memo", Kind.TEXT),
    FormField("ide", Kind.WORD),
    FormField("image_ref", Kind.WORD),
    FormField("memory_mb", Kind.COUNT, is_resource=True),
    FormField("cpus", Kind.NUMBER, is_resource=True),
    FormField("pids", Kind.COUNT, is_resource=True),
    FormField("disk_mb", Kind.COUNT, is_resource=True),
    FormField("tab_script", Kind.SWITCH),
    FormField("cross_port_access", Kind.SWITCH),
    FormField("standby_ttl_seconds", Kind.SECONDS),
    FormField("archive_ttl_seconds", Kind.SECONDS),
)
_EXPIRES = FormField("expires_in_seconds", Kind.SECONDS)


class WrongFields(Exception):
    """Which fields are wrong. What is wrong with each is said in words of the dashboard's own."""

    def __init__(self, *fields: str) -> None:
        super().__init__(", ".join(fields))
        self.fields = frozenset(fields)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of an ordinary form. The last of a name counts."""
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}


def is_sure(form: Mapping[str, str]) -> bool:
    """Whether the question was answered, by the page that asks it or by the script that asks
    without a page.
    """
    return form.get("sure") == "yes"


def validate(model: type[Model], fields: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise WrongFields(*(str(problem["loc"][-1]) for problem in error.errors())) from None


def workspace_fields(form: Mapping[str, str]) -> dict[str, Any]:
    """Return a form's texts as the API would have got them: what must not be empty and is left out, but for
    the name.
    """
    fields: dict[str, Any] = {"name": ""}
    resources: dict[str, Any] = {}
    for field in FIELDS:
        text = form.get(field.name, "")
        if text.strip() or field.kind in (Kind.LINE, Kind.TEXT):
            (resources if field.is_resource else fields)[field.name] = field.parse(text)
    return fields | ({"resources": resources} if resources else {})


def token_fields(form: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": form.get("name", "").strip(),
        "scope": form.get("scope", ""),
        _EXPIRES.name: _EXPIRES.parse(form.get(_EXPIRES.name, NEVER)),
    }
