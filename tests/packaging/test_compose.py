"""compose.yaml, run: codehub, PostgreSQL, Redis and an S3 server in
containers, workspaces beside them. `make test-compose`.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.support.command import Command
from tests.support.docker import BASE, DOCKER, LIGHT, Docker
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.standins import ROOT, make_codehub, make_standins

COMPOSE = shutil.which("docker-compose")
pytestmark = [
    DOCKER,
    pytest.mark.skipif(COMPOSE is None, reason="no docker-compose (apt-get install docker-compose)"),
]
PASSWORD = "correcthorse"


@dataclass(frozen=True)
class Stack:
    address: str
    compose: Callable[..., str]

    async def is_ready(self) -> bool:
        try:
            async with httpx.AsyncClient(timeout=5) as client:
                return (await client.get(f"{self.address}/readyz")).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture
async def stack(docker: Docker, tmp_path: Path) -> AsyncIterator[Stack]:
    engine = await docker()
    make_standins(engine)
    make_codehub(engine)
    port = free_port()
    environ = {
        **os.environ,
        "DOCKER_HOST": engine.url,
        "DOCKER_SOCKET": str(engine.socket),
        "COMPOSE_PROJECT_NAME": "codehub-test",
        "CODEHUB_PORT": str(port),
        "POSTGRES_PORT": str(free_port()),
        "REDIS_PORT": str(free_port()),
        "MINIO_PORT": str(free_port()),
        "POSTGRES_PASSWORD": "p1",
        "REDIS_PASSWORD": "p2",
        "MINIO_PASSWORD": "p3p3p3p3",
        "CODEHUB_INITIAL_ADMIN_PASSWORD": PASSWORD,
        "CODEHUB_WORKSPACE_IMAGE": LIGHT,
        "CODEHUB_HELPER_IMAGE": BASE,
    }

    def compose(*arguments: str) -> str:
        assert COMPOSE is not None
        command = [COMPOSE, "-f", str(ROOT / "compose.yaml"), "--project-directory", str(ROOT), *arguments]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        compose("up", "-d", "--no-build")
        yield Stack(f"http://127.0.0.1:{port}", compose)
    finally:
        compose("down", "-v", "-t", "5")


async def test_a_workspace_goes_round_and_everything_survives_a_restart(stack: Stack, tmp_path: Path) -> None:
    await until(stack.is_ready, seconds=2 * PATIENCE_S)
    command = Command(tmp_path / "home")
    login = ("login", stack.address, "--username", "admin", "--password-stdin")
    assert (await command(*login, stdin=f"{PASSWORD}\n")).code == 0
    made = await command("ws", "create", "demo", "--ide", "http", "--wait", "--json", "--timeout", "110s")
    assert made.code == 0, made.out
    assert made.lines[-1]["instance_backend"] == "local-docker"
    token = (await command("token", "create", "visitor")).out.strip()
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as visitor:
        assert (await visitor.get(made.lines[-1]["url"])).status_code == 200
    for word in ("archive", "start"):
        finished = await command("ws", word, "demo", "--wait", "--timeout", "110s")
        assert finished.code == 0, finished.err
    stack.compose("restart", "-t", "15")
    await until(stack.is_ready, seconds=2 * PATIENCE_S)
    assert (await command("ws", "show", "demo", "--json")).json["name"] == "demo"
    assert (
        await command("ws", "delete", "demo", "--purge", "--yes", "--wait", "--timeout", "110s")
    ).code == 0
    assert "p1" not in stack.compose("logs", "codehub")
