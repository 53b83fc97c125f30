"""Images for a test cluster, without a registry: an archive of one file, or
what the tests' Docker engine has made, kept in the cache.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.docker import CODE_SERVER, LIGHT, LIGHT_VARIANTS, TestEngine, cache, light_hash


def light_images() -> Path:
    """Where the archive of the light images is, or will be."""
    return cache() / f"test-kubernetes-light-{light_hash()}.tar"


def code_server_image() -> Path:
    return cache() / "test-kubernetes-code-server.tar"


def save_images(engine: TestEngine) -> None:
    """Put into the cache what this engine has of the images that clusters run."""
    light = [LIGHT, *(f"{LIGHT}:{variant}" for variant in LIGHT_VARIANTS)]
    for target, names in ((light_images(), light), (code_server_image(), [CODE_SERVER])):
        if target.exists() or engine.find(f"images/{names[0]}/json") is None:
            continue
        partial = target.with_name(f"{target.name}.new")
        engine.save(names, partial)
        partial.rename(target)


def write_image(target: Path, name: str, files: Mapping[str, bytes], config: Mapping[str, Any]) -> None:
    """Write an image of these files alone."""
    layer = _tar(files, mode=0o755)
    digest = hashlib.sha256(layer).hexdigest()
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    target.write_bytes(
        _tar(
            {
                "config.json": json.dumps(described).encode(),
                "manifest.json": json.dumps(manifest).encode(),
                "layer.tar": layer,
            },
            mode=0o644,
        )
    )


def _tar(files: Mapping[str, bytes], *, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
