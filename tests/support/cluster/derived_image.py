"""An image made from another one without an engine: the archive that holds the one, and a layer, go in; an
archive comes out of what the new image has beside it. Whoever takes that has the other one already.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.docker import LIGHT

_OCI = "application/vnd.oci.image"
_MANIFEST, _LAYER = f"{_OCI}.manifest.v1+json", f"{_OCI}.layer.v1.tar"
_NAME = "io.containerd.image.name"


def write_derived_image(
    target: Path,
    light: Path,
    names: Sequence[str],
    fill: Callable[[tarfile.TarFile], None],
    config: Mapping[str, Any],
) -> None:
    """Write it for the light image. `fill` adds what its layer holds; `Env` of its configuration comes beside
    what is there.
    """
    with tarfile.open(light) as source, tarfile.open(target, "w") as archive:
        manifest = next(
            each for each in _json(source, "manifest.json") if f"{LIGHT}:latest" in each["RepoTags"]
        )
        described = _json(source, manifest["Config"])
        digests = list(described["rootfs"]["diff_ids"])
        sizes = [_followed(source, name).size for name in manifest["Layers"]]
        below = [
            {"mediaType": _LAYER, "digest": digest, "size": size}
            for digest, size in zip(digests, sizes, strict=True)
        ]
        layer = _add_blob(archive, _LAYER, _layer(fill))
        described["rootfs"]["diff_ids"].append(layer["digest"])
        described["config"] |= {**config, "Env": [*described["config"]["Env"], *config["Env"]]}
        described.pop("history", None)
        image = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _add_blob(archive, f"{_OCI}.config.v1+json", json.dumps(described).encode()),
            "layers": [*below, layer],
        }
        made = _add_blob(archive, _MANIFEST, json.dumps(image).encode())
        tagged = [{**made, "annotations": {_NAME: f"docker.io/{name}"}} for name in names]
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": tagged}).encode())


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


def _add_blob(archive: tarfile.TarFile, kind: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    _add(archive, f"blobs/sha256/{digest}", content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
