"""The disk that an engine keeps volumes and containers on: its room where this machine sees it, and what the engine says each uses."""

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
# The engine adds up everything it has for one question: what it has said lately is good enough.
_FRESH_S = 20.0


class DockerDisk:
    """The Disk of a Docker engine. What a container writes beside its home counts as its workspace's."""

    def __init__(self, engine: Engine, *, floor_mb: int, clock: Clock) -> None:
        self._engine = engine
        self._floor_mb = floor_mb
        self._clock = clock
        self._root: Path | None = None
        self._said: Mapping[UUID, int] = {}
        self._said_at = -_FRESH_S

    async def room(self) -> DiskSpace | None:
        if self._root is None:
            said = await self._engine.find("info")
            self._root = Path((said or {}).get("DockerRootDir") or "/nowhere")
        try:
            return DiskSpace(await in_thread(free_mb, self._root), self._floor_mb)
        except OSError:  # the engine is another machine's, or its directory is hidden from us
            return None

    async def bind(self, home: Home, most_mb: int) -> None:
        """Docker's own volumes have no size that it would keep."""

    async def used_mb(self, home: Home) -> int | None:
        if self._clock.monotonic() - self._said_at >= _FRESH_S:
            self._said = await self._all()
            self._said_at = self._clock.monotonic()
        return self._said.get(home.workspace_id)

    async def _all(self) -> Mapping[UUID, int]:
        try:
            said = await self._engine.ask("GET", "system/df?type=volume&type=container", wait=True)
        except DockerError as error:
            raise refusal(error) from None
        used: defaultdict[UUID, int] = defaultdict(int)
        for volume in said.get("Volumes") or ():
            found = _HOME.fullmatch(volume["Name"])
            size = (volume.get("UsageData") or {}).get("Size", -1)
            if found is not None and size >= 0 and self._is_ours(volume):
                used[UUID(found["workspace"])] += size
        for container in said.get("Containers") or ():
            workspace = (container.get("Labels") or {}).get(WORKSPACE)
            if workspace is not None and self._is_ours(container):
                used[UUID(workspace)] += container.get("SizeRw") or 0
        return {one: size // MB for one, size in used.items()}

    def _is_ours(self, said: Mapping[str, Mapping[str, str] | None]) -> bool:
        return (said.get("Labels") or {}).get(INSTALL) == self._engine.installation
