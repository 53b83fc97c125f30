"""The image of Jobs for a test cluster: the light one, with a whole
Python and codehub as it is here.
"""

import tarfile
from importlib.metadata import distribution
from pathlib import Path

from tests.support.cluster.derived_image import without_caches, write_derived_image

import codehub

JOB = "codehub-test/job"
PYTHON = Path("/usr/lib/python3.11")
_PLACE = "opt/job"
# What the Job's program imports beside Python's own.
_DISTRIBUTIONS = ("structlog", "zstandard")


def write_job_image(target: Path, light: Path) -> None:
    write_derived_image(target, light, [f"{JOB}:latest"], _fill, {"Env": [f"PYTHONPATH=/{_PLACE}"]})


def _fill(tar: tarfile.TarFile) -> None:
    tar.add(PYTHON, str(PYTHON)[1:], filter=without_caches)
    tar.add(Path(codehub.__file__).parent, f"{_PLACE}/codehub", filter=_without_pages)
    for name in _DISTRIBUTIONS:
        root = Path(str(distribution(name).locate_file(name)))
        tar.add(root, f"{_PLACE}/{name}", filter=without_caches)
    add_link(tar, "usr/bin/python", "python3")


def add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _without_pages(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(entry.name).name == "dashboard" else without_caches(entry)
