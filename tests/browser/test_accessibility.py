"""The dashboard in Chromium: by keyboard, with a screen reader, on a phone, in Korean, in the dark."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Page, expect
from tests.browser.conftest import Pages, row
from tests.support.chromium import box, serious, sign_in
from tests.support.site import API, Site, create

from codehub.core.access import Role

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


async def test_every_group_of_the_health_page_has_a_heading(site: Site, pages: Pages) -> None:
    await site.user("ann", Role.ADMIN)
    page = await pages()
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/admin/health")
    counts = page.get_by_role("region", name="All workspaces")
    await expect(counts.get_by_role("heading", name="All workspaces", level=2)).to_be_visible()
    await expect(counts.get_by_role("link")).to_have_count(5)
    await expect(page.locator("main :is(ul.tiles, ul.seen):not(section:has(> h2) *)")).to_have_count(0)


async def test_everything_can_be_done_by_keyboard(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.focus(f"#s-{workspace['id']}")
    await page.keyboard.press("Enter")
    await expect(page.locator(f"#m-{workspace['id']}")).to_have_attribute("open", "")
    await page.keyboard.press("Escape")
    await expect(page.locator(f"#s-{workspace['id']}")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Asleep")


async def test_the_focus_stays_where_it_was_while_rows_change(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages()
    await sign_in(page, site, "ann")
    await page.click(f"#s-{workspace['id']}")
    await api.post(f"{API}/workspaces/{workspace['id']}:stop")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Asleep")
    await expect(page.locator(f"#m-{workspace['id']}")).to_have_attribute("open", "")
    await expect(page.locator(f"#s-{workspace['id']}")).to_be_focused()


@pytest.mark.parametrize(
    ("scheme", "options"), [("light", {}), ("dark", PHONE)], ids=["desk-light", "phone-dark"]
)
async def test_axe_finds_nothing_serious_anywhere(
    site: Site, pages: Pages, scheme: str, options: dict[str, Any]
) -> None:
    await site.user("ann", Role.ADMIN)
    await site.user("bob")
    api = await site.browser("ann", Role.ADMIN)
    demo = await create(api, "demo", description="Something to look at")
    resting = await create(api, "resting", desired_state="STANDBY")
    stored = await create(api, "stored", desired_state="ARCHIVED")
    gone = await create(api, "gone", desired_state="PENDING")
    await site.arrives(api, gone["id"], "PENDING")
    await api.delete(f"{API}/workspaces/{gone['id']}")
    await api.post(f"{API}/tokens", json={"name": "ci", "scope": "read"})
    for workspace, phase in (
        (demo, "RUNNING"),
        (resting, "STANDBY"),
        (stored, "ARCHIVED"),
        (gone, "DELETED"),
    ):
        await site.arrives(api, workspace["id"], phase)
    page = await pages(color_scheme=scheme, **options)
    await page.goto(f"{site.address}/login")
    assert await serious(page) == []
    await sign_in(page, site, "ann")
    own = f"/workspaces/{demo['id']}"
    for place in (
        "/",
        "/new",
        own,
        f"{own}/settings",
        "/trash",
        "/account",
        "/admin/workspaces",
        "/admin/users",
        "/admin/health",
        "/workspaces/x",
    ):
        await page.goto(f"{site.address}{place}")
        assert await serious(page) == [], place
        assert not await overflows(page), f"{place} is wider than the screen"
    await page.goto(f"{site.address}/admin/users")
    await page.evaluate("document.querySelector('.people .bad').removeAttribute('data-sure')")
    for button in ("Disable bob", "Disable"):  # the second answers the question
        await page.get_by_role("button", name=button).click()
        await page.wait_for_selector(".alone" if button == "Disable bob" else ".said")
        assert await serious(page) == [], button
        assert not await overflows(page), button
    await page.goto(f"{site.address}/")
    await page.click(f"#s-{demo['id']}")
    assert await serious(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_edge_of_a_field_stands_out_from_what_is_around_it(
    site: Site, pages: Pages, scheme: str
) -> None:
    """WCAG 1.4.11, which axe does not check: at least 3 to 1 against the field and against its ground."""
    await site.user("ann", Role.ADMIN)
    page = await pages(color_scheme=scheme)
    await page.goto(f"{site.address}/login")
    faint = await faint_edges(page)
    await sign_in(page, site, "ann")
    for place in ("/", "/new", "/account", "/admin/users"):
        await page.goto(f"{site.address}{place}")
        faint += await faint_edges(page)
    assert faint == []


async def faint_edges(page: Page) -> list[str]:
    edges: list[str] = await page.evaluate(
        """() => {
          const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
          const light = (color) => {
            const [r, g, b] = numbers(color)
              .map((channel) => channel / 255)
              .map((channel) => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ratio = (one, other) => {
            const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
          };
          const ground = (element) => {
            const color = getComputedStyle(element).backgroundColor;
            return numbers(color)[3] === 0 ? ground(element.parentElement) : color;
          };
          const input = "input:not([type=hidden], [type=radio], [type=checkbox])";
          const fields = [...document.querySelectorAll(`main :is(${input}, select, textarea):not(:focus)`)];
          if (!fields.length) return ["no field on " + location.pathname];
          return fields.filter((field) => {
            const edge = getComputedStyle(field).borderTopColor;
            return [field, field.parentElement].some((element) => ratio(edge, ground(element)) < 3);
          }).map((field) => location.pathname + " " + field.name);
        }"""
    )
    return edges


@pytest.mark.parametrize("locale", ["en-US", "ko-KR"])
async def test_no_part_of_the_navigation_is_cut_off(site: Site, pages: Pages, locale: str) -> None:
    await site.user("ann", Role.ADMIN)
    page = await pages(locale=locale)
    await sign_in(page, site, "ann")
    links = page.locator(".bar nav a")
    await expect(links).to_have_count(5)
    for width in (320, 390, 700, 833):
        await page.set_viewport_size({"width": width, "height": 844})
        for link in await links.all():
            await expect(link).to_be_in_viewport(ratio=1)
        is_whole = (
            "[document.querySelector('.bar nav'), document.documentElement]"
            ".every((element) => element.scrollWidth <= element.clientWidth)"
        )
        assert await page.evaluate(is_whole), width


async def overflows(page: Page) -> bool:
    wide: bool = await page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide


async def test_on_a_phone_a_workspace_is_opened_and_stopped_with_a_thumb(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages(**PHONE)
    await sign_in(page, site, "ann")
    assert (await box(page, f"#p-{workspace['id']}"))["height"] >= 36
    await page.tap(f"#s-{workspace['id']}")
    await expect(page.locator(f"#m-{workspace['id']} .drop")).to_be_visible()
    menu = await box(page, f"#m-{workspace['id']} .drop")
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= 390
    await page.locator(f"#m-{workspace['id']}").get_by_role("button", name="Put to sleep").tap()
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("Asleep")


async def test_on_a_phone_a_persons_password_can_be_set(site: Site, pages: Pages) -> None:
    await site.user("ann", Role.ADMIN)
    await site.user("bob")
    page = await pages(**PHONE)
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}/admin/users")
    bob = page.get_by_role("row").filter(has_text="bob")
    await bob.locator("summary").tap()
    await expect(bob.locator(".drop")).to_be_in_viewport(ratio=1)
    assert not await overflows(page)
    await bob.get_by_label("New password for bob").fill("another horse")
    await bob.get_by_role("button", name="Save").tap()
    await expect(page.locator(".said")).to_contain_text("bob has a new password")


@pytest.mark.parametrize(("locale", "year"), [("en-US", "2026, "), ("ko-KR", "2026. ")])
async def test_a_time_says_exactly_when_to_whoever_points_at_it(
    site: Site, pages: Pages, locale: str, year: str
) -> None:
    """By the clock of whoever looks; without scripts in UTC."""
    api = await site.browser("ann")
    workspace = await create(api, "demo", desired_state="PENDING")
    place = f"/workspaces/{workspace['id']}"
    at = datetime.fromisoformat(workspace["created_at"])
    assert f'title="{at:%Y-%m-%d %H:%M:%S} UTC"' in (await api.get(place)).text
    page = await pages(locale=locale, timezone_id="Asia/Seoul")
    await sign_in(page, site, "ann")
    await page.goto(f"{site.address}{place}")
    local_time = at.astimezone(ZoneInfo("Asia/Seoul"))
    times = page.locator(".timeline time")
    await expect(times.first).to_have_attribute("title", re.compile(f"{local_time:%M:%S}"))
    await expect(times.first).to_have_attribute("title", re.compile(year.replace("2026", f"{local_time:%Y}")))


async def test_in_korean_every_word_is_korean(site: Site, pages: Pages) -> None:
    api = await site.browser("ann")
    workspace = await create(api, "demo")
    await site.arrives(api, workspace["id"], "RUNNING")
    page = await pages(locale="ko-KR")
    await sign_in(page, site, "ann")
    await expect(page.locator(f"{row(workspace)} .badge")).to_have_text("실행 중")
    await expect(page.get_by_role("heading", name="워크스페이스")).to_be_visible()
    await page.locator(row(workspace)).get_by_role("link", name="demo", exact=True).click()
    await expect(page.locator("#explain-title")).to_have_text("지금 상황")
    await page.get_by_role("button", name="재우기").first.click()
    await expect(page.locator(".ws-head .badge")).to_have_text("잠듦")
    assert await page.get_attribute("html", "lang") == "ko"


async def test_the_dark_scheme_has_a_dark_background(site: Site, pages: Pages) -> None:
    page = await pages(color_scheme="dark")
    await sign_in(page, site, "ann")
    background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(14, 15, 19)"
