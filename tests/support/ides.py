"""Real IDEs and a real browser, where they are installed."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from playwright.async_api import BrowserContext, async_playwright
from tests.support.docker import code_server
from tests.support.patience import PATIENCE_S, until

from codehub.ports.instances import UnixUpstream

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@asynccontextmanager
async def running_code_server(directory: Path) -> AsyncIterator[tuple[UnixUpstream, Path]]:
    """Yield where it listens and its home. It is built first, once, where it is not there yet."""
    command = (str(await asyncio.to_thread(code_server)),)
    options = ("--auth", "none", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust")
    async with _running(directory, lambda sock, home: [*command, *options, "--socket", sock, home]) as served:
        yield served


@asynccontextmanager
async def running_jupyterlab(directory: Path, base_url: str) -> AsyncIterator[tuple[UnixUpstream, Path]]:
    def command(sock: str, home: str) -> Sequence[str]:
        options: Mapping[str, str] = {
            "ServerApp.sock": sock,
            "ServerApp.base_url": base_url,
            "ServerApp.root_dir": home,
            "ServerApp.allow_remote_access": "True",
            "ServerApp.allow_root": "True",
            "ServerApp.open_browser": "False",
            "IdentityProvider.token": "",
            "LabApp.news_url": "None",
        }
        script = Path(sys.executable).parent / "jupyter-lab"
        return [sys.executable, str(script), *(f"--{name}={value}" for name, value in options.items())]

    async with _running(directory, command) as served:
        yield served


@asynccontextmanager
async def _running(directory: Path, command: object) -> AsyncIterator[tuple[UnixUpstream, Path]]:
    home, sock = directory / "home", directory / "ide.sock"
    home.mkdir()
    assert callable(command)
    with (directory / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *command(str(sock), str(home)),
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(home)},
            cwd=home,
            start_new_session=True,
        )
    try:
        await until(sock.exists)
        yield UnixUpstream(sock), home
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def browser() -> AsyncIterator[BrowserContext]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), timeout=PATIENCE_S * 1000
        )
        try:
            context = await chromium.new_context()
            context.set_default_timeout(PATIENCE_S * 1000)
            yield context
        finally:
            await chromium.close()
