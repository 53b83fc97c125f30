"""The disk of a Docker engine: its free space, if this machine sees it, and what each workspace uses."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from codehub.adapters.docker.engine import INSTALL, WORKSPACE, DockerError, Engine, refusal
from codehub.adapters.filesystems import MB, free_mb
from codehub.adapters.threads import in_thread
from codehub.core.disk_space import DiskSpace
from codehub.ports.storage import Home
from codehub.ports.system import Clock

_HOME = re.compile(r"ws-(?P<workspace>[0-9a-f-]{36})-home")
# The engine measures everything it has for one request: a recent answer is good enough.
_FRESH_S = 20.0


class DockerDisk:
    """The Disk of a Docker engine. What a container writes outside its home counts for its workspace."""

    def __init__(self, engine: Engine, *, floor_mb: int, clock: Clock) -> None:
        self._engine = engine
        self._floor_mb = floor_mb
        self._clock = clock
        self._root: Path | None = None
        self._used_mb: Mapping[UUID, int] = {}
        self._measured_at = -_FRESH_S

    async def room(self) -> DiskSpace | None:
        if self._root is None:
            info = await self._engine.find("info")
            self._root = Path((info or {}).get("DockerRootDir") or "/nowhere")
        try:
            return DiskSpace(await in_thread(free_mb, self._root), self._floor_mb)
        except OSError:  # the engine runs on another machine, or its directory is not visible here
            return None

    async def bind(self, home: Home, most_mb: int) -> None:
        """Do nothing: Docker's volumes have no limit of their own."""

    async def used_mb(self, home: Home) -> int | None:
        if self._clock.monotonic() - self._measured_at >= _FRESH_S:
            self._used_mb = await self._measure_all()
            self._measured_at = self._clock.monotonic()
        return self._used_mb.get(home.workspace_id)

    async def _measure_all(self) -> Mapping[UUID, int]:
        try:
            usage = await self._engine.ask("GET", "system/df?type=volume&type=container", wait=True)
        except DockerError as error:
            raise refusal(error) from None
        used: defaultdict[UUID, int] = defaultdict(int)
        for volume in usage.get("Volumes") or ():
            match = _HOME.fullmatch(volume["Name"])
            size = (volume.get("UsageData") or {}).get("Size", -1)
            if match is not None and size >= 0 and self._is_ours(volume):
                used[UUID(match["workspace"])] += size
        for container in usage.get("Containers") or ():
            workspace = (container.get("Labels") or {}).get(WORKSPACE)
            if workspace is not None and self._is_ours(container):
                used[UUID(workspace)] += container.get("SizeRw") or 0
        return {workspace_id: size // MB for workspace_id, size in used.items()}

    def _is_ours(self, resource: Mapping[str, Mapping[str, str] | None]) -> bool:
        return (resource.get("Labels") or {}).get(INSTALL) == self._engine.installation
