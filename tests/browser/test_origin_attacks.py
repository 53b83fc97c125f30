"""What a page that a workspace serves may not do, in Chromium against `codehub up` (security 14, 20, 21, 26
and 27).

Twice: at `*.localhost`, where each host is a site of its own, and behind nginx below one registrable domain
with codehub itself, where SameSite is no border and a page can set cookies for all hosts.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Frame, Page, Response
from tests.support.ides import CHROMIUM
from tests.support.origin_stage import (
    PASSWORD,
    SIBLING_HUB,
    Person,
    Place,
    Stage,
    at_localhost,
    behind,
    browser_of_stages,
)
from tests.support.patience import until
from tests.support.reverse_proxies import NO_NGINX, nginx

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed (scripts/engines)")
DOOR, PRE = "__Host-codehub_door", "__Host-codehub_pre"
REFUSED = (401, 403, 404, 405)
BLOCKED = -1
"""By the browser, which shows a page of its own."""
OVERFLOW = 400
"""More cookies than a browser keeps for one site."""
FETCH = """
urls => Promise.all(urls.flatMap(url => ["cors", "no-cors"].flatMap(mode => ["GET", "POST"].map(
    method => fetch(url, {mode, method, credentials: "include", body: method === "POST" ? "a=b" : undefined})
        .then(async answer => [url, answer.type, await answer.text()], () => [url, "refused", ""])))))
"""
SOCKETS = """
urls => Promise.all(urls.map(url => new Promise(done => {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = () => done("open");
    socket.onclose = () => done("closed");
})))
"""
FRAMES = """
urls => Promise.all(urls.map(url => new Promise(done => {
    const frame = document.createElement("iframe");
    frame.onload = done;
    frame.src = url;
    document.body.append(frame);
})))
"""
FORM = """
url => {
    const form = document.createElement("form");
    form.method = "post";
    form.enctype = "text/plain";
    form.action = url;
    document.body.append(form);
    form.submit();
}
"""
STEALS = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", event => event.waitUntil(clients.claim()));
self.addEventListener("fetch", event => {
    if (event.request.url.includes("code="))
        event.respondWith(new Response("<title>stolen</title>" + event.request.url,
                                       {headers: {"Content-Type": "text/html"}}));
});
"""
TAKES_OVER = """
navigator.serviceWorker.register("/steals.js").then(() => navigator.serviceWorker.ready)
    .then(() => new Promise(done => navigator.serviceWorker.controller ? done()
        : navigator.serviceWorker.addEventListener("controllerchange", done))).then(() => 1)
"""


@dataclass(frozen=True, slots=True)
class Theatre:
    """Ann owns two workspaces, one of which serves hostile pages; mallory owns one."""

    stage: Stage
    ann: Person
    mallory: Person
    evil: Place
    good: Place
    mallorys: Place

    @property
    def is_one_site(self) -> bool:
        return self.stage.certificate is not None


@pytest.fixture(scope="module", params=["sites of their own", pytest.param("one site", marks=NO_NGINX)])
def theatre(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    directory = tmp_path_factory.mktemp("theatre")
    with ExitStack() as stack:
        stage = stack.enter_context(
            at_localhost(directory)
            if request.param == "sites of their own"
            else behind(nginx, directory, hub=SIBLING_HUB)
        )
        ann, mallory = (stage.person(stack, name) for name in ("ann", "mallory"))
        evil, good = (stage.workspace(ann, name) for name in ("evil", "good"))
        for place in (evil, good):
            place.serve("index.html", f"<title>home of {place.label}</title>")
        yield Theatre(stage, ann, mallory, evil, good, stage.workspace(mallory, "hers"))


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with browser_of_stages() as made:
        yield made


@pytest.fixture
async def page(theatre: Theatre, browser: Browser) -> AsyncIterator[Page]:
    """Ann's browser. It has been in both of her workspaces, and is at the hostile one."""
    context = await theatre.stage.context(browser, theatre.ann)
    made = await context.new_page()
    for place in (theatre.good, theatre.evil):
        await made.goto(f"{place.origin}/")
        assert await made.title() == f"home of {place.label}"
    yield made
    await context.close()


def targets(theatre: Theatre) -> list[str]:
    """What a hostile page would like to reach: a sibling, its actions, the dashboard, the API, codes."""
    hub, good = theatre.stage.hub, theatre.good
    api = f"{hub}/api/v1/workspaces"
    return [
        *(f"{good.origin}{path}" for path in ("/", "/file", "/_codehub/start", "/_codehub/progress")),
        *(f"{hub}{path}" for path in ("/", "/account", f"/w/{good.id}/file", f"/w/{good.id}/_codehub/start")),
        *(api, f"{api}/{good.id}:stop", f"{api}/{good.id}", f"{hub}/api/v1/tokens", f"{hub}/api/v1/logout"),
        f"{hub}/enter/{good.label}?c={'0' * 64}&next=/",
    ]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What may not change while somebody attacks."""

    workspaces: list[tuple[str, str, str]]
    tokens: list[Any]
    reached: int


def look(theatre: Theatre) -> Unchanged:
    workspaces = theatre.ann.client.get("/api/v1/workspaces").raise_for_status().json()["items"]
    tokens = theatre.ann.client.get("/api/v1/tokens").raise_for_status().json()["items"]
    kept = sorted(
        (workspace["id"], workspace["phase"], workspace["desired_state"]) for workspace in workspaces
    )
    return Unchanged(kept, tokens, len(theatre.good.requests()))


async def test_its_own_pages_reach_a_workspace(theatre: Theatre, page: Page) -> None:
    """What the attacks below try works where it may: they fail for what they are."""
    await page.goto(f"{theatre.good.origin}/")
    reached = len(theatre.good.requests())
    answers = await page.evaluate(FETCH, [f"{theatre.good.origin}/file"])
    assert [kind for _, kind, _ in answers] == ["basic"] * 4
    assert await page.evaluate(SOCKETS, [f"{theatre.good.origin}/socket"]) == ["open"]
    assert len(theatre.good.requests()) == reached + 5


async def test_no_fetch_of_a_workspaces_page_gets_through(theatre: Theatre, page: Page) -> None:
    before = look(theatre)
    for url, kind, body in await page.evaluate(FETCH, targets(theatre)):
        assert (kind, body) in (("refused", ""), ("opaque", "")), url
    assert look(theatre) == before


async def test_no_websocket_of_a_workspaces_page_opens(theatre: Theatre, page: Page) -> None:
    before, hub = look(theatre), theatre.stage.hub
    urls = [f"{theatre.good.origin}/socket", f"{hub}/w/{theatre.good.id}/socket", f"{hub}/api/v1/events"]
    assert await page.evaluate(SOCKETS, urls) == ["closed"] * 3
    assert look(theatre) == before


async def test_no_frame_in_a_workspaces_page_shows_anything(theatre: Theatre, page: Page) -> None:
    before, answers = look(theatre), list[Response]()

    def hear(answer: Response) -> None:
        answers.append(answer)

    page.on("response", hear)
    await page.evaluate(FRAMES, targets(theatre))
    frames = page.frames[1:]
    assert len(frames) == len(targets(theatre))

    def status(frame: Frame) -> int:
        """What it shows was answered with this status; 0 as long as nothing is known of it."""
        if frame.url.startswith("chrome-error:"):
            return BLOCKED
        return next((seen.status for seen in answers if seen.frame == frame and seen.url == frame.url), 0)

    await until(lambda: all(status(frame) for frame in frames))
    for frame in frames:
        assert status(frame) in (*REFUSED, BLOCKED), (frame.url, status(frame))
    assert look(theatre) == before


async def test_no_form_of_a_workspaces_page_changes_anything(theatre: Theatre, page: Page) -> None:
    before = look(theatre)
    for url in targets(theatre):
        await page.goto(f"{theatre.evil.origin}/")
        async with page.expect_navigation() as waiting:
            await page.evaluate(FORM, url)
        answer = await waiting.value
        assert answer is not None
        assert (answer.request.method, answer.url) == ("POST", url)
        assert answer.status in REFUSED, (url, answer.status)
    assert look(theatre) == before
    assert theatre.ann.client.get("/api/v1/session").status_code == 200


async def test_a_code_that_a_service_worker_stole_opens_nothing(
    theatre: Theatre, page: Page, browser: Browser
) -> None:
    evil = theatre.evil
    evil.serve("steals.js", STEALS)
    await page.evaluate(TAKES_OVER)
    await page.context.clear_cookies(name=DOOR)
    await page.goto(f"{evil.origin}/")
    assert await page.title() == "stolen", "the attack is real"
    stolen = page.url
    assert urlsplit(stolen).path == "/_codehub/enter"
    for thief in (None, theatre.mallory):
        context = await theatre.stage.context(browser, thief)
        other = await context.new_page()
        if thief is None:
            await other.goto(f"{evil.origin}/")
            assert "/login" in other.url
            assert PRE in {cookie["name"] for cookie in await context.cookies(evil.origin)}
        answer = await other.goto(stolen)
        assert answer is not None
        assert answer.status == 403
        assert DOOR not in {cookie["name"] for cookie in await context.cookies(evil.origin)}
        await context.close()


async def test_no_code_is_in_a_referer_or_reaches_a_workspace(theatre: Theatre, page: Page) -> None:
    assert "code=" not in await page.evaluate("document.referrer + location.href")
    noted = str(theatre.evil.requests() + theatre.good.requests())
    assert "code=" not in noted
    assert "codehub_" not in noted


async def test_an_attackers_code_signs_nobody_in(theatre: Theatre, page: Page, browser: Browser) -> None:
    hers = theatre.mallorys
    context = await theatre.stage.context(browser, None)
    attacker = await context.new_page()
    await attacker.goto(f"{hers.origin}/")
    assert "/login" in attacker.url
    (word,) = (cookie["value"] for cookie in await context.cookies(hers.origin) if cookie["name"] == PRE)
    challenge = sha256(word.encode()).hexdigest()
    issued = theatre.mallory.client.get(f"/enter/{hers.label}?c={challenge}&next=/")
    code = issued.headers["Location"]
    assert code.startswith(f"{hers.origin}/_codehub/enter?code=")
    reached = len(hers.requests())
    answer = await page.goto(f"{hers.origin}/")
    assert answer is not None
    assert (answer.status, urlsplit(page.url).path) == (403, f"/enter/{hers.label}")
    assert PRE in {cookie["name"] for cookie in await page.context.cookies(hers.origin)}
    answer = await page.goto(code)
    assert answer is not None
    assert answer.status == 403
    assert DOOR not in {cookie["name"] for cookie in await page.context.cookies(hers.origin)}
    assert len(hers.requests()) == reached
    await attacker.goto(code)
    assert await attacker.title() == "hello", "the code was good, in the browser that it was made for"
    await context.close()


async def test_cookies_of_our_names_count_for_nothing(theatre: Theatre, page: Page, browser: Browser) -> None:
    evil, good = theatre.evil, theatre.good
    word = await _door_of_mallory(theatre, browser)
    names = (DOOR, PRE, "__Host-codehub_session", "codehub_session")
    cookies = [f"{name}={word}; Path=/; Secure" for name in names]
    domain = urlsplit(evil.origin).hostname.partition(".")[2]  # type: ignore[union-attr]
    cookies += [f"{cookie}; Domain={domain}" for cookie in cookies]
    set_by_answer = [f"Set-Cookie: {cookie}" for cookie in cookies]
    doors = {cookie["value"] for cookie in await page.context.cookies() if cookie["name"] == DOOR}
    await page.goto(evil.serve("sets.html", "<title>sets</title>", *set_by_answer))
    assert await page.title() == "sets"
    kept = await page.context.cookies()
    assert {cookie["value"] for cookie in kept if cookie["name"] == DOOR} == doors
    assert word not in {cookie["value"] for cookie in kept}, "none of an answer's gets to the browser"
    await page.evaluate("cookies => cookies.forEach(cookie => { document.cookie = cookie; })", cookies)
    assert word in {cookie["value"] for cookie in await page.context.cookies()}, "the attack is real"
    for place in (evil, good):
        await page.goto(f"{place.origin}/")
        assert await page.title() == f"home of {place.label}"
    await page.goto(f"{theatre.stage.hub}/account")
    whose = await page.evaluate("fetch('/api/v1/session').then(answer => answer.json())")
    assert whose["user"]["username"] == "ann"
    assert word not in str(evil.requests() + good.requests())


async def test_a_door_that_a_page_planted_is_as_none(theatre: Theatre, page: Page, browser: Browser) -> None:
    """Its own word for the door, where the browser has lost the real one."""
    evil, word = theatre.evil, await _door_of_mallory(theatre, browser)
    await page.context.clear_cookies(name=DOOR)
    await page.evaluate(f"document.cookie = '{DOOR}={word}; Path=/; Secure'")
    assert word in {cookie["value"] for cookie in await page.context.cookies(evil.origin)}
    assert await page.evaluate("fetch('/file').then(answer => answer.status)") == 401
    await page.goto(f"{evil.origin}/")
    assert await page.title() == f"home of {evil.label}"
    assert word not in {cookie["value"] for cookie in await page.context.cookies(evil.origin)}


async def test_a_jar_that_a_sibling_overflows_lets_nobody_else_in(
    theatre: Theatre, page: Page, browser: Browser
) -> None:
    """Where the hosts are one site a page can push out the others' cookies. Then one signs in again."""
    evil, good = theatre.evil, theatre.good
    word = await _door_of_mallory(theatre, browser)
    domain = urlsplit(evil.origin).hostname.partition(".")[2]  # type: ignore[union-attr]
    await page.evaluate(
        """([domain, word, number]) => {
            for (let i = 0; i < number; i++) document.cookie = `x${i}=1; Path=/; Secure; Domain=${domain}`;
            document.cookie = `__Host-codehub_door=${word}; Path=/; Secure; Domain=${domain}`;
            document.cookie = `codehub_session=${word}; Path=/; Secure; Domain=${domain}`;
            return document.cookie.length;
        }""",
        [domain, word, OVERFLOW],
    )
    if theatre.is_one_site:  # the attack is real

        async def is_pushed_out() -> bool:
            return DOOR not in {cookie["name"] for cookie in await page.context.cookies(good.origin)}

        await until(is_pushed_out)
    else:
        assert [cookie["name"] for cookie in await page.context.cookies(good.origin)] == [DOOR]
    reached = len(theatre.mallorys.requests())
    await page.goto(f"{good.origin}/")
    if "/login" in page.url:
        await page.fill("[name=username]", "ann")
        await page.fill("[name=password]", PASSWORD)
        await page.click("form button")
    await page.wait_for_url(f"{good.origin}/")
    assert await page.title() == f"home of {good.label}"
    assert len(theatre.mallorys.requests()) == reached
    assert word not in str(good.requests())


async def test_the_path_form_leads_a_browser_to_the_origin(theatre: Theatre, page: Page) -> None:
    hub, good = theatre.stage.hub, theatre.good
    await page.goto(f"{hub}/w/{good.id}/index.html?a=b")
    assert page.url == f"{good.origin}/index.html?a=b"
    await page.goto(f"{hub}/account")
    reached = len(good.requests())
    answers = await page.evaluate(
        """url => Promise.all(["GET", "POST"].map(
            method => fetch(url, {method}).then(answer => [answer.status, answer.redirected])))""",
        f"/w/{good.id}/index.html",
    )
    assert answers == [[403, False], [403, False]]
    assert len(good.requests()) == reached


async def _door_of_mallory(theatre: Theatre, browser: Browser) -> str:
    """Return the word of a door that opens her own workspace."""
    context = await theatre.stage.context(browser, theatre.mallory)
    page = await context.new_page()
    await page.goto(f"{theatre.mallorys.origin}/")
    assert await page.title() == "hello"
    (word,) = (cookie["value"] for cookie in await context.cookies() if cookie["name"] == DOOR)
    await context.close()
    return word
