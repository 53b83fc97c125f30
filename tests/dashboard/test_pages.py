"""Pages as they leave the server: what they say, in which language, and what an unknown address gives."""

from typing import Any
from uuid import UUID

import pytest
from tests.support.site import API, WATCHES, Site, create

from codehub.core.access import Role
from codehub.core.disk_space import DiskSpace, Usage
from codehub.dashboard.assets import ASSETS

PARTIAL = {"HX-Request": "true"}


async def test_every_page_says_that_the_disk_is_nearly_full_until_it_is_not(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann, "demo")
    await site.arrives(ann, workspace["id"], "RUNNING")
    await site.world.controller.write_shortage(DiskSpace(12, 1024))
    now = await site.world.now()
    await site.world.controller.write_usage({UUID(workspace["id"]): Usage(300, 0.5, 2000, now)})
    for place in ("/", "/new", "/trash", f"/workspaces/{workspace['id']}"):
        assert "The disk is nearly full: 12 MB are free" in (await ann.get(place)).text
    in_korean = await ann.get("/", headers={"Accept-Language": "ko"})
    assert "디스크가 거의 찼습니다" in in_korean.text
    assert (
        "300 MB of memory · 0.5 CPU · 2000 MB of disk"
        in (await ann.get(f"/workspaces/{workspace['id']}")).text
    )
    usage = (await ann.get(f"{API}/workspaces/{workspace['id']}")).json()["usage"]
    assert (usage["memory_mb"], usage["cpu"], usage["disk_mb"]) == (300, 0.5, 2000)
    await site.world.controller.write_shortage(None)
    assert "nearly full" not in (await ann.get("/")).text


async def test_a_head_request_for_a_page_is_answered(site: Site) -> None:
    ann = await site.browser("ann")
    for path in ("/login", "/", "/account", ASSETS["codehub.js"].address):
        head, page = await ann.head(path), await ann.get(path)
        assert (head.status_code, head.content) == (page.status_code, b""), path
        assert head.headers.get("content-type") == page.headers.get("content-type")
    async with site.anybody() as nobody:
        assert (await nobody.head("/login")).status_code == 200


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/account/tokens", "/account"),
        ("/account/password", "/account"),
        ("/account/tokens/x/delete", "/account"),
        ("/admin/users/x", "/admin/users"),
    ],
)
async def test_an_address_that_only_answers_to_forms_leads_to_their_page(
    site: Site, path: str, place: str
) -> None:
    root = await site.browser("root", Role.ADMIN)
    answer = await root.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, place)


@pytest.mark.parametrize(
    ("language", "word"), [("ko-KR,ko;q=0.9", "워크스페이스"), ("de, en;q=0.5", "Workspaces")]
)
async def test_pages_speak_the_browsers_language(site: Site, language: str, word: str) -> None:
    ann = await site.browser("ann")
    answer = await ann.get("/", headers={"Accept-Language": language})
    assert word in answer.text
    assert answer.headers["content-language"] == ("ko" if "ko" in language else "en")
    assert answer.headers["vary"] == "Accept-Language, Accept-Encoding"
    assert answer.headers["content-encoding"] == "gzip"


async def test_pages_say_that_the_database_is_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from codehub.ports.store import StoreUnavailable  # noqa: PLC0415

    ann = await site.browser("ann")

    async def away(*_args: Any) -> Any:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(site.parts.store, "now", away)
    answer = await ann.get("/")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "Nothing is lost" in answer.text
    assert "gone fishing" not in answer.text


async def test_assets_are_compressed_and_cached_for_ever_by_their_hash(site: Site) -> None:
    async with site.anybody() as client:
        for asset in ASSETS.values():
            answer = await client.get(asset.address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.content == asset.body
            plain = await client.get(asset.address, headers={"Accept-Encoding": "identity"})
            assert plain.content == asset.body
        assert (await client.get("/assets/000000000000/codehub.css")).status_code == 404


async def test_an_unknown_address_gives_a_browser_a_page_and_a_program_json(site: Site) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with site.anybody() as nobody:
        page = await nobody.get("/nowhere", headers={**browser, "Accept-Language": "ko"})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "이 주소에는 아무것도 없습니다." in page.text
        assert "Content-Security-Policy" in page.headers
        assert (await nobody.get("/logout", headers=browser)).status_code == 404
        for path, headers in (("/nowhere", {}), (f"{API}/nowhere", browser)):
            answer = await nobody.get(path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_an_internal_error_gives_a_browser_a_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await site.browser("ann")

    async def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(site.parts.store, "page", broken)
    page = await ann.get("/", headers={"Accept": "text/html", "X-Request-Id": "look-me-up"})
    assert (page.status_code, page.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert page.headers["x-request-id"] == "look-me-up"
    assert "look-me-up" in page.text
    assert "mistake" not in page.text
    answer = await ann.get(f"{API}/workspaces")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert answer.headers["x-request-id"]
    counted = (await ann.get("/metrics", headers=WATCHES)).text
    assert 'route="/api/v1/workspaces",status="500"' in counted
