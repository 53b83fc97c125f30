"""An image made from another one without an engine: the archive that holds the one, and a layer, go in; an
archive of the new image comes out.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.docker import LIGHT


def write_derived_image(
    target: Path,
    light: Path,
    names: Sequence[str],
    fill: Callable[[tarfile.TarFile], None],
    config: Mapping[str, Any],
) -> None:
    """Write an archive of the image, from that of the light ones. `fill` adds what its layer holds; `Env` of
    its configuration comes beside what is there.
    """
    with tarfile.open(light) as source, tarfile.open(target, "w") as archive:
        manifest = next(
            each for each in _json(source, "manifest.json") if f"{LIGHT}:latest" in each["RepoTags"]
        )
        layer = _layer(fill)
        described = _json(source, manifest["Config"])
        described["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
        described["config"] |= {**config, "Env": [*described["config"]["Env"], *config["Env"]]}
        described.pop("history", None)
        for name in manifest["Layers"]:
            member = _followed(source, name)
            content = source.extractfile(member)
            entry = tarfile.TarInfo(name)
            entry.size = member.size
            archive.addfile(entry, content)
        _add(archive, "derived/layer.tar", layer)
        _add(archive, "derived.json", json.dumps(described).encode())
        image = {
            "Config": "derived.json",
            "RepoTags": list(names),
            "Layers": [*manifest["Layers"], "derived/layer.tar"],
        }
        _add(archive, "manifest.json", json.dumps([image]).encode())


def without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """As a layer has files: root's, and everybody's to read."""
    entry.uid = entry.gid = 0
    entry.mode |= 0o555 if entry.isdir() else 0o444
    return None if Path(entry.name).name in ("__pycache__", "test", "dist-packages") else entry


def _layer(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        fill(tar)
    return packed.getvalue()


def _followed(source: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """Return what a layer's entry leads to: one that two images share is there once."""
    member = source.getmember(name)
    if not member.issym():
        return member
    directory = Path(name).parent
    return source.getmember(str((directory / member.linkname).as_posix()).replace(f"{directory}/../", ""))


def _json(source: tarfile.TarFile, name: str) -> Any:
    content = source.extractfile(name)
    assert content is not None
    return json.load(content)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
