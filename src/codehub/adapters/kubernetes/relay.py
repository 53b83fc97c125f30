"""A Pod and a port of its loopback go in, a stream comes out. A program of its own image connects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.entry import Entry, enter
from codehub.adapters.kubernetes.pods import Pod
from codehub.adapters.relay_program import CONNECTED, REFUSED, RelayStream, relay_script
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import ByteStream, NothingListens


@asynccontextmanager
async def relay(client: KubernetesClient, pod: Pod, port: int) -> AsyncIterator[ByteStream]:
    """Connect. Raises NothingListens, or NotRunning if the Pod has ended meanwhile."""
    async with enter(client, pod) as entry:
        await entry.ready()
        await entry.run(relay_script(port))
        stream = _Stream(entry)
        answer = await stream.first_byte()
        if answer == REFUSED:
            raise NothingListens(port)
        if answer != CONNECTED:
            raise ActionFailed(Message(Code.NO_RELAY_PROGRAM))
        stream.has_begun = True
        yield stream


class _Stream(RelayStream):
    """Once it has begun it ends as a connection does, however the way to it is cut."""

    has_begun = False

    def __init__(self, entry: Entry) -> None:
        super().__init__(self._output, self._input)
        self._entry = entry

    async def _output(self) -> bytes:
        try:
            return await self._entry.read()
        except (ActionFailed, BackendUnreachable):
            if not self.has_begun:
                raise
            return b""

    async def _input(self, data: bytes) -> None:
        try:
            await self._entry.session.write(data)
        except BackendUnreachable as error:
            raise BrokenPipeError(str(error)) from None
