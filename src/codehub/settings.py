"""`CODEHUB_…` variables go in, one frozen object comes out. An error names the setting and the remedy."""

import difflib
import os
import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from codehub.core.access import origin_of, written_origin
from codehub.core.ceilings import Ceilings
from codehub.core.ides import IDES
from codehub.core.origins import NONE, WorkspaceOrigins, usual_host
from codehub.core.workspace import IMAGE_REF, IMAGE_REF_LENGTH_MAX, InstanceBackend, StorageBackend
from codehub.kubernetes_settings import KubernetesSettings
from codehub.setting_urls import API_SCHEMES, SCHEMES, read_origins, refuse_unknown, to_networks
from codehub.validation_messages import password_problem, problem_text

PREFIX = "CODEHUB_"
_LIFETIME_S_MAX = (
    2_147_483_647  # what the database's columns hold; and no such time from now is beyond the calendar
)
_PERIOD_S_MAX = 86_400
_NEVER = "never"
# What codehub keeps in the data directory beside homes, which lie in `users` by themselves.
_DIRECTORIES = ("archives", "pipes", "postgres", "run", "trial")
# Variables with the prefix that are no settings of the server.
_OTHERS = frozenset({"URL", "TOKEN", "CACHE"})
_OTHER_PREFIXES = ("TEST_", "KILL_")

_HOMES: Mapping[InstanceBackend, tuple[StorageBackend, ...]] = {
    InstanceBackend.LOCAL_PROCESS: (StorageBackend.LOCAL_DIR, StorageBackend.OBJECT_STORE),
    InstanceBackend.LOCAL_DOCKER: (
        StorageBackend.DOCKER_VOLUME,
        StorageBackend.LOCAL_DIR,
        StorageBackend.OBJECT_STORE,
    ),
    InstanceBackend.K8S: (StorageBackend.K8S_PVC, StorageBackend.OBJECT_STORE),
}


# Who listens everywhere is found here by whoever is on the same machine.
_SELF: Mapping[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # nobody listens there by this


Ide = StrEnum("Ide", {name: name for name in IDES})  # type: ignore[misc]  # the table of IDEs is not known to mypy


class WrongSetting(Exception):
    """Settings that can't be. Its text has one line for each, with what to do."""


def _default_data_dir() -> Path:
    return Path("/var/lib/codehub") if os.geteuid() == 0 else Path.home() / ".local/share/codehub"


class Settings(KubernetesSettings):
    """What can be set. No setting is needed to start."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, validate_default=False
    )

    data_dir: Annotated[
        Path,
        Field(
            default_factory=_default_data_dir,
            description="Where the embedded database, homes and archives lie. As root `/var/lib/codehub`, else `~/.local/share/codehub`.",
        ),
    ]
    homes_dir: Path | None = Field(
        None,
        description="Where homes in directories lie, a whole path; its disk may be another than the database's. Default: `DATA_DIR`. If it is changed, `users/` must be moved with it.",
    )
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    public_base_url: str | None = Field(
        None,
        description="How browsers reach codehub, e.g. `https://code.example.org`. Default: `http://HOST:PORT`, which only fits if people open it by that name.",
    )
    workspace_host: str | None = Field(
        None,
        description="Where each workspace has an origin of its own: `*.ws.example.net`, if every name below leads here. `none`: workspaces share the dashboard's origin. Default: `*.localhost` where browsers reach codehub at `http://127.0.0.1` or `http://localhost`, else `none`.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="A PostgreSQL server, 15 or later: `postgresql://user:password@host/database`. Default: the embedded one.",
    )
    redis_url: SecretStr | None = Field(
        None, description="A Redis for hints: `redis://host:6379/0`. Default: PostgreSQL carries them."
    )
    archive_url: str | None = Field(
        None,
        description="Where archives go: `file:///dir` or `s3://bucket/prefix`. Default: `DATA_DIR/archives`.",
    )
    instance_backend: InstanceBackend = Field(
        InstanceBackend.LOCAL_PROCESS,
        description="What runs workspaces: `local-process`, `local-docker` or `k8s`.",
    )
    storage_backend: StorageBackend | None = Field(
        None,
        description="What holds homes: `local-dir`, `docker-volume`, `k8s-pvc` or `object-store`. Default: what fits the instance backend.",
    )
    ide: Ide | None = Field(
        None,
        description=f"{', '.join(f'`{name}`' for name in IDES)}. Default: the first of them that is installed.",
    )
    helper_image: str = Field(
        "debian:bookworm-20250520-slim",
        pattern=IMAGE_REF,
        max_length=IMAGE_REF_LENGTH_MAX,
        description="The image of the containers that archive and restore Docker volumes and reach ports of instances; needs GNU tar, find, xargs and perl. With `k8s` codehub's own image, which has to be named.",
    )

    workspace_image: str = Field(
        "codercom/code-server:4.100.3",
        pattern=IMAGE_REF,
        max_length=IMAGE_REF_LENGTH_MAX,
        description="The image of a new workspace that names none.",
    )
    standby_ttl_seconds: int = Field(
        300,
        ge=10,
        le=_LIFETIME_S_MAX,
        description="How long a new workspace that says nothing runs unused before it is stopped.",
    )
    archive_ttl_seconds: int = Field(
        86_400,
        ge=0,
        le=_LIFETIME_S_MAX,
        description="How long it then sleeps before it is archived, in seconds.",
    )
    sleep_warning_seconds: int = Field(
        60, ge=0, le=_LIFETIME_S_MAX, description="How long before it is stopped people are told, in seconds."
    )
    initial_admin_password: SecretStr | None = Field(
        None,
        description="The password of `admin` at the very first start. Default: one is made and shown once.",
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="What opens `/metrics`, and the reasons of `/readyz`, beside an admin's token: sent as `Authorization: Bearer …`, 16 letters and digits at least. Default: admins alone.",
    )
    trusted_proxies: str = Field(
        "",
        description="Addresses or networks, with commas between, whose `X-Forwarded-…` counts, e.g. `10.0.0.0/8`. Default: nobody's.",
    )

    trash_seconds: int | None = Field(
        604_800,
        ge=0,
        le=_LIFETIME_S_MAX,
        description="How long a deletion can be undone, in seconds; `never`: until somebody purges it. A change counts for later deletions.",
    )
    gc_grace_seconds: int = Field(
        7_200,
        ge=0,
        le=_LIFETIME_S_MAX,
        description="How old something must be before garbage collection removes it, in seconds.",
    )

    activity_flush_seconds: float = Field(
        30.0,
        gt=0,
        le=_PERIOD_S_MAX,
        description="How late the use of a workspace may be recorded, in seconds; a quarter of a shorter time to live.",
    )
    tab_script: bool = Field(
        True,
        description="Whether codehub's script goes into the pages of IDEs: it tells that somebody is there, warns before a workspace sleeps, and offers to wake it. A workspace can be set to do without.",
    )
    wake_archived: bool = Field(False, description="Whether a visit restores a workspace from the archive.")
    wake_wait_seconds: float = Field(
        60.0,
        ge=0,
        le=_PERIOD_S_MAX,
        description="How long a program that visits a sleeping workspace waits for it, in seconds.",
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        None,
        description="How much is logged: `debug`, `info`, `warning` or `error`. Default: `info`, and `warning` on a terminal.",
    )

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("homes_dir")
    @classmethod
    def _whole_path(cls, value: Path) -> Path:
        if not value.is_absolute() or value == Path("/"):
            raise ValueError("it must be the whole path of a directory, as in /srv/homes")
        return value

    @field_validator("trash_seconds", mode="before")
    @classmethod
    def _never_is_no_time(cls, value: Any) -> Any:
        return None if value == _NEVER else value

    @field_validator("public_base_url")
    @classmethod
    def _http_origin(cls, value: str) -> str:
        origin, url = origin_of(value), urlsplit(value)
        if origin is None or url.path.strip("/") or url.query or url.fragment:
            raise ValueError("it must be http://host or https://host, without a path")
        return origin

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: str) -> str:
        try:
            to_networks(value)
        except ValueError as error:
            raise ValueError(f"{error}. It must be addresses or networks with commas between") from None
        return value

    @field_validator("initial_admin_password")
    @classmethod
    def _opens_the_door(cls, value: SecretStr) -> SecretStr:
        problem = password_problem(value.get_secret_value())
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("metrics_token")
    @classmethod
    def _is_a_word(cls, value: SecretStr) -> SecretStr:
        if re.fullmatch(r"[A-Za-z0-9._~+/=-]{16,256}", value.get_secret_value()) is None:
            raise ValueError(
                "it must be 16 to 256 letters, digits and . _ ~ + / = -, as a header can carry them"
            )
        return value

    @field_validator("api_url")
    @classmethod
    def _known_schemes(cls, value: str) -> str:
        for url in value.split(","):
            refuse_unknown(url, API_SCHEMES)
        return value

    @field_validator("database_url", "redis_url", "archive_url")
    @classmethod
    def _known_scheme(cls, value: Any, info: Any) -> Any:
        schemes = SCHEMES[info.field_name]
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        refuse_unknown(text, schemes)
        if text.startswith("s3://") and not urlsplit(text).netloc:
            raise ValueError("it must name a bucket, as in s3://bucket/prefix")
        if text.startswith("file:///") and not text.removeprefix("file:///").strip("/"):
            raise ValueError("it must name a directory, as in file:///srv/archives")
        return value

    @model_validator(mode="after")
    def _origins_fit(self) -> "Settings":
        try:
            _ = self.workspace_origins
        except ValueError as error:
            raise ValueError(f"{PREFIX}WORKSPACE_HOST: {self.workspace_host!r} won't do: {error}.") from None
        return self

    @model_validator(mode="after")
    def _homes_fit(self) -> "Settings":
        possible_homes = _HOMES[self.instance_backend]
        if self.storage_backend is not None and self.storage_backend not in possible_homes:
            raise ValueError(
                f"{PREFIX}STORAGE_BACKEND: {self.storage_backend} can't hold the homes of {self.instance_backend}. "
                f"Set it to {' or '.join(possible_homes)}, or leave it unset."
            )
        return self

    @model_validator(mode="after")
    def _homes_lie_apart(self) -> "Settings":
        if self.homes_dir is None:
            return self
        homes = Path(os.path.realpath(self.homes_dir))
        others = [self.data_dir / name for name in _DIRECTORIES]
        archives = urlsplit(self.archives)
        if archives.scheme == "file":
            others.append(Path(unquote(archives.path)))
        for directory in (self.data_dir / "users", *others):
            other = Path(os.path.realpath(directory))
            is_around = other.is_relative_to(homes / "users") and directory in others
            if homes.is_relative_to(other) or is_around:
                raise ValueError(
                    f"{PREFIX}HOMES_DIR: homes in {self.homes_dir} and what codehub keeps in {directory} would lie in one "
                    "another. Name a directory that is for homes alone, or leave it unset."
                )
        return self

    @property
    def homes_root(self) -> Path:
        """Where `users/` lies, with the homes in it."""
        return self.homes_dir or self.data_dir

    @property
    def address_note(self) -> Path:
        """Where a codehub that runs in this directory says its address."""
        return self.data_dir / "address"

    @property
    def base_url(self) -> str:
        return self.public_base_url or written_origin("http", _SELF.get(self.host, self.host), self.port)

    @property
    def workspace_origins(self) -> WorkspaceOrigins | None:
        """Where workspaces have origins of their own, if they have."""
        usual = NONE if self.is_open_elsewhere else usual_host(self.base_url)
        return read_origins(self.workspace_host or usual, self.base_url)

    @property
    def is_open_elsewhere(self) -> bool:
        """Whether other machines reach it under names that only PUBLIC_BASE_URL could tell."""
        return self.host in _SELF and self.public_base_url is None

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return to_networks(self.trusted_proxies)

    @property
    def ceilings(self) -> Ceilings:
        """What one workspace, and one person, may have at most."""
        return self.ceilings_with(self.workspace_image)

    @property
    def homes(self) -> StorageBackend:
        return self.storage_backend or _HOMES[self.instance_backend][0]

    @property
    def cluster_problem(self) -> str | None:
        """What Jobs of a cluster would lack, if anything, with what to do."""
        is_shared = self.archive_url is not None and self.k8s_archive_claim is not None
        if not self.archives.startswith("s3://") and not is_shared:
            return (
                f"Jobs of the cluster can't reach {self.archives}: set {PREFIX}ARCHIVE_URL to s3://bucket/prefix; or to the "
                f"directory of a volume that codehub and the cluster share, and {PREFIX}K8S_ARCHIVE_CLAIM to its claim"
            )
        if "helper_image" not in self.model_fields_set:
            return f"set {PREFIX}HELPER_IMAGE to codehub's own image, as the cluster fetches it: it archives and restores homes there"
        return None

    @property
    def archives(self) -> str:
        return self.archive_url or (self.data_dir / "archives").as_uri()


def storages_for(instance: InstanceBackend) -> tuple[StorageBackend, ...]:
    """Return what can hold the homes of such instances, the usual one first."""
    return _HOMES[instance]


def load_settings(**overrides: Any) -> Settings:
    """Read the settings once, or raise WrongSetting."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise WrongSetting("\n".join(_line(detail) for detail in error.errors())) from None
    except RuntimeError:  # of pathlib: `~` leads nowhere
        raise WrongSetting(
            f"{PREFIX}DATA_DIR: the home directory that it is to lie in is not known. Set HOME, or {PREFIX}DATA_DIR to a whole path"
        ) from None


def unknown_settings(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each `CODEHUB_…` variable that is no setting: most likely a typing error."""
    known = {name.upper() for name in Settings.model_fields} | _OTHERS
    lines = []
    for name in sorted(environ):
        setting = name.removeprefix(PREFIX)
        if setting == name or setting in known or setting.startswith(_OTHER_PREFIXES):
            continue
        similar = difflib.get_close_matches(setting, known, n=1)
        advice = f": did you mean {PREFIX}{similar[0]}?" if similar else "."
        lines.append(f"{name} is no setting and is ignored{advice}")
    return lines


def _line(detail: Any) -> str:
    if not detail["loc"]:
        return problem_text(detail)
    field = str(detail["loc"][0])
    description = Settings.model_fields[field].description or ""
    is_secret = field in ("database_url", "redis_url", "initial_admin_password")
    value_note = "" if is_secret else f" {str(detail['input'])!r} won't do:"
    return f"{PREFIX}{field.upper()}:{value_note} {problem_text(detail)}. What it is for: {description}"
