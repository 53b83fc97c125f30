"""A client's line: what is written to it, whether it is read from, and how it ends. What is said on it is somebody else's business."""

import asyncio
from typing import cast


class Line(asyncio.Protocol):
    """A transport that may not be there yet, or no more: whatever is asked of it then is done already."""

    __slots__ = ("_reads", "_transport", "write", "writelines")

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reads = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.write = self._transport.write
        self.writelines = self._transport.writelines

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_over(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _close(self) -> None:
        """End it once everything that was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def _half_close(self) -> None:
        """Say that nothing more will be written; what comes in is still read."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def _pause_reading(self) -> None:
        if self._reads and self._transport is not None and not self._transport.is_closing():
            self._reads = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reads and self._transport is not None and not self._transport.is_closing():
            self._reads = True
            self._transport.resume_reading()
