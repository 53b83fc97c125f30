"""Descriptors and connections go in, streams of bytes with back-pressure
come out. Little is kept: what nobody reads waits where it is.
"""

import asyncio
import os
from collections import deque
from contextlib import suppress

PART_BYTES = 1 << 16
_KEPT_BYTES_MAX = 1 << 18


class BoundedPipe:
    """A pipe in memory: whoever writes waits while much is unread."""

    def __init__(self) -> None:
        self._parts: deque[bytes] = deque()
        self._kept_bytes = 0
        self._is_ended = False
        self._is_abandoned = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        while not self._parts and not self._is_ended:
            await self._wait()
        if not self._parts:
            return b""
        part = self._parts.popleft()
        self._kept_bytes -= len(part)
        self._notify()
        return part

    def put_back(self, data: bytes) -> None:
        """Have it read first, again."""
        if data:
            self._parts.appendleft(data)
            self._kept_bytes += len(data)

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), PART_BYTES):
            while self._kept_bytes >= _KEPT_BYTES_MAX and not self._is_abandoned and not self._is_ended:
                await self._wait()
            if self._is_abandoned or self._is_ended:
                raise BrokenPipeError
            part = data[at : at + PART_BYTES]
            self._parts.append(part)
            self._kept_bytes += len(part)
            self._notify()

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """End it for its reader, who still gets what is kept."""
        self._is_ended = True
        self._notify()

    def abandon(self) -> None:
        """End it for its writer: nobody will read."""
        self._is_abandoned = True
        self._notify()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()


class NoBytes:
    """The error output of a command on a terminal: none."""

    async def read(self) -> bytes:
        return b""


class _Descriptor:
    """A descriptor that is ours to close, and whoever waits for it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting: asyncio.Future[None] | None = None
        os.set_blocking(fd, False)

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def release(self) -> None:
        """Close it. Whoever still waits is told that it has ended."""
        if self.is_open:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._fd)
            loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._wake()

    async def _until_ready(self, *, to_write: bool) -> None:
        loop = asyncio.get_running_loop()
        fd = self._fd
        self._waiting = loop.create_future()
        (loop.add_writer if to_write else loop.add_reader)(fd, self._wake)
        try:
            await self._waiting
        finally:
            if self._fd == fd:
                (loop.remove_writer if to_write else loop.remove_reader)(fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class DescriptorSource(_Descriptor):
    """Our end of a pipe or a terminal, to read."""

    async def read(self) -> bytes:
        while self.is_open:
            try:
                return os.read(self._fd, PART_BYTES)
            except BlockingIOError:
                await self._until_ready(to_write=False)
            except OSError:
                break  # a terminal that nobody has open any more
        return b""


class DescriptorSink(_Descriptor):
    """Our end of a pipe or a terminal, to write. Closing a terminal's ends nothing: only its reader can."""

    def __init__(self, fd: int, *, is_terminal: bool = False) -> None:
        super().__init__(fd)
        self._is_terminal = is_terminal
        self._lock = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        async with self._lock:
            while view:
                if not self.is_open:
                    raise BrokenPipeError
                try:
                    view = view[os.write(self._fd, view[:PART_BYTES]) :]
                except BlockingIOError:
                    await self._until_ready(to_write=True)
                except OSError:
                    raise BrokenPipeError from None

    async def close(self) -> None:
        if not self._is_terminal:
            async with self._lock:
                self.release()


class ConnectionStream:
    """A connection of the event loop, both ways."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(PART_BYTES)
        except OSError:
            return b""  # the other side has torn it down

    async def write(self, data: bytes) -> None:
        await write_all(self._writer, data)

    async def close(self) -> None:
        with suppress(OSError, RuntimeError):  # it has gone already
            self._writer.write_eof()


async def write_all(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write to a connection, part by part. Raises BrokenPipeError if it is closed."""
    try:
        for at in range(0, len(data), PART_BYTES):
            if writer.is_closing():
                raise BrokenPipeError
            writer.write(data[at : at + PART_BYTES])
            await writer.drain()
    except OSError as error:
        raise BrokenPipeError(str(error)) from None
    except RuntimeError:  # after its end was written
        raise BrokenPipeError from None
