"""Separate roles (spec §10) on one machine: controller, API and proxy are a process each."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.conftest import Servers
from tests.support.command import Command
from tests.support.light_ide import light_code_server
from tests.support.patience import PATIENCE_S, ask_until
from tests.support.ports import free_port
from tests.support.program import codehub, end, environment, until_it_says

PASSWORD = "correct horse"


@dataclass(frozen=True)
class SeparateRoles:
    """Where people come in, and how each role is started, again if need be."""

    address: str
    settings: dict[str, str]
    path: str
    logs: Path

    @contextmanager
    def role(self, name: str, **changes: str) -> Iterator[subprocess.Popen[str]]:
        log = self.logs / f"{name}.log"
        with log.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "codehub", name],
                env={**environment(**{**self.settings, **changes}), "PATH": self.path},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            assert until_it_says(process, "ready")[-1:] == ["ready"], log.read_text()
            yield process
        finally:
            end(process)


@pytest.fixture
async def roles(servers: Servers, tmp_path: Path) -> AsyncIterator[SeparateRoles]:
    server = await servers("postgres-18")
    async with server.empty() as database:
        public, api = free_port(), free_port()
        address = f"http://127.0.0.1:{public}"
        with light_code_server() as ide:
            yield SeparateRoles(
                address,
                {
                    "data_dir": str(tmp_path / "data"),
                    "database_url": f"postgresql://admin@/{database}?host={server.directory}",
                    "public_base_url": address,
                    "api_url": f"http://127.0.0.1:{api}",
                    "trusted_proxies": "127.0.0.1",
                    "initial_admin_password": PASSWORD,
                    "idle_period_seconds": "1",
                    "ide": "code-server",
                },
                f"{ide}:{os.environ['PATH']}",
                tmp_path,
            )


def port_of(url: str) -> str:
    return url.rpartition(":")[2]


async def signed_in(roles: SeparateRoles, home: Path) -> Command:
    command = Command(home)
    arguments = ("login", roles.address, "--username", "admin", "--password-stdin")
    output = await command(*arguments, stdin=f"{PASSWORD}\n")
    assert output.code == 0, output.err
    return command


async def visited(url: str, headers: dict[str, str]) -> str:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        return (await client.get(url, headers=headers)).text


async def test_three_processes_serve_a_workspace(roles: SeparateRoles, tmp_path: Path) -> None:
    """And two more: the proxy's workers."""
    with ExitStack() as stack:
        controller = stack.enter_context(roles.role("controller"))
        api = stack.enter_context(roles.role("api", port=port_of(roles.settings["api_url"])))
        proxy = stack.enter_context(roles.role("proxy", port=port_of(roles.address), proxy_workers="2"))
        command = await signed_in(roles, tmp_path / "home")
        output = await command("ws", "create", "demo", "--wait", "--json", "--timeout", "110s")
        assert output.code == 0, output.out
        token = (await command("token", "create", "visitor")).out.strip()
        bearer = {"Authorization": f"Bearer {token}"}
        workspace = output.lines[-1]
        assert workspace["url"].endswith(f".localhost:{port_of(roles.address)}/")
        url = workspace["path_url"]
        assert url.startswith(roles.address)
        assert await visited(url, bearer) == "hello"
        assert (await command("ws", "stop", "demo", "--wait")).code == 0
        assert await visited(url, bearer) == "hello", "a visit wakes it"
        assert "the test server starts" in (await command("ws", "logs", "demo")).out
        assert [process.poll() for process in (controller, api, proxy)] == [None] * 3


async def test_a_role_that_was_missing_serves_as_soon_as_it_runs(
    roles: SeparateRoles, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        stack.enter_context(roles.role("proxy", port=port_of(roles.address)))
        with roles.role("api", port=port_of(roles.settings["api_url"])):
            command = await signed_in(roles, tmp_path / "home")
            assert (await command("ws", "create", "demo")).code == 0
            late = await command("ws", "start", "demo", "--wait", "--timeout", "1s")
            assert late.code == 9, "nobody makes wishes come true yet"
            with roles.role("controller"):
                assert (await command("ws", "start", "demo", "--wait")).code == 0
        assert (await command("ws", "list")).code == 7
        with roles.role("api", port=port_of(roles.settings["api_url"])):
            await ask_until(lambda: command("ws", "list"), lambda output: output.code == 0)


@pytest.mark.parametrize("role", ["api", "proxy", "controller"])
def test_a_role_says_what_it_needs(tmp_path: Path, role: str) -> None:
    process = codehub(role, data_dir=str(tmp_path / "data"))
    assert (process.returncode, process.stdout) == (1, "")
    assert "CODEHUB_DATABASE_URL" in process.stderr
    assert process.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


async def test_a_database_is_migrated_once_and_says_so(roles: SeparateRoles) -> None:
    url = roles.settings["database_url"]
    applied = json.loads(codehub("migrate", "--json", database_url=url).stdout)["applied"]
    assert applied[0] == "0001 people"
    assert codehub("migrate", database_url=url).stdout == "The database is up to date.\n"


def test_a_role_that_does_not_serve_yet_ends_as_soon_as_it_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as database, (tmp_path / "log").open("w+") as log:
        settings = {
            "data_dir": str(tmp_path / "data"),
            "database_url": f"postgresql://admin@127.0.0.1:{database.getsockname()[1]}/codehub",
            "public_base_url": "http://127.0.0.1:1",
            "port": "0",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "codehub", "api"], env=environment(**settings), stderr=log, text=True
        )
        try:
            with database.accept()[0]:  # it waits for what is never answered
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
        finally:
            end(process)
