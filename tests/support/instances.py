"""The platforms that the contract of instances is proved on:
each makes volumes, and can do harm to an instance.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from uuid import UUID

import httpx
from tests.support.patience import PATIENCE_S, until
from tests.support.workspaces import OWNER_ID

from codehub.adapters.local.installed_ides import InstalledIde, http_ide, python_installation
from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.memory.instances import MemoryInstances
from codehub.adapters.memory.storage import MemoryStorage
from codehub.adapters.processes import Process
from codehub.adapters.system.machine import SystemClock, SystemIdentity
from codehub.core.observation import Instance
from codehub.core.workspace import InstanceBackend, Resources, StorageBackend, home_key
from codehub.ports.instances import InstanceController, InstanceSpec, TcpUpstream, UnixUpstream
from codehub.ports.storage import Home

_SERVER = Path(__file__).with_name("ide_server.py")
_SYSTEM_PYTHON = Path("/usr/bin/python3")


class InstanceWorld(Protocol):
    """One platform. To join the contract, make one of these and name it in the fixture."""

    @property
    def instances(self) -> InstanceController: ...

    async def make_volume(self, spec: InstanceSpec) -> str:
        """Make the home of this workspace and return the volume's id."""

    async def identity(self, workspace_id: UUID) -> object:
        """Return what tells one instance of a workspace from the next."""

    async def fall_ill(self, workspace_id: UUID) -> None:
        """Let the IDE's health checks fail from now on."""

    async def die(self, workspace_id: UUID) -> None:
        """Let the IDE end by itself."""


def new_spec(**changes: object) -> InstanceSpec:
    workspace_id = changes.get("workspace_id") or SystemIdentity().new_id()
    assert isinstance(workspace_id, UUID)
    fields: dict[str, object] = {
        "workspace_id": workspace_id,
        "storage_backend": StorageBackend.LOCAL_DIR,
        "home_store_key": home_key(
            InstanceBackend.LOCAL_PROCESS, StorageBackend.LOCAL_DIR, OWNER_ID, workspace_id
        ),
        "image_ref": "codehub-test/light",
        "ide": "http",
        "resources": Resources(memory_mb=512, cpus=1.0, pids=128),
    }
    return InstanceSpec(**(fields | changes))  # type: ignore[arg-type]


async def become_healthy(instances: InstanceController, workspace_id: UUID) -> None:
    async def is_healthy() -> bool:
        observation = await instances.status(workspace_id)
        return observation is not None and observation.running and observation.healthy

    await until(is_healthy)


async def are_listed(instances: InstanceController, wanted: Mapping[UUID, Instance]) -> None:
    """Wait until these are listed and no others: one that is asked
    while the machine stands still does not answer in time.
    """

    async def is_so() -> bool:
        return await instances.list_all() == wanted

    await until(is_so)


async def post_to(instances: InstanceController, workspace_id: UUID, target: str, body: str = "") -> str:
    """Post to an instance that listens on a port, and return its answer; nothing if that has ended it."""
    upstream = await instances.resolve_upstream(workspace_id)
    assert isinstance(upstream, TcpUpstream)
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        try:
            answer = await client.post(f"http://{upstream.host}:{upstream.port}{target}", content=body)
        except (httpx.RemoteProtocolError, httpx.NetworkError):
            return ""
        return answer.text


def command_of(process: Process) -> bytes:
    """Return its command line; nothing if it has ended meanwhile."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class MemoryWorld:
    def __init__(self) -> None:
        self.storage = MemoryStorage(now=lambda: datetime.now(UTC), identity=SystemIdentity())
        self.instances = MemoryInstances(self.storage, clock=SystemClock())

    async def make_volume(self, spec: InstanceSpec) -> str:
        return await self.storage.provision(Home(spec.workspace_id, spec.home_store_key))

    async def identity(self, workspace_id: UUID) -> object:
        return self.instances.started.count(workspace_id)

    async def fall_ill(self, workspace_id: UUID) -> None:
        self.instances.sicken(workspace_id)

    async def die(self, workspace_id: UUID) -> None:
        self.instances.kill(workspace_id)


class LocalWorld:
    """A data directory with homes, and the instances that run on them."""

    def __init__(
        self,
        base: Path,
        *,
        sandbox: bool = True,
        install_id: str = "",
        ides: Mapping[str, InstalledIde] | None = None,
    ) -> None:
        self.data_dir = base / "data"
        self.install_id = install_id or str(SystemIdentity().new_id())
        self.ides = ides or {"http": server_profile(base / "ide")}
        self.sandbox = sandbox
        self.instances = self.controller()

    def controller(self) -> LocalInstances:
        """Return another controller of the same instances, as another process would have."""
        return LocalInstances(
            self.data_dir / "run" / "instances",
            self.install_id,
            self.home_of,
            self.ides,
            clock=SystemClock(),
            hidden=self.data_dir,
            sandbox=self.sandbox,
        )

    async def home_of(self, spec: InstanceSpec) -> tuple[Path, str | None]:
        home = self.home(spec.workspace_id)
        label = home.with_name(f"{home.name}.volume")
        return home, label.read_text() if label.exists() else None

    def home(self, workspace_id: UUID) -> Path:
        return self.data_dir / "homes" / str(workspace_id)

    async def make_volume(self, spec: InstanceSpec) -> str:
        home = self.home(spec.workspace_id)
        home.parent.mkdir(exist_ok=True, mode=0o711)
        home.mkdir(mode=0o700)
        volume_id = f"volume of {spec.workspace_id}"
        home.with_name(f"{home.name}.volume").write_text(volume_id)
        return volume_id

    async def run(self, spec: InstanceSpec | None = None) -> UUID:
        """Bring a workspace up on a volume of its own."""
        spec = spec or new_spec()
        await self.instances.start(spec, await self.make_volume(spec))
        await become_healthy(self.instances, spec.workspace_id)
        return spec.workspace_id

    async def identity(self, workspace_id: UUID) -> object:
        # Of what is written before anything is started: whoever asks at once is told as well.
        record = self.instances.run_directory.of(workspace_id).record.stat()
        return record.st_ino, record.st_mtime_ns

    async def fall_ill(self, workspace_id: UUID) -> None:
        await self.post(workspace_id, "/ill")

    async def die(self, workspace_id: UUID) -> None:
        await self.post(workspace_id, "/die")

    async def inside(self, workspace_id: UUID, command: str) -> str:
        """Run a command as a person in the workspace's terminal would, and return what it says."""
        answer = await self.post(workspace_id, "/", command)
        return answer.partition(b"\r\n\r\n")[2].decode()

    async def post(self, workspace_id: UUID, target: str, body: str = "") -> bytes:
        upstream = await self.instances.resolve_upstream(workspace_id)
        assert isinstance(upstream, UnixUpstream)
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_unix_connection(upstream.path)
            data = body.encode()
            writer.write(f"POST {target} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            answer = await reader.read()
            writer.close()
            return answer


@asynccontextmanager
async def local_world(
    *, sandbox: bool = True, ides: Mapping[str, InstalledIde] | None = None
) -> AsyncIterator[LocalWorld]:
    """A world in a directory that others may enter, because without a sandbox they must."""
    base = _enterable_directory()
    world = LocalWorld(base, sandbox=sandbox, ides=ides)
    await world.instances.open()
    try:
        yield world
    finally:
        await world.instances.stop_all(grace_s=0.5)
        await world.instances.close()
        shutil.rmtree(base)


def _enterable_directory() -> Path:
    base = Path(tempfile.mkdtemp(prefix="codehub-instances-"))
    base.chmod(0o711)
    (base / "data").mkdir(mode=0o711)
    return base


def server_profile(place: Path, python: Path | None = None) -> InstalledIde:
    """The test server, from a copy in `place`, run by the system's
    Python where there is one: any user can reach that.
    """
    place.mkdir(exist_ok=True, mode=0o755)
    script = Path(shutil.copy(_SERVER, place))
    script.chmod(0o644)
    chosen = python or (_SYSTEM_PYTHON if _SYSTEM_PYTHON.exists() else Path(sys.executable))
    return http_ide([str(chosen), "-I", "-S", str(script)], visible=[*python_installation(chosen), place])
