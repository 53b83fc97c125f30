"""A real browser for the dashboard: pages that are watched for complaints,
people who sign in, and axe, which looks with other eyes.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, ConsoleMessage, Page, Route, WebError, async_playwright, expect
from tests.support.ides import CHROMIUM, FLAGS
from tests.support.patience import PATIENCE_S
from tests.support.site import Site

__all__ = [
    "CHROMIUM",
    "box",
    "chromium_running",
    "held_answer",
    "serious",
    "sign_in",
    "watched_page",
]
PATIENCE_MS = PATIENCE_S * 1000
expect.set_options(timeout=PATIENCE_MS)
# What a page says in passing stays, so that a test sees it however slow
# the machine is: these are the times of codehub.js's toasts.
_TOASTS_STAY = """
  const after = window.setTimeout;
  window.setTimeout = (what, ms, ...given) => ([6000, 15000].includes(ms) ? 0 : after(what, ms, ...given));
"""
# What the browser itself says of answers that are meant to be errors.
_EXPECTED = (
    *("the server responded with a status of 4", "net::ERR_", "htmx:sendError", "htmx:afterRequest"),
    (
        "use the Service-Worker-Allowed HTTP header"
    ),  # code-server's own, which a workspace can't send past the edge
)


@asynccontextmanager
async def chromium_running() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def watched_page(browser: Browser, complaints: list[str], **options: Any) -> AsyncIterator[Page]:
    """Yield a page in a context of its own. Whatever its console says as an error goes to `complaints`."""
    context = await browser.new_context(
        **{
            "viewport": {"width": 1280, "height": 800},
            "locale": "en-US",
            "reduced_motion": "reduce",
            **options,
        }
    )
    context.set_default_timeout(PATIENCE_MS)
    await context.add_init_script(_TOASTS_STAY)

    def hear(message: ConsoleMessage) -> None:
        is_complaint = message.type == "error" and not any(word in message.text for word in _EXPECTED)
        if is_complaint and _is_ours(message.location["url"]):
            complaints.append(message.text)

    def hear_of(error: WebError) -> None:
        if error.page is None or _is_ours(error.page.url):
            complaints.append(str(error.error))

    context.on("console", hear)
    context.on("weberror", hear_of)
    try:
        yield await context.new_page()
    finally:
        await context.close()


def _is_ours(url: str) -> bool:
    """Whether a page is the hub's: an IDE that is left while it loads, or sleeps, may complain."""
    parts = urlsplit(url)
    return not (parts.path.startswith("/w/") or str(parts.hostname).endswith(".localhost"))


async def sign_in(page: Page, site: Site, name: str) -> None:
    """Let somebody be signed in, and look at their list."""
    word = (await site.browser(name)).cookies["codehub_session"]
    await page.context.add_cookies([{"name": "codehub_session", "value": word, "url": site.address}])
    await page.goto(f"{site.address}/")
    await page.wait_for_selector("body[data-live]")


async def box(page: Page, selector: str) -> dict[str, float]:
    """Return where something is, found and measured at once: what is drawn anew between the two is
    nowhere.
    """
    rectangle: dict[str, float] = await page.evaluate(
        "one => document.querySelector(one).getBoundingClientRect().toJSON()", selector
    )
    return rectangle


async def serious(page: Page) -> list[str]:
    """Return what axe finds serious or worse, as one line each."""
    results = await Axe().run(page)
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'] for node in violation['nodes']]}"
        for violation in results.response["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


@asynccontextmanager
async def held_answer(
    page: Page, address: str | re.Pattern[str]
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Hold back the next answer from this address until the block
    ends. Yields what waits until the server has given it.

    The route stays: Playwright does not tell of a request that is made
    while it stops intercepting, as it does when its last route is used up.
    """
    given, may_come = asyncio.Event(), asyncio.Event()
    requests = itertools.count()

    async def hold(route: Route) -> None:
        if next(requests):
            await route.fallback()
            return
        answer = await route.fetch()
        given.set()
        await may_come.wait()
        await route.fulfill(response=answer)

    async def is_given() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await given.wait()

    await page.route(address, hold)
    try:
        yield is_given
    finally:
        may_come.set()
