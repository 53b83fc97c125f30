"""A sibling host in Chromium: whatever cookies it sets, no session becomes another's (security 21)."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import async_playwright
from tests.support.chromium import CHROMIUM, PATIENCE_MS
from tests.support.ides import FLAGS
from tests.support.site import PASSWORD, open_site
from tests.support.stores import memory_world

OPENSSL = shutil.which("openssl")
NO_OPENSSL = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed (scripts/engines)")


def certificate(directory: Path) -> ssl.SSLContext:
    """Return what a server needs to speak https, with a certificate that nobody knows."""
    assert OPENSSL is not None
    key, cert = directory / "key.pem", directory / "cert.pem"
    what = (
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=example.test",
    )
    subprocess.run(
        [OPENSSL, "req", *what, "-keyout", key, "-out", cert],
        check=True,
        capture_output=True,
        timeout=PATIENCE_MS,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


class SharedDomain:
    """Two hosts of one domain on one port: `hub` is codehub's, `evil` sets cookies for both."""

    def __init__(self) -> None:
        self.port = 0
        self.codehub = ("", 0)
        self.tossed = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"\r\nHost: hub." in head:
            await self._pass_on(head, reader, writer)
        else:
            names = ("codehub_session", "__Host-codehub_session", "__Secure-codehub_session")
            tossed = [f"{name}={self.tossed}; Domain=example.test; Path=/" for name in names]
            tossed += [f"{cookie}; Secure" for cookie in tossed]
            lines = "".join(f"Set-Cookie: {cookie}\r\n" for cookie in tossed)
            writer.write(f"HTTP/1.1 200 OK\r\n{lines}Connection: close\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self.codehub)
        up_writer.write(head)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while part := await source.read(1 << 16):
                sink.write(part)

        ways = {asyncio.create_task(copy(*way)) for way in ((reader, up_writer), (up_reader, writer))}
        _, open_still = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in open_still:
            way.cancel()
        up_writer.close()


@asynccontextmanager
async def shared_domain(context: ssl.SSLContext | None) -> AsyncIterator[SharedDomain]:
    domain = SharedDomain()
    server = await asyncio.start_server(domain.serve, "127.0.0.1", 0, ssl=context)
    domain.port = server.sockets[0].getsockname()[1]
    try:
        yield domain
    finally:
        server.close()


@NO_OPENSSL
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_sibling_host_can_not_put_its_own_session_in_the_place_of_an_admins(
    scheme: str, tmp_path: Path
) -> None:
    context = certificate(tmp_path) if scheme == "https" else None
    async with shared_domain(context) as domain, async_playwright() as playwright:
        base = f"{scheme}://hub.example.test:{domain.port}"
        async with open_site(memory_world(), base_url=base) as site:
            domain.codehub = ("127.0.0.1", int(site.address.rpartition(":")[2]))
            access = site.parts.access
            await site.user("ann")
            await site.user("mallory")
            signed_in = await access.login("mallory", PASSWORD, address="127.0.0.1", device=None)
            domain.tossed = signed_in.session  # type: ignore[union-attr]
            resolver = "--host-resolver-rules=MAP *.example.test 127.0.0.1"
            chromium = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=[*FLAGS, resolver], timeout=PATIENCE_MS
            )
            page = await chromium.new_page(ignore_https_errors=True, locale="en-US")
            page.set_default_timeout(PATIENCE_MS)
            await page.goto(f"{base}/login")
            await page.fill("[name=username]", "ann")
            await page.fill("[name=password]", PASSWORD)
            await page.click("button[type=submit], form button")
            await page.wait_for_selector("body[data-live]")
            await page.goto(f"{scheme}://evil.example.test:{domain.port}/")
            tossed = {
                cookie["name"] for cookie in await page.context.cookies() if cookie["value"] == domain.tossed
            }
            assert "codehub_session" in tossed, "the attack is real"
            assert "__Host-codehub_session" not in tossed
            response = await page.goto(f"{base}/account")
            assert response is not None
            whose = await page.evaluate("fetch('/api/v1/session').then(response => response.json())")
            if scheme == "https":
                assert response.status == 200
                assert whose["user"]["username"] == "ann"
            else:
                assert response.status == 400
                assert "Delete the cookies" in await page.inner_text("body")
                assert whose["error"]["code"] == "INVALID_REQUEST"
            await chromium.close()
