"""Translates specs into Docker's container configuration, and Docker's answers into values. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.core.ides import IdeProfile, expand
from codehub.core.route import mount_of
from codehub.ports.disks import ResourceUse
from codehub.ports.instances import InstanceSpec, TcpUpstream

HOME = "/home/coder"
UID = 1000
NETWORK = "codehub"
SPEC, VOLUME = "codehub.spec", "codehub.volume"
LOOPBACK = "127.0.0.1"
_FORMAT = 1
_ENDED = frozenset({"exited", "dead"})
_LOG = {"Type": "json-file", "Config": {"max-size": "4m", "max-file": "1"}}


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a home is: a volume's name, or a directory of this machine."""

    kind: str
    source: str

    @property
    def config(self) -> dict[str, Any]:
        return {"Type": self.kind, "Source": self.source, "Target": HOME}


@dataclass(frozen=True, slots=True)
class Container:
    """An instance as the engine describes it."""

    id: str
    running: bool
    labels: Mapping[str, str]
    upstream: TcpUpstream | None
    started_at: datetime | None = None
    is_new: bool = False
    """Created, and not started yet."""
    has_ended: bool = False
    exit_code: int | None = None
    """The exit code, if it has ended; an entry of a list has none."""
    ide_port: int | None = None
    """Where its IDE listens inside; an entry of a list does not say."""


def container_name(workspace_id: UUID) -> str:
    return f"codehub-ws-{workspace_id}"


def fingerprint(spec: InstanceSpec, mount: Mount) -> str:
    """Return a value that differs between containers of different specs."""
    content = [_FORMAT, spec.image_ref, spec.ide, asdict(spec.resources), asdict(mount)]
    content += [spec.environment] if spec.environment else []  # else as an older codehub had it
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def container_config(
    spec: InstanceSpec, mount: Mount, ide: IdeProfile, labels: Mapping[str, str], stray: Mapping[str, str]
) -> dict[str, Any]:
    """Return the container to create.

    `stray` are the labels of the volume that Docker itself makes if the home is gone by then."""
    port = f"{ide.port}/tcp"
    mount_config = mount.config
    if mount.kind == "volume":
        # Nothing of the image's own /home/coder is copied into a home: a home holds only its user's files.
        mount_config["VolumeOptions"] = {"NoCopy": True, "Labels": dict(stray)}
    resources = spec.resources
    memory = resources.memory_mb << 20
    config: dict[str, Any] = {
        "Image": spec.image_ref,
        "User": f"{UID}:{UID}",
        "WorkingDir": HOME,
        "Hostname": "workspace",
        "Env": [
            *(f"HOME={HOME}", "USER=coder", "LOGNAME=coder", f"CODEHUB_WORKSPACE={spec.workspace_id}"),
            *(f"{name}={value}" for name, value in spec.environment),
        ],
        "Labels": dict(labels),
        "ExposedPorts": {port: {}},
        "HostConfig": {
            "Mounts": [mount_config],
            "NetworkMode": NETWORK,
            "PortBindings": {port: [{"HostIp": LOOPBACK, "HostPort": ""}]},
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": int(resources.cpus * 1e9),
            "PidsLimit": resources.pids,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "Init": True,
            "RestartPolicy": {"Name": "no"},
            "LogConfig": _LOG,
        },
    }
    if ide.image_args is not None:
        config["Cmd"] = expand(ide.image_args, mount=mount_of(spec.workspace_id), home=HOME)
    return config


def parse_inspection(answer: Mapping[str, Any]) -> Container:
    """Parse the answer to an inspection."""
    state = answer["State"]
    bindings = answer["NetworkSettings"].get("Ports") or {}
    ports = [
        (binding["HostIp"], int(binding["HostPort"]))
        for port_bindings in bindings.values()
        for binding in port_bindings or ()
    ]
    published = next((name for name, port_bindings in bindings.items() if port_bindings), None)
    return Container(
        answer["Id"],
        state["Status"] == "running",
        answer["Config"].get("Labels") or {},
        _on_loopback(ports),
        _time(state.get("StartedAt")),
        is_new=state["Status"] == "created",
        has_ended=state["Status"] in _ENDED,
        exit_code=state.get("ExitCode") if state["Status"] in _ENDED else None,
        ide_port=None if published is None else int(published.partition("/")[0]),
    )


def parse_list_entry(entry: Mapping[str, Any]) -> Container:
    """Parse one entry of a list of containers."""
    ports = [
        (port["IP"], port["PublicPort"])
        for port in entry.get("Ports") or ()
        if "PublicPort" in port and "IP" in port
    ]
    return Container(
        entry["Id"],
        entry["State"] == "running",
        entry.get("Labels") or {},
        _on_loopback(ports),
        has_ended=entry["State"] in _ENDED,
    )


def parse_stats(stats: Mapping[str, Any] | None) -> ResourceUse | None:
    """Parse what a container uses. Its file cache is not counted, as in Docker's own figures."""
    memory = (stats or {}).get("memory_stats") or {}
    if stats is None or "usage" not in memory:
        return None
    detail = memory.get("stats") or {}
    cache = detail.get("inactive_file", detail.get("total_inactive_file", 0))
    return ResourceUse((memory["usage"] - cache) >> 20, stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9)


def _on_loopback(ports: list[tuple[str, int]]) -> TcpUpstream | None:
    """Return the published port; one that is open beyond loopback is not from us, and is left out."""
    return next((TcpUpstream(host, port) for host, port in ports if host == LOOPBACK), None)


def _time(text: str | None) -> datetime | None:
    """Docker writes nanoseconds, and the year 1 for "never"."""
    if not text or text.startswith("0001"):
        return None
    return datetime.fromisoformat(text[:19] + "+00:00")
