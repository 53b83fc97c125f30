"""`scripts/kubernetes/build` with a Go that compiles nothing: what is built
once, what goes on after a failure, and what is said of it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/kubernetes/build"
_GO = """#!/bin/sh
[ "$1" != env ] || { echo go1.26.6; exit; }
part=$(basename "$PWD")
echo "$part" >>"$BUILT"
[ "$part" != "$BREAKS" ] || { echo "no room" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
case $2$part in */etcd) touch "$2server" ;; */$part) touch "$2$part" ;; *) touch "$2" ;; esac
"""
_GCC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
touch "$2"
"""
_PARTS = ["kube", "local", "etcd", "containerd", "runc", "cni", "helm"]


class Builder:
    def __init__(self, place: Path) -> None:
        self.cache, self._built = place / "cache", place / "built"
        programs = place / "programs"
        programs.mkdir()
        for name, text in {"go": _GO, "gcc": _GCC, "pkg-config": "#!/bin/sh\n"}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self._path = f"{programs}:{os.environ['PATH']}"

    def run(self, *arguments: str, breaks: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": self._path,
            "CODEHUB_CACHE": str(self.cache),
            "BUILT": str(self._built),
            "BREAKS": breaks,
        }
        return subprocess.run(
            [SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False
        )

    def built(self) -> list[str]:
        """Tell what was compiled since this was last asked."""
        parts = self._built.read_text().split() if self._built.exists() else []
        self._built.unlink(missing_ok=True)
        return parts


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_what_is_not_built_is_not_there(builder: Builder) -> None:
    done = builder.run("--if-built")
    assert (done.returncode, done.stdout) == (1, "")


def test_all_parts_are_built_once_and_lie_in_one_directory(builder: Builder) -> None:
    done = builder.run()
    assert builder.built() == _PARTS
    programs = Path(done.stdout.strip()) / "bin"
    names = {"kubelet", "kube-apiserver", "kube-local", "etcd", "runc", "pause", "helm"}
    assert names <= {path.name for path in programs.iterdir() if path.exists()}
    assert re.search(r"kubernetes: 1 of 8: kube, which takes longest \(\d+ s so far\)", done.stderr)
    again = builder.run()
    assert (again.stdout, again.stderr, builder.built()) == (done.stdout, "", [])
    assert builder.run("--if-built").stdout == done.stdout


def test_a_build_that_failed_goes_on_with_the_part_that_broke(builder: Builder) -> None:
    failed = builder.run(breaks="containerd")
    assert failed.returncode != 0
    assert failed.stderr.endswith("no room\n")
    assert (builder.built(), builder.run("--if-built").returncode) == (_PARTS[:4], 1)
    assert (builder.run().returncode, builder.built()) == (0, _PARTS[3:])


def test_what_it_was_compiled_from_is_removed(builder: Builder) -> None:
    builder.run()
    assert {path.name.split("-")[0] for path in builder.cache.iterdir()} == {"kubernetes", "kubernetes.lock"}
    assert not (builder.cache / "kubernetes-build").exists()


def test_a_part_that_was_lost_is_built_alone(builder: Builder) -> None:
    builder.run()
    builder.built()
    (etcd,) = (builder.cache / "kubernetes-parts").glob("etcd-*")
    shutil.rmtree(etcd)
    builder.run()
    assert builder.built() == ["etcd"]
