"""What the engine needs from whoever runs it: time, tasks, randomness, and the addresses of servers."""

import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Return after at least this long."""


class Task(Protocol):
    def cancel(self) -> object: ...


class Tasks(Protocol):
    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> Task:
        """Start `work` beside the caller."""


class Randomness(Protocol):
    def token(self) -> str:
        """Return an unguessable word that is safe in a header."""


class TcpAddress(Protocol):
    """A port of a server. Two of the same host and port are equal, and hash alike."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


@runtime_checkable
class UnixAddress(Protocol):
    """A unix socket of a server. Two of the same path are equal, and hash alike."""

    @property
    def path(self) -> Path: ...


@runtime_checkable
class DialAddress(Protocol):
    """A server that whoever runs the engine connects to. Two of the same server are equal, and hash alike."""

    async def dial(self) -> socket.socket:
        """Return our end of a pair of connected unix sockets, whose other end leads to the server.

        It is the caller's to close, and that ends the way there. Raises OSError.
        """


Address = TcpAddress | UnixAddress | DialAddress
