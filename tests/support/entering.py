"""A browser by hand against a running codehub: it keeps cookies by host, follows redirects, and finds every
name on this machine, as browsers do with those below localhost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import httpx
from tests.support.patience import PATIENCE_S

NAVIGATION = {
    "Accept": "text/html",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "none",
}
REDIRECTS_MAX = 5


@dataclass
class HandBrowser:
    jar: dict[str, dict[str, str]] = field(default_factory=dict)
    """The cookies of each host."""

    @classmethod
    def of(cls, hub: str, session: httpx.Cookies) -> "HandBrowser":
        """Return the browser of whoever has signed in with this client."""
        return cls({urlsplit(hub).netloc: {"codehub_session": session["codehub_session"]}})

    def cookies_of(self, host: str) -> str:
        return "; ".join(f"{name}={word}" for name, word in self.jar.get(host, {}).items())

    def ask(self, method: str, address: str, content: str = "", **headers: str) -> httpx.Response:
        parts = urlsplit(address)
        reached = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()
        lines = {"Host": parts.netloc, "Cookie": self.cookies_of(parts.netloc), **headers}
        answer = httpx.request(method, reached, content=content, headers=lines, timeout=PATIENCE_S)
        self.keep(parts.netloc, answer.headers.get_list("set-cookie"))
        return answer

    def keep(self, host: str, cookies: Iterable[str]) -> None:
        for cookie in cookies:
            pair, *attributes = cookie.split("; ")
            name, _, word = pair.partition("=")
            kept = self.jar.setdefault(host, {})
            kept[name] = word
            if "Max-Age=0" in attributes:
                del kept[name]

    def post(self, address: str, content: str) -> httpx.Response:
        """Send something as a page of the same origin would."""
        parts = urlsplit(address)
        return self.ask("POST", address, content, Origin=f"{parts.scheme}://{parts.netloc}")

    def go(self, address: str) -> tuple[str, httpx.Response]:
        """Go there as somebody who types an address, and return where that ends, and what is there."""
        for _ in range(REDIRECTS_MAX):
            answer = self.ask("GET", address, **NAVIGATION)
            if answer.status_code != httpx.codes.SEE_OTHER:
                return address, answer
            address = urljoin(address, answer.headers["location"])
        raise AssertionError(f"it leads on and on: {address}")
