"""`codehub up` whose workspaces have origins of their own: at `*.localhost`, or behind a reverse proxy as
operators.md has it. Every workspace serves the files of its home.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, async_playwright
from tests.support.ides import CHROMIUM, FLAGS
from tests.support.light_ide import HOME_SERVER, light_code_server
from tests.support.patience import PATIENCE_S, block_until
from tests.support.ports import free_port
from tests.support.program import running
from tests.support.reverse_proxies import DOMAIN, HUB, ReverseProxy

API = "/api/v1"
PASSWORD = "correct horse battery"
SIBLING_HUB = "code.example.net"
"""A hub that is of one site with its workspaces, as operators are told not to have it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace that runs."""

    id: str
    origin: str
    home: Path

    @property
    def host(self) -> str:
        return urlsplit(self.origin).netloc

    @property
    def label(self) -> str:
        return self.host.partition(".")[0]

    def serve(self, name: str, text: str, *headers: str) -> str:
        """Let it serve this page, and return the page's address."""
        (self.home / name).write_text(text)
        (self.home / f"{name}.headers").write_text("".join(f"{line}\n" for line in headers))
        return f"{self.origin}/{name}"

    def requests(self) -> list[dict[str, Any]]:
        """What reached it so far, but for looks at its health, and for icons, which come at any time."""
        notes = self.home / "requests"
        noted = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
        return [
            request
            for request in noted
            if request["headers"].get("Host") == self.host and request["target"] != "/favicon.ico"
        ]


@dataclass(frozen=True, slots=True)
class Person:
    client: httpx.Client
    name: str

    @property
    def session(self) -> tuple[str, str]:
        """The name and the word of their cookie."""
        ((name, word),) = (pair for pair in self.client.cookies.items() if pair[0].endswith("_session"))
        return name, word

    def show(self, place: Place) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"{API}/workspaces/{place.id}").raise_for_status().json()
        return shown


@dataclass(frozen=True, slots=True)
class Stage:
    hub: str
    """Its origin, as browsers write it."""
    data: Path
    certificate: Path | None = None

    def person(self, stack: ExitStack, name: str) -> Person:
        """Let somebody sign in. An admin makes whoever is not there."""
        admin = self._client(stack)
        _sign_in(admin, "admin")
        if name == "admin":
            return Person(admin, name)
        body = {"username": name, "password": PASSWORD}
        assert admin.post(f"{API}/users", json=body).status_code in (201, 409)
        client = self._client(stack)
        _sign_in(client, name)
        return Person(client, name)

    def _client(self, stack: ExitStack) -> httpx.Client:
        address = urlsplit(self.hub)
        return stack.enter_context(
            httpx.Client(
                base_url=f"{address.scheme}://127.0.0.1:{address.port}",
                headers={"Host": address.netloc},
                verify=False,
                timeout=PATIENCE_S,
            )
        )

    def workspace(self, owner: Person, name: str, **fields: object) -> Place:
        """Make one, and wait until it runs."""
        made = owner.client.post(f"{API}/workspaces", json={"name": name, **fields})
        assert made.status_code == 201, made.text
        path = f"{API}/workspaces/{made.json()['id']}"
        block_until(lambda: rests(owner.client.get(path).json(), "RUNNING"))
        home = next(self.data.glob(f"users/*/workspaces/{made.json()['id']}/home"))
        return Place(made.json()["id"], made.json()["url"].rstrip("/"), home)

    async def context(self, browser: Browser, person: Person | None) -> BrowserContext:
        """Open a browser of somebody who is signed in, or of nobody."""
        context = await browser.new_context(ignore_https_errors=True, locale="en-US")
        context.set_default_timeout(PATIENCE_S * 1000)
        if person is not None:
            await self.sign_in(context, person)
        return context

    async def sign_in(self, context: BrowserContext, person: Person) -> None:
        name, word = person.session
        await context.add_cookies([{"name": name, "value": word, "url": self.hub}])


def rests(shown: dict[str, Any], phase: str) -> bool:
    assert shown["error"] is None, shown["error"]
    return bool(shown["phase"] == phase and shown["operation"] == "NONE")


def _sign_in(client: httpx.Client, name: str) -> None:
    client.post(f"{API}/login", json={"username": name, "password": PASSWORD}).raise_for_status()


@contextmanager
def at_localhost(directory: Path, **settings: str) -> Iterator[Stage]:
    """As it comes: no setting says so."""
    with _up(directory, **settings) as (address, data):
        yield Stage(address, data)


@contextmanager
def behind(proxy: ReverseProxy, directory: Path, *, hub: str = HUB, **settings: str) -> Iterator[Stage]:
    """`hub`: the name of codehub's own host."""
    public, port = free_port(), free_port()
    base = f"https://{hub}:{public}"
    with (
        _up(
            directory,
            port=str(port),
            public_base_url=base,
            workspace_host=f"*.{DOMAIN}",
            trusted_proxies="127.0.0.1",
            **settings,
        ) as (_, data),
        proxy(directory, hub, public, port) as certificate,
    ):
        yield Stage(base, data, certificate)


@contextmanager
def _up(directory: Path, **settings: str) -> Iterator[tuple[str, Path]]:
    data = directory / "data"
    with light_code_server(HOME_SERVER) as ide, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{ide}:{os.environ['PATH']}")
        with running(data, initial_admin_password=PASSWORD, ide="code-server", **settings) as server:
            yield server.address, data


_RESOLVER = f"--host-resolver-rules=MAP {HUB} 127.0.0.1, MAP *.example.net 127.0.0.1"
_FLAGS = (*FLAGS, _RESOLVER, "--ignore-certificate-errors")  # of a service worker's script, too


@asynccontextmanager
async def browser_of_stages() -> AsyncIterator[Browser]:
    """Yield a Chromium for which the names of the page are this machine's."""
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(_FLAGS), timeout=PATIENCE_S * 1000
        )
        try:
            yield chromium
        finally:
            await chromium.close()


@asynccontextmanager
async def profile_of_stages(directory: Path) -> AsyncIterator[BrowserContext]:
    """Yield the same with a profile of its own, which lets frames and fetches have cookies of other sites. A
    private window does not, and the contexts of the other browser are such.
    """
    preferences = directory / "Default/Preferences"
    preferences.parent.mkdir()
    preferences.write_text(json.dumps({"profile": {"cookie_controls_mode": 0}}))
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            directory,
            executable_path=CHROMIUM,
            args=list(_FLAGS),
            locale="en-US",
            ignore_https_errors=True,
            timeout=PATIENCE_S * 1000,
        )
        context.set_default_timeout(PATIENCE_S * 1000)
        try:
            yield context
        finally:
            await context.close()
