"""A container and a port of its loopback go in, a stream comes out, whatever image it runs.

A helper container in the network of the instance connects: one for as long as it
is used and a while longer, and a program of its own for each connection. The
helper's input is a leash: it ends with codehub, however that ends.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from codehub.adapters.byte_streams import PART_BYTES, write_all
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, refusal
from codehub.adapters.docker.frames import HEADER, STDOUT
from codehub.adapters.docker.hijack import hijack
from codehub.adapters.docker.images import pull
from codehub.adapters.docker.unremovable import discard
from codehub.adapters.relay_program import CONNECTED, PERL, REFUSED, RelayStream
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed
from codehub.ports.instance_access import ByteStream, NothingListens, NotRunning
from codehub.ports.storage import ignore_progress
from codehub.ports.system import Clock

ROLE_RELAY = "relay"
_IDLE_S = 30.0
_MEMORY = 128 << 20
_PIDS = 512
_NOBODY = "65534:65534"


@dataclass
class _Helper:
    """One helper that runs, and how many use it."""

    id: str
    held: AsyncExitStack
    users: int = 0
    idle_since: float = 0.0


@dataclass
class Relays:
    """The helpers of one codehub, by the container whose network
    they are in. On one event loop, until `close`.
    """

    engine: Engine
    image: str
    clock: Clock
    _helpers: dict[str, _Helper] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ending: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, container_id: str, port: int) -> AsyncIterator[ByteStream]:
        """Connect. Raises NothingListens, or NotRunning if the container has ended meanwhile."""
        try:
            helper = await self._helper(workspace_id, container_id)
        except DockerError as error:
            if error.status in (NOT_FOUND, CONFLICT):
                raise NotRunning from None
            raise refusal(error) from None
        helper.users += 1
        try:
            async with self._connect(helper, port) as stream:
                yield stream
        except DockerError as error:
            self._helpers.pop(container_id, None)  # it has ended; the next one is new
            raise refusal(error) from None
        finally:
            helper.users -= 1
            helper.idle_since = self.clock.monotonic()

    async def close(self) -> None:
        """End all helpers."""
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
        async with self._lock:
            while self._helpers:
                await self._helpers.popitem()[1].held.aclose()

    @asynccontextmanager
    async def _connect(self, helper: _Helper, port: int) -> AsyncIterator[ByteStream]:
        body = {
            "AttachStdin": True,
            "AttachStdout": True,
            "AttachStderr": False,
            "Tty": False,
            "Cmd": ["perl", "-e", PERL, str(port)],
        }
        exec_id = (await self.engine.ask("POST", f"containers/{helper.id}/exec", body=body))["Id"]
        start = f"exec/{exec_id}/start"
        async with hijack(self.engine, start, {"Detach": False, "Tty": False}) as (reader, writer):
            stream = RelayStream(_Output(reader).read, lambda data: write_all(writer, data))
            answer = await stream.first_byte()
            if answer == REFUSED:
                raise NothingListens(port)
            if answer != CONNECTED:
                raise ActionFailed(Message(Code.HELPER_NOT_CONNECTED, {"image": self.image}))
            yield stream

    async def _helper(self, workspace_id: UUID, container_id: str) -> _Helper:
        async with self._lock:
            helper = self._helpers.get(container_id)
            if helper is None:
                helper = self._helpers[container_id] = await self._start(workspace_id, container_id)
            helper.idle_since = self.clock.monotonic()
            if self._ending is None:
                self._ending = asyncio.create_task(self._end_idle())
            return helper

    async def _start(self, workspace_id: UUID, container_id: str) -> _Helper:
        async with AsyncExitStack() as stack:
            helper_id = await self._create(workspace_id, container_id)
            stack.push_async_callback(discard, self.engine, helper_id)
            path = f"containers/{helper_id}/attach?stream=1&stdin=1"
            await stack.enter_async_context(hijack(self.engine, path, {}))
            await self.engine.ask("POST", f"containers/{helper_id}/start")
            return _Helper(helper_id, stack.pop_all())

    async def _create(self, workspace_id: UUID, container_id: str) -> str:
        config = {
            "Image": self.image,
            "User": _NOBODY,
            "Entrypoint": ["/bin/cat"],
            "Cmd": [],
            "Labels": self.engine.labels(workspace_id, ROLE_RELAY),
            "OpenStdin": True,
            "StdinOnce": True,
            "HostConfig": {
                "NetworkMode": f"container:{container_id}",
                "AutoRemove": True,
                "Init": True,
                "ReadonlyRootfs": True,
                "Memory": _MEMORY,
                "PidsLimit": _PIDS,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges:true"],
                "LogConfig": {"Type": "none"},
            },
        }
        try:
            answer = await self.engine.ask("POST", "containers/create", body=config)
        except DockerError as error:
            if error.status != NOT_FOUND or "No such image" not in error.message:
                raise
            await pull(self.engine, self.image, ignore_progress)
            answer = await self.engine.ask("POST", "containers/create", body=config)
        return str(answer["Id"])

    async def _end_idle(self) -> None:
        while True:
            await self.clock.sleep(_IDLE_S)
            async with self._lock:
                for container_id, helper in list(self._helpers.items()):
                    is_idle = self.clock.monotonic() - helper.idle_since >= _IDLE_S
                    if not helper.users and is_idle:
                        del self._helpers[container_id]
                        await helper.held.aclose()


class _Output:
    """What a program writes, taken from the engine's frames."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._frame_bytes = 0

    async def read(self) -> bytes:
        """Return some of it, b"" at its end, however that came."""
        try:
            while not self._frame_bytes:
                kind, self._frame_bytes = HEADER.unpack(await self._reader.readexactly(HEADER.size))
                if kind != STDOUT:
                    await self._reader.readexactly(self._frame_bytes)
                    self._frame_bytes = 0
            data = await self._reader.read(min(PART_BYTES, self._frame_bytes))
        except (OSError, asyncio.IncompleteReadError):
            return b""
        self._frame_bytes -= len(data)
        return data
