"""A kubeconfig's text goes in, how to reach its current context's cluster comes
out. Refuses what is unsafe or not there, by the field's name.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

_PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_UNSAFE = {
    "insecure-skip-tls-verify": "whoever answers there would be trusted; give certificate-authority",
}
_UNSUPPORTED_CLUSTER = {"proxy-url": "codehub reaches the API directly"}
_UNSUPPORTED_USER = {
    "auth-provider": "use exec with a credential plugin",
    "username": "the API takes no passwords",
    "password": "the API takes no passwords",
    "as": "codehub acts as nobody else",
    "as-uid": "codehub acts as nobody else",
    "as-groups": "codehub acts as nobody else",
    "as-user-extra": "codehub acts as nobody else",
}


class AccessRefused(Exception):
    """With these settings no cluster can be reached. The text names the setting."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that hands out credentials."""

    api_version: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cluster: Mapping[str, Any] | None
    """What it is told of the cluster, if it wants to know."""
    install_hint: str


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach a cluster, and as whom. A Path is read again and again, for what is in it may change."""

    server: str
    tls_server_name: str | None = None
    authority: Path | bytes | None = None
    certificate: Path | bytes | None = None
    key: Path | bytes | None = None
    token: Path | str | None = None
    plugin: Plugin | None = None
    namespace: str | None = None


def parse(text: str, place: Path) -> ClusterSettings:
    """Return what the current context of this file says. Paths in it start from the file's folder."""
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise AccessRefused(f"{place} is no YAML: {error}") from None
    if not isinstance(config, dict):
        raise AccessRefused(f"{place} is no kubeconfig")
    section = _Section(config, str(place), place.parent)
    context = section.named("contexts", "context", section.text("current-context") or "")
    cluster = section.named("clusters", "cluster", context.text("cluster") or "")
    user = section.named("users", "user", context.text("user") or "")
    cluster.refuse(_UNSAFE)
    cluster.refuse(_UNSUPPORTED_CLUSTER)
    user.refuse(_UNSUPPORTED_USER)
    server = cluster.text("server")
    if server is None:
        raise AccessRefused(f"{cluster.name}.server is missing")
    settings = ClusterSettings(
        server=server,
        tls_server_name=cluster.text("tls-server-name"),
        authority=cluster.content("certificate-authority"),
        certificate=user.content("client-certificate"),
        key=user.content("client-key"),
        token=user.path("tokenFile") or user.text("token"),
        plugin=_plugin(user, cluster),
        namespace=context.text("namespace"),
    )
    if (settings.certificate is None) is not (settings.key is None):
        raise AccessRefused(f"{user.name} needs client-certificate and client-key, or neither")
    return settings


class _Section:
    """One mapping of the file, with its name for whoever has to mend it."""

    def __init__(self, values: Mapping[str, Any], name: str, folder: Path) -> None:
        self._values = values
        self.name = name
        self._folder = folder

    def text(self, field: str) -> str | None:
        value = self._values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise AccessRefused(f"{self.name}.{field} is no text")
        return value

    def path(self, field: str) -> Path | None:
        text = self.text(field)
        return None if text is None else self._folder / text

    def content(self, field: str) -> Path | bytes | None:
        """Return what is in the file itself, else where it is."""
        data = self.text(f"{field}-data")
        if data is None:
            return self.path(field)
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            raise AccessRefused(f"{self.name}.{field}-data is no base64") from None

    def named(self, field: str, inner: str, name: str) -> "_Section":
        """Return what stands under `inner` in the entry of this name."""
        where = f"{self.name}: {field}[{name}]"
        entries = self._values.get(field) or []
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("name") == name:
                values = entry.get(inner) or {}
                if not isinstance(values, dict):
                    raise AccessRefused(f"{where}.{inner} is no mapping")
                return _Section(values, f"{where}.{inner}", self._folder)
        raise AccessRefused(f"{where} is missing")

    def section(self, field: str) -> "_Section | None":
        values = self._values.get(field)
        if values is None:
            return None
        if not isinstance(values, dict):
            raise AccessRefused(f"{self.name}.{field} is no mapping")
        return _Section(values, f"{self.name}.{field}", self._folder)

    def entries(self, field: str) -> Sequence[Any]:
        values = self._values.get(field) or []
        if not isinstance(values, list):
            raise AccessRefused(f"{self.name}.{field} is no list")
        return values

    def is_true(self, field: str) -> bool:
        return self._values.get(field) is True

    def refuse(self, fields: Mapping[str, str]) -> None:
        for field, reason in fields.items():
            if self._values.get(field):
                raise AccessRefused(f"{self.name}.{field} is not allowed: {reason}")


def _plugin(user: _Section, cluster: _Section) -> Plugin | None:
    plugin = user.section("exec")
    if plugin is None:
        return None
    api_version, command = plugin.text("apiVersion"), plugin.text("command")
    if api_version not in _PLUGIN_VERSIONS:
        raise AccessRefused(f"{plugin.name}.apiVersion is {api_version}, not one of {_PLUGIN_VERSIONS}")
    if command is None:
        raise AccessRefused(f"{plugin.name}.command is missing")
    if plugin.text("interactiveMode") == "Always":
        raise AccessRefused(f"{plugin.name}.interactiveMode is Always: nobody is there to be asked")
    if "/" in command:  # as kubectl: a path starts from the file's folder, a bare name is searched in PATH
        command = str(plugin.path("command"))
    try:
        environment = {str(entry["name"]): str(entry["value"]) for entry in plugin.entries("env")}
    except (KeyError, TypeError):
        raise AccessRefused(f"{plugin.name}.env needs a name and a value in each entry") from None
    return Plugin(
        api_version=api_version,
        command=[command, *map(str, plugin.entries("args"))],
        environment=environment,
        cluster=_cluster_info(cluster) if plugin.is_true("provideClusterInfo") else None,
        install_hint=plugin.text("installHint") or "",
    )


def _cluster_info(cluster: _Section) -> Mapping[str, Any]:
    """Return what a plugin is told of its cluster. The authority goes in as data, wherever it came from."""
    authority = cluster.content("certificate-authority")
    try:
        content = authority.read_bytes() if isinstance(authority, Path) else authority
    except OSError as error:
        raise AccessRefused(f"{cluster.name}.certificate-authority can't be read: {error}") from None
    told_of = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "certificate-authority-data": base64.b64encode(content).decode() if content else None,
        "config": _extension(cluster),
    }
    return {name: value for name, value in told_of.items() if value is not None}


def _extension(cluster: _Section) -> Any:
    entries = cluster.entries("extensions")
    name = "client.authentication.k8s.io/exec"
    matches = (entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name)
    return next((entry.get("extension") for entry in matches), None)
