"""Situations of the embedded database."""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.embedded_cluster import copy_cluster, embedded, end_all
from tests.support.embedded_process import EmbeddedProcess


@pytest.fixture(scope="session")
async def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DATA_DIR with a stopped cluster, to be copied: making one takes a second."""
    data_dir = tmp_path_factory.mktemp("initialised")
    server = embedded(data_dir)
    await server.start()
    await server.stop()
    return data_dir


@pytest.fixture
def cluster(initialised: Path, tmp_path: Path) -> Iterator[Path]:
    """A DATA_DIR with a stopped cluster of its own."""
    data_dir = tmp_path / "cluster"
    copy_cluster(initialised, data_dir)
    yield data_dir
    end_all(data_dir)


@pytest.fixture
async def children() -> AsyncIterator[list[EmbeddedProcess]]:
    """Every codehub that a test starts beside itself, so that a failed test leaves none."""
    children: list[EmbeddedProcess] = []
    yield children
    for child in children:
        await child.kill()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="codehub-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB: a cluster needs 40."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)
