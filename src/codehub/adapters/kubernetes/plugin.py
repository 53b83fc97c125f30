"""A credential plugin of a kubeconfig is run, the credentials
that it prints come out. Blocks: run it in a thread.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from codehub.adapters.kubernetes.kubeconfig import Plugin
from codehub.core.messages import Code, Message
from codehub.ports.backends import BackendUnreachable

_RUN_S_MAX = 60.0
_ERROR_CHARS_MAX = 300
_LEEWAY = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class PluginCredentials:
    token: str | None
    certificate: bytes | None
    key: bytes | None
    expires_at: datetime | None

    def is_expired(self) -> bool:
        """Say whether they are, by this machine's clock. If it is wrong,
        the API refuses them: they are then fetched anew.
        """
        return self.expires_at is not None and datetime.now(UTC) + _LEEWAY >= self.expires_at


def run_plugin(plugin: Plugin) -> PluginCredentials:
    name = plugin.command[0]
    request = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False, **({"cluster": plugin.cluster} if plugin.cluster else {})},
    }
    try:
        process = subprocess.run(  # noqa: S603  # the kubeconfig that the operator gave names it
            plugin.command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            capture_output=True,
            timeout=_RUN_S_MAX,
            check=False,
        )
    except FileNotFoundError as error:
        raise _failure(name, plugin.install_hint.strip() or str(error)) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failure(name, str(error)) from None
    if process.returncode != 0:
        reason = process.stderr.decode(errors="replace").strip()[-_ERROR_CHARS_MAX:]
        raise _failure(name, f"({process.returncode}) {reason}")
    try:
        return _parse(json.loads(process.stdout), plugin.api_version)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _failure(name, str(error)) from None


def _failure(name: str, text: str) -> BackendUnreachable:
    return BackendUnreachable(Message(Code.KUBERNETES_PLUGIN, {"name": name, "text": text}))


def _parse(answer: Mapping[str, Any], api_version: str) -> PluginCredentials:
    if answer["apiVersion"] != api_version:
        raise ValueError(f"apiVersion is {answer['apiVersion']}, not {api_version}")
    status = answer["status"]
    expires_at = status.get("expirationTimestamp")
    token, certificate, key = (
        status.get("token"),
        status.get("clientCertificateData"),
        status.get("clientKeyData"),
    )
    if (certificate is None) is not (key is None) or not (token or certificate):
        raise ValueError("it needs a token, or a certificate with its key")
    return PluginCredentials(
        token=token,
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires_at=datetime.fromisoformat(expires_at) if expires_at else None,
    )
