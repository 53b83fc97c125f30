"""A tunnel's two ends: what comes in at one goes out at the other, with no Python between."""

import asyncio
from collections.abc import Callable
from typing import Protocol

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

    __slots__ = ("_owner", "data_received")

    def __init__(self, owner: Owner, data_received: Write) -> None:
        self._owner = owner
        # A slot: no frame of Python per message.
        self.data_received = data_received  # type: ignore[method-assign,assignment]

    def eof_received(self) -> bool:
        return self._owner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.connection_lost(error)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
