"""A spec goes in, the container that Docker is to make comes out, and a container's answer goes in, what we want to know comes out. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.core.ides import IdeProfile, expand
from codehub.core.route import mount_of
from codehub.ports.disks import Spent
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
    def words(self) -> dict[str, Any]:
        return {"Type": self.kind, "Source": self.source, "Target": HOME}


@dataclass(frozen=True, slots=True)
class Container:
    """What the engine says of an instance."""

    id: str
    running: bool
    labels: Mapping[str, str]
    upstream: TcpUpstream | None
    started_at: datetime | None = None
    is_new: bool = False
    """Made, and not started yet."""
    has_ended: bool = False
    exit_code: int | None = None
    """What it ended with, if it has; a list does not say."""


def container_name(workspace_id: UUID) -> str:
    return f"codehub-ws-{workspace_id}"


def fingerprint(spec: InstanceSpec, mount: Mount) -> str:
    """Return what tells a container of this spec from one of another."""
    said = [_FORMAT, spec.image_ref, spec.ide, asdict(spec.resources), asdict(mount)]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def container_config(
    spec: InstanceSpec, mount: Mount, ide: IdeProfile, labels: Mapping[str, str], stray: Mapping[str, str]
) -> dict[str, Any]:
    """Return what to create. `stray` are the labels of a volume that Docker would make of itself if the home is gone by then."""
    port = f"{ide.port}/tcp"
    mounted = mount.words
    if mount.kind == "volume":
        # Nothing of the image's own /home/coder is copied into a home: a home is what its person made of it.
        mounted["VolumeOptions"] = {"NoCopy": True, "Labels": dict(stray)}
    resources = spec.resources
    memory = resources.memory_mb << 20
    config: dict[str, Any] = {
        "Image": spec.image_ref,
        "User": f"{UID}:{UID}",
        "WorkingDir": HOME,
        "Hostname": "workspace",
        "Env": [f"HOME={HOME}", "USER=coder", "LOGNAME=coder", f"CODEHUB_WORKSPACE={spec.workspace_id}"],
        "Labels": dict(labels),
        "ExposedPorts": {port: {}},
        "HostConfig": {
            "Mounts": [mounted],
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


def inspected(said: Mapping[str, Any]) -> Container:
    """Read the answer to an inspection."""
    state = said["State"]
    bindings = (said["NetworkSettings"].get("Ports") or {}).values()
    ports = [(each["HostIp"], int(each["HostPort"])) for found in bindings for each in found or ()]
    return Container(
        said["Id"],
        state["Status"] == "running",
        said["Config"].get("Labels") or {},
        _on_loopback(ports),
        _time(state.get("StartedAt")),
        is_new=state["Status"] == "created",
        has_ended=state["Status"] in _ENDED,
        exit_code=state.get("ExitCode") if state["Status"] in _ENDED else None,
    )


def listed(said: Mapping[str, Any]) -> Container:
    """Read one entry of a list."""
    ports = [
        (port["IP"], port["PublicPort"])
        for port in said.get("Ports") or ()
        if "PublicPort" in port and "IP" in port
    ]
    return Container(
        said["Id"],
        said["State"] == "running",
        said.get("Labels") or {},
        _on_loopback(ports),
        has_ended=said["State"] in _ENDED,
    )


def spent(said: Mapping[str, Any] | None) -> Spent | None:
    """Read what a container takes: what it could give back (its cache) is not counted, as Docker itself does not."""
    memory = (said or {}).get("memory_stats") or {}
    if said is None or "usage" not in memory:
        return None
    detail = memory.get("stats") or {}
    cache = detail.get("inactive_file", detail.get("total_inactive_file", 0))
    return Spent((memory["usage"] - cache) >> 20, said["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9)


def _on_loopback(ports: list[tuple[str, int]]) -> TcpUpstream | None:
    """A port that is open to others is none that we asked for."""
    return next((TcpUpstream(host, port) for host, port in ports if host == LOOPBACK), None)


def _time(written: str | None) -> datetime | None:
    """Docker writes nanoseconds, and the year 1 for "never"."""
    if not written or written.startswith("0001"):
        return None
    return datetime.fromisoformat(written[:19] + "+00:00")
