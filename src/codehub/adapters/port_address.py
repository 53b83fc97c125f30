"""A port inside a workspace as an address: what is sent to it goes through a relay of its platform.

The pair of sockets between is what the engine knows how to serve; whoever sends faster than the other side
takes is held up, either way.
"""

import asyncio
import errno
import select
import socket
from contextlib import suppress
from uuid import UUID

import structlog

from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import ByteStream, InstanceAccess
from codehub.ports.system import Tasks

log = structlog.get_logger()

_PART_BYTES = 1 << 16
CONNECTIONS_MAX = 200
"""To one port: each is a process of the platform's, whoever asks for it."""
_REFUSED_S = 1.0
"""So long nobody is asked again: strangers may ask often, and each time something would be started."""
_HALF_CLOSED_S_MAX = 20.0
"""Longer than the engine itself leaves a direction open when the other has ended."""


class PortAddress:
    """Two of the same workspace and port are equal: they lead to the same server."""

    __slots__ = (
        "__weakref__",
        "_access",
        "_open",
        "_refused_at",
        "_tasks",
        "port",
        "refusal",
        "workspace_id",
    )

    def __init__(self, access: InstanceAccess, workspace_id: UUID, port: int, tasks: Tasks) -> None:
        self._access = access
        self._tasks = tasks
        self.workspace_id = workspace_id
        self.port = port
        self.refusal: ActionFailed | BackendUnreachable | None = None
        """Why the last dial came to nothing."""
        self._refused_at = -_REFUSED_S
        self._open = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PortAddress) and (self.workspace_id, self.port) == (
            other.workspace_id,
            other.port,
        )

    def __hash__(self) -> int:
        return hash((self.workspace_id, self.port))

    async def dial(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        if self.refusal is not None and loop.time() - self._refused_at < _REFUSED_S:
            raise ConnectionRefusedError(errno.ECONNREFUSED, str(self.refusal))
        if self._open >= CONNECTIONS_MAX:
            raise ConnectionRefusedError(errno.EAGAIN, "too many connections to one port")
        dialled: asyncio.Future[socket.socket] = loop.create_future()
        # A task of its own: it lasts as long as the connection does.
        carrying = self._tasks.spawn(self._carry(dialled), name="port")
        try:
            return await dialled
        except BaseException:
            carrying.cancel()
            if dialled.done() and not dialled.cancelled() and dialled.exception() is None:
                dialled.result().close()
            raise

    async def _carry(self, dialled: "asyncio.Future[socket.socket]") -> None:
        """Connect, hand one end of the pair out, and carry bytes until both directions are at their end."""
        self._open += 1
        try:
            async with self._access.relay(self.workspace_id, self.port) as stream:
                self.refusal = None
                ours, theirs = socket.socketpair()
                with ours:
                    ours.setblocking(False)
                    theirs.setblocking(False)
                    if dialled.done():  # nobody waits for it any more
                        theirs.close()
                        return
                    dialled.set_result(theirs)
                    await _exchange(ours, stream)
        except (ActionFailed, BackendUnreachable) as failed:
            if dialled.done():
                log.warning(
                    "port_lost", workspace_id=str(self.workspace_id), port=self.port, reason=str(failed)
                )
            else:
                self.refusal, self._refused_at = failed, asyncio.get_running_loop().time()
                dialled.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, str(failed)))
        except Exception as failed:
            log.exception("port_failed", workspace_id=str(self.workspace_id), port=self.port)
            if not dialled.done():
                dialled.set_exception(OSError(str(failed)))
        finally:
            self._open -= 1
            if not dialled.done():
                dialled.cancel()


async def _exchange(ours: socket.socket, stream: ByteStream) -> None:
    """Carry bytes both ways until the server has ended its side, or the engine has closed its end."""
    up = asyncio.create_task(_carry_up(ours, stream))
    down = asyncio.create_task(_carry_down(stream, ours))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if not up.done():
            await asyncio.wait({up})
        elif not down.done() and not _is_closed(ours):
            await asyncio.wait({down}, timeout=_HALF_CLOSED_S_MAX)
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _carry_up(ours: socket.socket, stream: ByteStream) -> None:
    """Until the engine has ended its side, or closed it."""
    loop, is_taken = asyncio.get_running_loop(), True
    with suppress(OSError):
        while data := await loop.sock_recv(ours, _PART_BYTES):
            try:
                if is_taken:
                    await stream.write(data)
            except BrokenPipeError:  # it reads no more, and may be answering all the same
                is_taken = False
        await stream.close()


async def _carry_down(stream: ByteStream, ours: socket.socket) -> None:
    """Until the server has ended its side, or nobody takes what it says."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await stream.read():
            await loop.sock_sendall(ours, data)
        ours.shutdown(socket.SHUT_WR)


def _is_closed(ours: socket.socket) -> bool:
    """Whether the other end is closed, rather than at the end of what it says."""
    poll = select.poll()
    poll.register(ours, select.POLLHUP)
    return bool(poll.poll(0))
