"""A person who uses the API with both hands: signed in, waiting for what
becomes of a workspace, and leaving nothing on an engine.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from tests.support.docker import BASE, LIGHT, TestEngine
from tests.support.patience import PATIENCE_S
from tests.support.program import Running, running
from tests.support.s3 import set_environment

from codehub.adapters.objectstore.store import MARK

PASSWORD = "correct horse"
ON_DOCKER = {"ide": "http", "workspace_image": LIGHT, "helper_image": BASE}


@contextmanager
def running_on(engine: TestEngine, data: Path, **settings: str) -> Iterator[Running]:
    """Run `codehub up` with this engine, and remove from it afterwards what that made."""
    merged = {
        "instance_backend": "local-docker",
        "initial_admin_password": PASSWORD,
        **ON_DOCKER,
        **settings,
    }
    with ExitStack() as stack:
        stack.enter_context(set_environment({"DOCKER_HOST": engine.url}))
        stack.callback(_remove_made_by, data, engine)
        yield stack.enter_context(running(data, **merged))


def _remove_made_by(data: Path, engine: TestEngine) -> None:
    """The mark of its archives names the installation."""
    mark = data / "archives" / MARK
    if mark.exists():
        engine.remove_labelled(mark.read_text().strip())


@contextmanager
def signed_in(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.address}/api/v1", timeout=PATIENCE_S) as client:
        answer = client.post("/login", json={"username": "admin", "password": PASSWORD})
        assert answer.status_code == 200, answer.text
        yield client


def arrives(client: httpx.Client, path: str, phase: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = client.get(path).json()
        assert shown["error"] is None or not shown["error"]["is_terminal"], shown["error"]
        if (shown["phase"], shown["operation"]) == (phase, "NONE"):
            return
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
