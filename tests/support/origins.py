"""A browser by hand that enters workspaces' own origins: it keeps cookies by host, and says of a request what
browsers say. The hub's part, which is no business of the edge, is played here.
"""

import hashlib
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.edge import Talk
from tests.support.hub import ANN, NAVIGATION, ORIGIN, SESSION, Hub

from codehub.adapters.system.machine import SystemRandomness
from codehub.core.origins import Door, WorkspaceOrigins
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.proxy_lookups import Credential

ORIGINS = WorkspaceOrigins("http", "localhost", 8000)
SECURE = WorkspaceOrigins("https", "ws.example.net", None)
SAME_ORIGIN = ("Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Sec-Fetch-Site: same-origin")
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket")


def host_of(row: Workspace, port: int | None = None, origins: WorkspaceOrigins = ORIGINS) -> str:
    return origins.origin_of(row.label, port).partition("//")[2]


@dataclass
class Reply:
    status: int
    head: str
    body: str

    @property
    def location(self) -> str:
        return self.values("Location")[0]

    def values(self, name: str) -> list[str]:
        lines = (line.partition(": ") for line in self.head.split("\r\n")[1:])
        return [value for key, _, value in lines if key.lower() == name.lower()]


@dataclass
class Browser:
    """One person's browser. Whoever has no session is nobody's yet."""

    made: Hub
    session: Credential = SESSION
    person: Visitor = ANN
    jar: dict[str, dict[str, str]] = field(default_factory=dict)

    async def ask(self, host: str, path: str, *lines: str, method: str = "GET") -> Reply:
        """Send one request with the cookies of that host."""
        talk = await self.made.connect()
        await talk.send(self.request(host, path, *lines, method=method, closes=True))
        head, _, body = (await talk.rest()).partition(b"\r\n\r\n")
        await talk.close()
        reply = Reply(int(head.split(b" ")[1]), head.decode(), body.decode())
        self._keep(host, reply)
        return reply

    def request(self, host: str, path: str, *lines: str, method: str = "GET", closes: bool = False) -> bytes:
        cookies = "; ".join(f"{name}={value}" for name, value in self.jar.get(host, {}).items())
        more = [f"Cookie: {cookies}"] if cookies else []
        more += ["Connection: close"] if closes else []
        return "\r\n".join((f"{method} {path} HTTP/1.1", f"Host: {host}", *more, *lines, "", "")).encode()

    def _keep(self, host: str, reply: Reply) -> None:
        for cookie in reply.values("Set-Cookie"):
            pair, *attributes = (part.strip() for part in cookie.split(";"))
            name, _, value = pair.partition("=")
            self.jar.setdefault(host, {})[name] = value
            if "Max-Age=0" in attributes:
                del self.jar[host][name]

    async def go(self, host: str, path: str) -> Reply:
        return await self.ask(host, path, *NAVIGATION)

    async def upgrade(self, host: str, path: str, *lines: str) -> Talk:
        talk = await self.made.connect()
        await talk.send(self.request(host, path, *UPGRADE, *lines))
        return talk

    async def code(self, sent: Reply, row: Workspace, port: int | None = None) -> str:
        """Be the hub: issue a code for what the edge has sent this browser to, and say it."""
        address = urlsplit(sent.location)
        asked = parse_qs(address.query)
        code = SystemRandomness().token()
        assert await self.made.doors.issue_code(
            hashlib.sha256(code.encode()).digest(),
            Door(row.id, port),
            session_sha256=hashlib.sha256(self.session.secret).digest(),
            challenge=bytes.fromhex(asked["c"][0]),
            path=unquote(asked["next"][0]),
        )
        return code

    async def enter(self, row: Workspace, path: str = "/", port: int | None = None) -> Reply:
        """Go all the way in; return the answer of the last step but the page itself."""
        host = host_of(row, port)
        sent = await self.go(host, path)
        assert sent.location.startswith(f"{ORIGIN}/enter/"), sent
        return await self.go(host, f"/_codehub/enter?code={await self.code(sent, row, port)}")
