"""The bodies of requests (wire.md), checked, for the API and the dashboard. Unknown fields are refused."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from codehub.core.access import PASSWORD_LENGTH_MIN, USERNAME, Role, Scope, is_username
from codehub.core.operations import DesiredState
from codehub.core.visibility import Visibility
from codehub.core.workspace import IMAGE_REF, IMAGE_REF_LENGTH_MAX, InstanceBackend, StorageBackend
from codehub.settings import Ide
from codehub.validation_messages import PASSWORD_LENGTH_MAX

_INT32_MAX = 2_147_483_647
# Unicode's Bidi_Control: what follows one is shown in another order
# than it is stored in, and a name can pass for another.
_BIDI = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = rf"\x80-\x9f{_BIDI}"
_NOT_ON_A_LINE = rf"\x00-\x1f\x7f\u2028\u2029{_INVISIBLE}"


def _check_storable(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("string_unicode", "lone surrogate") from None
    return text


def _control_character(character: str) -> PydanticCustomError:
    return PydanticCustomError("control", "control character", {"character": f"U+{ord(character):04X}"})


def _check_visible(text: str) -> str:
    match = re.search(f"[{_INVISIBLE}]", text)
    if match:
        raise _control_character(match[0])
    return _check_storable(text)


def _check_line(text: str) -> str:
    match = re.search(f"[{_NOT_ON_A_LINE}]", text)
    if match:
        raise _control_character(match[0])
    if not text.strip():
        raise PydanticCustomError("empty", "empty")
    return _check_storable(text)


def _check_username(text: str) -> str:
    if not is_username(text):
        raise PydanticCustomError("reserved", "reserved")
    return text


def _check_whole(value: object) -> object:
    """Take a whole number however JSON writes it, and nothing that merely looks like one."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise PydanticCustomError("whole", "no whole number")
    return value


def _schema_pattern(pattern: str) -> Any:
    """Return a pattern for the OpenAPI document alone: the validator beside it gives the better message."""
    return {"pattern": pattern}


_NO_NUL = _schema_pattern(r"^[^\x00]*$")
_LINE = _schema_pattern(rf"^[^{_NOT_ON_A_LINE}]*[^{_NOT_ON_A_LINE}\s][^{_NOT_ON_A_LINE}]*$")
_ABOUT = _schema_pattern(rf"^[^\x00{_INVISIBLE}]*$")
_NAME_OF_PERSON = _schema_pattern(rf"^(?!([Mm][Ee]|[Aa][Ll][Ll])$){USERNAME}$")
Text = Annotated[str, Field(max_length=10_000, json_schema_extra=_NO_NUL), AfterValidator(_check_storable)]
About = Annotated[str, Field(max_length=10_000, json_schema_extra=_ABOUT), AfterValidator(_check_visible)]
"""It stands on one line beside others' in lists."""
Name = Annotated[
    str, Field(min_length=1, max_length=255, json_schema_extra=_LINE), AfterValidator(_check_line)
]
Query = Annotated[str, Field(max_length=255, json_schema_extra=_NO_NUL), AfterValidator(_check_storable)]
Username = Annotated[
    str,
    Field(pattern=rf"^{USERNAME}$", max_length=64, json_schema_extra=_NAME_OF_PERSON),
    AfterValidator(_check_username),
]
Password = Annotated[
    str,
    Field(min_length=PASSWORD_LENGTH_MIN, max_length=PASSWORD_LENGTH_MAX, json_schema_extra=_NO_NUL),
    AfterValidator(_check_storable),
]
ImageRef = Annotated[str, Field(pattern=IMAGE_REF, min_length=1, max_length=IMAGE_REF_LENGTH_MAX)]
Whole = BeforeValidator(_check_whole)
StandbyTtl = Annotated[int, Field(ge=10, le=_INT32_MAX), Whole] | None
ArchiveTtl = Annotated[int, Field(ge=0, le=_INT32_MAX), Whole] | None


def _nothing() -> None:
    return None


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoBody(Body):
    """The body of a call that takes none: nothing, or an object without fields."""


class LoginBody(Body):
    username: Annotated[str, Field(max_length=255)]
    password: Annotated[str, Field(max_length=PASSWORD_LENGTH_MAX)]


class PasswordBody(Body):
    old: Annotated[str, Field(max_length=PASSWORD_LENGTH_MAX)]
    new: Password


class TokenBody(Body):
    name: Name
    scope: Scope
    expires_in_seconds: Annotated[int, Field(ge=1, le=_INT32_MAX), Whole] | None = None


class UserBody(Body):
    username: Username
    password: Password
    role: Role = Role.MEMBER


class UserPatch(Body):
    password: Password | None = None
    role: Role | None = None
    disabled: Annotated[bool, Field(strict=True)] | None = None


class ResourcesBody(Body):
    memory_mb: Annotated[int, Field(ge=64, le=4_194_304), Whole] | None = None
    cpus: Annotated[float, Field(ge=0.1, le=1024, strict=True, allow_inf_nan=False)] | None = None
    pids: Annotated[int, Field(ge=16, le=4_194_304), Whole] | None = None
    disk_mb: Annotated[int, Field(ge=64, le=1_073_741_824), Whole] | None = None


class WorkspaceBody(Body):
    name: Name
    description: About | None = None
    memo: Text | None = None
    image_ref: ImageRef | None = None
    ide: Ide | None = None
    resources: ResourcesBody | None = None
    tab_script: Annotated[bool, Field(strict=True)] = True
    cross_port_access: Annotated[bool, Field(strict=True)] = False
    instance_backend: InstanceBackend | None = None
    storage_backend: StorageBackend | None = None
    standby_ttl_seconds: StandbyTtl = Field(default_factory=_nothing)
    archive_ttl_seconds: ArchiveTtl = Field(default_factory=_nothing)
    desired_state: DesiredState | None = DesiredState.RUNNING


class WorkspacePatch(Body):
    """Absent: it stays. `description`, `memo` and the times to live can be set to null."""

    # Factories, so that the document shows no defaults: an absent field is not read.
    name: Name = Field(default_factory=str)
    description: About | None = Field(default_factory=_nothing)
    memo: Text | None = Field(default_factory=_nothing)
    pinned: Annotated[bool, Field(strict=True)] = Field(default_factory=bool)
    image_ref: ImageRef = Field(default_factory=str)
    ide: Ide = Field(default_factory=lambda: Ide("http"))
    resources: ResourcesBody = Field(default_factory=ResourcesBody)
    tab_script: Annotated[bool, Field(strict=True)] = Field(default_factory=bool)
    cross_port_access: Annotated[bool, Field(strict=True)] = Field(default_factory=bool)
    standby_ttl_seconds: StandbyTtl = Field(default_factory=_nothing)
    archive_ttl_seconds: ArchiveTtl = Field(default_factory=_nothing)
    desired_state: DesiredState = Field(default_factory=lambda: DesiredState.RUNNING)


def _one_at_most(schema: dict[str, Any]) -> None:
    defaults: dict[str, Any] = {
        name: {"enum": [field["default"]]} for name, field in schema["properties"].items()
    }
    schema["anyOf"] = [
        {"properties": {name: rule for name, rule in defaults.items() if name != chosen}}
        for chosen in defaults
    ]


class RecoverBody(Body):
    """One of these fields at most: each is another way to go on."""

    model_config = ConfigDict(json_schema_extra=_one_at_most)

    accept_loss: Annotated[bool, Field(strict=True)] = False
    take: Literal["newest"] | None = None
    adopt: Annotated[bool, Field(strict=True)] = False


class PortBody(Body):
    visibility: Visibility
    expires_at: AwareDatetime | None = None


class KeepAwakeBody(Body):
    seconds: Annotated[int, Field(ge=1, le=43_200), Whole] = 3600
