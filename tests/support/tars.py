"""Tar streams and archives that no home of ours would ever make, for tests of what a restore refuses."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import zstandard

from codehub.ports.storage import Home

Build = Callable[[tarfile.TarFile], None]


def member(name: str, *, kind: bytes = tarfile.REGTYPE, link: str = "", **fields: Any) -> tarfile.TarInfo:
    """Describe one member. `fields` go into it as it is."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def tar_of(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for each in members:
            info, content = each if isinstance(each, tuple) else (each, b"")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def store(root: Path, home: Home, tar: bytes, *, files: int, packed: bytes | None = None, **meta: Any) -> str:
    """Put an archive with a fitting `.meta` into a file store,
    and return its key. `meta` overrides what it says.
    """
    key = f"{home.workspace_id}/{uuid4()}/home.tar.zst"
    stored = zstandard.ZstdCompressor(level=3).compress(tar) if packed is None else packed
    fields = {
        "sha256": hashlib.sha256(stored).hexdigest(),
        "size": len(stored),
        "files": files,
        "uncompressed_size": len(tar),
        "format": 1,
        **meta,
    }
    path = root / key
    path.parent.mkdir(parents=True)
    path.write_bytes(stored)
    path.with_name(path.name + ".meta").write_text(json.dumps(fields))
    return key


def zeros_packed(length: int) -> bytes:
    """Return many zeros as the few bytes that they compress to."""
    packer = zstandard.ZstdCompressor(level=3).compressobj()
    block = bytes(1 << 20)
    parts: Sequence[bytes] = [packer.compress(block) for _ in range(length >> 20)]
    return b"".join(parts) + packer.flush()
