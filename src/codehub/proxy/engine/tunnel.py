"""A tunnel's two ends: what comes in at one goes out at the other, with no Python between."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from codehub.proxy.engine.websocket import FrameReader

# What takes the bytes of one end of a tunnel.
Write = Callable[[bytes], None]


class Owner(Protocol):
    """The connection that became an end of a tunnel: everything but the bytes is still its business."""

    def eof_received(self) -> bool: ...

    def connection_lost(self, error: Exception | None, /) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Tunnel(asyncio.Protocol):
    """Takes a connection's place on its transport. `data_received` is the other's `write` itself."""

    __slots__ = ("data_received", "owner")

    def __init__(self, owner: Owner, data_received: Write) -> None:
        self.owner = owner
        # A slot: no frame of Python per message.
        self.data_received = data_received  # type: ignore[method-assign,assignment]

    def eof_received(self) -> bool:
        return self.owner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.owner.connection_lost(error)

    def pause_writing(self) -> None:
        self.owner.pause_writing()

    def resume_writing(self) -> None:
        self.owner.resume_writing()


class WatchedTunnel(Tunnel):
    """An end of a tunnel whose frames are told apart from now on: it is taken to begin between two."""

    __slots__ = ("_frames",)

    def __init__(self, tunnel: Tunnel) -> None:
        write, frames = tunnel.data_received, FrameReader()

        def write_and_read(data: bytes) -> None:
            write(data)
            frames.feed(data)

        super().__init__(tunnel.owner, write_and_read)
        self._frames = frames

    @property
    def is_between_frames(self) -> bool:
        return not self._frames.is_within
