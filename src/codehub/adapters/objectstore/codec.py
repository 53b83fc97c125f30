"""A tar stream goes in and zstd comes out, or the other way round.

Refuses what can't be unpacked, and what would not stay in a home.
"""

import hashlib
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import IO, Protocol, cast

import zstandard

from codehub.adapters.objectstore.meta import Content
from codehub.adapters.objectstore.scan import RefusedStream, TarScan
from codehub.ports.archives import Attribute

CHUNK_BYTES = 1 << 20
_LEVEL = 3
# Level 3 uses 2 MiB. A stream that needs much more is an attack on our memory.
_WINDOW_BYTES_MAX = 8 << 20
_CHUNKS_MAX = 4
# Its own pool: the callers that wait for it are threads of another pool.
_POOL = ThreadPoolExecutor(max_workers=128, thread_name_prefix="codehub-archive")


class Source(Protocol):
    """What a decompressor reads from."""

    def read(self, _size: int = -1) -> bytes: ...


class Packer:
    """Compresses on so many cores, on every one by default. Its memory is that of a few windows per core,
    whatever the home's size.
    """

    def __init__(self, refused: Collection[Attribute] = (), *, threads: int = -1) -> None:
        self._chunks = zstandard.ZstdCompressor(level=_LEVEL, threads=threads).chunker(chunk_size=CHUNK_BYTES)
        self._digest = hashlib.sha256()
        self.size = 0
        self.uncompressed_size = 0
        self.proof = Proof(TarScan(refused=refused))

    def pack(self, part: bytes) -> list[bytes]:
        self.uncompressed_size += len(part)
        return self._count(self._chunks.compress(part))

    def finish(self) -> list[bytes]:
        """Return the last parts, when everything that came out was unpacked again. Raises RefusedStream."""
        packed = self._count(self._chunks.finish())  # type: ignore[no-untyped-call]
        self.proof.finish()
        if self.proof.uncompressed_size != self.uncompressed_size:
            raise RefusedStream("it decompresses to something else")
        return packed

    @property
    def content(self) -> Content:
        """What was packed, once all of it was."""
        scan = self.proof.scan
        return Content(
            self._digest.hexdigest(), self.size, scan.members, self.uncompressed_size, scan.outward
        )

    def _count(self, chunks: Iterator[bytes]) -> list[bytes]:
        packed = list(chunks)
        for chunk in packed:
            self._digest.update(chunk)
            self.size += len(chunk)
            self.proof.offer(chunk)
        return packed


class Unpacker:
    """Yields a tar stream, every part of it scanned before. Refuses more than `size_max`."""

    def __init__(self, source: Source, scan: TarScan, size_max: int | None = None) -> None:
        self._scan = scan
        self._size_max = size_max
        self.uncompressed_size = 0
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
        # Reading a bounded amount at a time: a few bytes may decompress to any size.
        file = cast("IO[bytes]", source)  # all it asks of a file is `read`
        self._reader = decompressor.stream_reader(file, read_size=CHUNK_BYTES, read_across_frames=True)
        # Two in turn, for one is filled while the other is used: new ones each time would cost more than
        # decompressing.
        self._buffers = (bytearray(CHUNK_BYTES), bytearray(CHUNK_BYTES))

    def next_part(self) -> memoryview:
        """Return the next part, empty at a valid end. Valid until the next call but one.

        Raises RefusedStream.
        """
        self._buffers = self._buffers[::-1]
        try:
            length = self._reader.readinto(self._buffers[0])
        except zstandard.ZstdError as error:
            raise RefusedStream(f"it can't be decompressed ({error})") from None
        part = memoryview(self._buffers[0])[:length]
        self.uncompressed_size += length
        if self._size_max is not None and self.uncompressed_size > self._size_max:
            raise RefusedStream("it decompresses to more than its .meta says")
        if part:
            self._scan.feed(part)
        else:
            self._scan.finish()
        return part


class Proof:
    """Unpacks what was packed, beside the packing. What is read back later is the same if its checksum is."""

    def __init__(self, scan: TarScan) -> None:
        self.scan = scan
        self._chunks: Queue[bytes] = Queue(_CHUNKS_MAX)
        self._has_ended = False
        self._unpacker = Unpacker(self, self.scan)
        self._proof = _POOL.submit(self._prove)

    @property
    def uncompressed_size(self) -> int:
        return self._unpacker.uncompressed_size

    def offer(self, chunk: bytes) -> None:
        self._chunks.put(chunk)

    def finish(self) -> None:
        """Return when all that was offered was unpacked. Raises RefusedStream."""
        self._chunks.put(b"")
        self._proof.result()

    def abandon(self) -> None:
        """Return when the thread has ended, however far it came."""
        if not self._proof.done():
            self._chunks.put(b"")
        self._proof.exception()

    def read(self, _size: int = -1) -> bytes:
        chunk = self._chunks.get()
        self._has_ended = not chunk
        return chunk

    def _prove(self) -> None:
        try:
            while self._unpacker.next_part():
                pass
        finally:
            while not self._has_ended:  # the producer must not wait for a thread that has failed
                self.read()


class Download:
    """An object's parts as a file to read from: hashed and counted, one part ahead, so that they cost the
    reader no time.
    """

    def __init__(self, parts: Iterator[bytes], size_max: int) -> None:
        self._parts = parts
        self._size_max = size_max
        self._digest = hashlib.sha256()
        self.size = 0
        self._next_part = _POOL.submit(self._fetch)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def read(self, _size: int = -1) -> bytes:
        part = self._next_part.result()
        if part:
            self._next_part = _POOL.submit(self._fetch)
        return part

    def _fetch(self) -> bytes:
        part = next(self._parts, b"")
        self._digest.update(part)
        self.size += len(part)
        if self.size > self._size_max:
            raise RefusedStream("the object is longer than its .meta says")
        return part
