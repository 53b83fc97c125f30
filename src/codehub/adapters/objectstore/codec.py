"""A tar stream goes in and zstd comes out, or the other way round; both are hashed and counted, and what comes out is scanned."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, cast

import zstandard

from codehub.adapters.objectstore.meta import Meta
from codehub.adapters.objectstore.scan import Refused, TarScan

CHUNK_BYTES = 1 << 20
_LEVEL = 3
# Level 3 uses 2 MiB. Whoever asks for more wants our memory.
_WINDOW_BYTES_MAX = 8 << 20


class Packer:
    """Compresses on every core. Its memory is that of a few windows per core, whatever the home's size."""

    def __init__(self) -> None:
        self._chunks = zstandard.ZstdCompressor(level=_LEVEL, threads=-1).chunker(chunk_size=CHUNK_BYTES)
        self._digest = hashlib.sha256()
        self.size = 0
        self.uncompressed_size = 0

    def pack(self, part: bytes) -> list[bytes]:
        self.uncompressed_size += len(part)
        return self._counted(self._chunks.compress(part))

    def finish(self) -> list[bytes]:
        return self._counted(self._chunks.finish())  # type: ignore[no-untyped-call]

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def _counted(self, chunks: Iterator[bytes]) -> list[bytes]:
        packed = list(chunks)
        for chunk in packed:
            self._digest.update(chunk)
            self.size += len(chunk)
        return packed


@dataclass
class Unpacker:
    """Yields the tar stream of a download, every part of it scanned before. Refuses more than `meta` allows, and less."""

    stream: Iterator[bytes]
    meta: Meta
    scan: TarScan
    size: int = 0
    uncompressed_size: int = 0
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        unzip = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
        # Reading a bounded amount at a time: what a few bytes may become has no bound.
        source = cast("IO[bytes]", self)  # all it asks of a file is `read`
        self._reader = unzip.stream_reader(source, read_size=CHUNK_BYTES, read_across_frames=True)

    def read(self, _size: int = -1) -> bytes:
        """Hand the next part of the download to the decompressor."""
        part = bytes(next(self.stream, b""))
        self._digest.update(part)
        self.size += len(part)
        if self.size > self.meta.size:
            raise Refused("the object is longer than its .meta says")
        return part

    def next_part(self) -> bytes:
        """Return the next part of the tar stream, or nothing when it has ended well. Raises Refused."""
        try:
            part = self._reader.read(CHUNK_BYTES)
        except zstandard.ZstdError as error:
            raise Refused(f"it can't be decompressed ({error})") from None
        if not part:
            self._finish()
            return b""
        self.uncompressed_size += len(part)
        if self.uncompressed_size > self.meta.uncompressed_size:
            raise Refused("it decompresses to more than its .meta says")
        self.scan.feed(part)
        return part

    def _finish(self) -> None:
        if self._digest.hexdigest() != self.meta.sha256 or self.size != self.meta.size:
            raise Refused("its checksum is wrong")
        if self.uncompressed_size != self.meta.uncompressed_size:
            raise Refused("it decompresses to less than its .meta says")
        self.scan.finish()
