"""A client's transport: what is written to it, whether it is read from, and how it ends.

What the bytes mean is somebody else's business.
"""

import asyncio
from collections.abc import Callable
from typing import cast


class ClientTransport(asyncio.Protocol):
    """A transport that may not be there yet, or no more: whatever is asked of it then is done already."""

    __slots__ = (
        "_ahead_bytes_max",
        "_buffer",
        "_held",
        "_is_busy",
        "_reads",
        "transport",
        "write",
        "writelines",
    )

    def __init__(self, ahead_bytes_max: int) -> None:
        self.transport: asyncio.Transport | None = None
        self._ahead_bytes_max = ahead_bytes_max
        self._buffer = b""  # what came before its turn
        self._held = False  # nobody takes more of it for now
        self._is_busy = False  # what has come is not all read yet
        self._reads = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.write = self.transport.write
        self.writelines = self.transport.writelines

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    @property
    def _is_over(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def _close(self) -> None:
        """End it once everything that was written has gone out."""
        if self.transport is not None:
            self.transport.close()

    def half_close(self) -> None:
        """Say that nothing more will be written; what comes in is still read."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def _later(self, go_on: Callable[[], None]) -> None:
        """Go on in the next turn of the event loop, and read nothing until then."""

        def its_turn() -> None:
            self._is_busy = False
            go_on()
            self._read_on()

        self._is_busy = True
        self._read_on()
        asyncio.get_running_loop().call_soon(its_turn)

    def _read_on(self) -> None:
        """Read from it, unless nobody takes more for now.

        Nor while what has come is not all read yet, or enough has come before its turn.
        """
        reads = not self._held and not self._is_busy and len(self._buffer) <= self._ahead_bytes_max
        if reads is self._reads or self.transport is None or self.transport.is_closing():
            return
        self._reads = reads
        if reads:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
