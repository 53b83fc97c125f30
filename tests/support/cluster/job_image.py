"""The image of Jobs for a test cluster: the light one, with a whole
Python and codehub as it is here.
"""

import tarfile
import tempfile
from importlib.metadata import distribution
from pathlib import Path

from tests.support.cluster.bytecode import PYTHON, add_bytecode
from tests.support.cluster.derived_image import without_caches, write_derived_image

import codehub

JOB = "codehub-test/job"
_PLACE = "opt/job"
# What the Job's program imports beside Python's own.
_DISTRIBUTIONS = ("structlog", "zstandard")


def write_job_image(target: Path, light: Path) -> None:
    write_derived_image(target, light, [f"{JOB}:latest"], _fill, {"Env": [f"PYTHONPATH=/{_PLACE}"]})


def _fill(tar: tarfile.TarFile) -> None:
    tar.add(PYTHON, str(PYTHON)[1:], filter=without_caches)
    packages = {name: Path(str(distribution(name).locate_file(name))) for name in _DISTRIBUTIONS}
    packages["codehub"] = Path(codehub.__file__).parent
    with tempfile.TemporaryDirectory(prefix="codehub-job-") as directory:
        for name, root in packages.items():
            tar.add(root, f"{_PLACE}/{name}", filter=_without_pages)
            (Path(directory) / name).symlink_to(root)
        add_bytecode(tar, "import codehub.job.__main__", {Path(directory): _PLACE})
    add_link(tar, "usr/bin/python", "python3")


def add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _without_pages(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == "dashboard" else without_caches(entry)
