"""How to reach a cluster goes in, credentials that are current
come out: files are read again, plugins are run again.

Refuses settings with which no cluster can be reached, in words that name the setting.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from codehub.adapters.http import Tls
from codehub.adapters.kubernetes.kubeconfig import AccessRefused, ClusterSettings, parse
from codehub.adapters.kubernetes.plugin import PluginCredentials, run_plugin
from codehub.adapters.kubernetes.tls import make_context
from codehub.adapters.threads import in_thread
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable
from codehub.ports.instances import TcpUpstream
from codehub.ports.system import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HTTPS_PORT = 443
_CURRENT_S = 60.0
"""A token that rotates is replaced long before it expires, an authority too."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request needs. The same Tls as before means the same connections."""

    token: str | None
    tls: Tls

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class Access:
    """One cluster, and credentials for it."""

    def __init__(self, settings: ClusterSettings, *, clock: Clock) -> None:
        parts = urlsplit(settings.server)
        try:
            port = parts.port or _HTTPS_PORT
        except ValueError:
            raise AccessRefused(f"server {settings.server!r} has no valid port") from None
        if parts.scheme != "https" or parts.hostname is None:
            raise AccessRefused(f"server {settings.server!r} is no https:// address")
        self.server = settings.server
        self.namespace = settings.namespace
        self.upstream = TcpUpstream(parts.hostname, port)
        self.host = parts.netloc
        self.base_path = parts.path.rstrip("/")
        self._settings = settings
        self._clock = clock
        self._tls_name = settings.tls_server_name or parts.hostname
        self._gate = asyncio.Lock()
        self._current: Credentials | None = None
        self._read_at: float | None = None
        self._contents: tuple[bytes | None, ...] = ()
        self._from_plugin: PluginCredentials | None = None

    async def credentials(self) -> Credentials:
        """Return what is current. Raises BackendUnreachable if it can't be read."""
        async with self._gate:
            now = self._clock.monotonic()
            if self._current is None or self._read_at is None or now - self._read_at > _CURRENT_S:
                self._current = await in_thread(self._read)
                self._read_at = now
            return self._current

    async def renew(self, refused: Credentials) -> Credentials:
        """Return credentials that are read anew, for the API did not accept these."""
        if self._current is refused:
            self.forget()
        return await self.credentials()

    def forget(self) -> None:
        """Have them read anew before the next request."""
        self._read_at = self._from_plugin = None

    def _read(self) -> Credentials:
        settings = self._settings
        try:
            token = settings.token.read_text().strip() if isinstance(settings.token, Path) else settings.token
            authority, certificate, key = map(
                _content, (settings.authority, settings.certificate, settings.key)
            )
        except OSError as error:
            raise self._unusable(error) from None
        if settings.plugin is not None:
            if self._from_plugin is None or self._from_plugin.is_expired():
                self._from_plugin = run_plugin(settings.plugin)
            token = self._from_plugin.token or token
            certificate, key = self._from_plugin.certificate or certificate, self._from_plugin.key or key
        contents = (authority, certificate, key)
        if self._current is not None and self._contents == contents:
            return replace(self._current, token=token)
        try:
            context = make_context(*contents)
        except AccessRefused as error:
            raise self._unusable(error) from None
        self._contents = contents
        return Credentials(token, Tls(context, self._tls_name))

    def _unusable(self, error: Exception) -> BackendUnreachable:
        facts = {"server": self.server, "text": str(error)}
        return BackendUnreachable(Message(Code.KUBERNETES_CREDENTIALS, facts))


def in_cluster(
    *, clock: Clock, environ: Mapping[str, str] = os.environ, place: Path = SERVICE_ACCOUNT
) -> Access:
    """Return the access that a Pod's service account has."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise AccessRefused(
            "this is no Pod (KUBERNETES_SERVICE_HOST is not set): CODEHUB_K8S_KUBECONFIG must name a kubeconfig"
        )
    try:
        namespace = (place / "namespace").read_text().strip()
    except FileNotFoundError:
        namespace = None
    except OSError as error:
        raise AccessRefused(f"the Pod's service account can't be read: {error}") from None
    for name in ("token", "ca.crt"):
        if not (place / name).exists():
            raise AccessRefused(
                f"{place / name} is missing: the Pod needs a service account (automountServiceAccountToken)"
            )
    settings = ClusterSettings(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=place / "ca.crt",
        token=place / "token",
        namespace=namespace,
    )
    return Access(settings, clock=clock)


def from_kubeconfig(path: Path, *, clock: Clock) -> Access:
    """Return the access that a kubeconfig's current context describes."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise AccessRefused(f"CODEHUB_K8S_KUBECONFIG {path} can't be read: {error}") from None
    settings = parse(text, path)
    files = {
        "certificate-authority": settings.authority,
        "client-certificate": settings.certificate,
        "client-key": settings.key,
        "tokenFile": settings.token,
    }
    for field, file in files.items():
        if isinstance(file, Path) and not os.access(file, os.R_OK):
            raise AccessRefused(f"{path}: {field} {file} can't be read")
    make_context(*map(_content, (settings.authority, settings.certificate, settings.key)))
    return Access(settings, clock=clock)


def _content(source: Path | bytes | None) -> bytes | None:
    return source.read_bytes() if isinstance(source, Path) else source
