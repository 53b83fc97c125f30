"""Pages as they leave the server: who gets them, what they say, and that nothing hostile gets into them."""

import re
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.support.site import API, PASSWORD, WATCHES, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role
from codehub.core.disk_space import DiskSpace, Usage
from codehub.dashboard.app import TABLE
from codehub.dashboard.assets import ASSETS
from codehub.dashboard.auth import Audience
from codehub.dashboard.redirects import local_path

HOSTILE = "\"><script>alert(1)</script>{{7*7}}'&"
PARTIAL = {"HX-Request": "true"}


def own(site: Site) -> dict[str, str]:
    return {"Origin": site.parts.base_url}


async def post(client: httpx.AsyncClient, site: Site, path: str, **fields: str) -> httpx.Response:
    return await client.post(path, data=fields, headers=own(site))


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (None, "/"),
        ("", "/"),
        (
            "/w/019a8b00-0000-7000-8000-000000000001/lab?x=1",
            "/w/019a8b00-0000-7000-8000-000000000001/lab?x=1",
        ),
        ("/account", "/account"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nSet-Cookie: x=1", "/"),
        ("/\t/evil.example", "/"),
        ("w/1", "/"),
    ],
)
def test_the_way_on_after_signing_in_stays_on_this_site(given: str | None, place: str) -> None:
    assert local_path(given) == place


async def test_every_page_says_that_the_disk_is_nearly_full_until_it_is_not(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo")
    await site.arrives(ann, made["id"], "RUNNING")
    await site.world.controller.write_shortage(DiskSpace(12, 1024))
    now = await site.world.now()
    await site.world.controller.write_usage({UUID(made["id"]): Usage(300, 0.5, 2000, now)})
    for place in ("/", "/new", "/trash", f"/workspaces/{made['id']}"):
        assert "The disk is nearly full: 12 MB are free" in (await ann.get(place)).text
    in_korean = await ann.get("/", headers={"Accept-Language": "ko"})
    assert "디스크가 거의 찼습니다" in in_korean.text
    assert "300 MB of memory · 0.5 CPU · 2000 MB of disk" in (await ann.get(f"/workspaces/{made['id']}")).text
    shown = (await ann.get(f"{API}/workspaces/{made['id']}")).json()
    assert (shown["usage"]["memory_mb"], shown["usage"]["cpu"], shown["usage"]["disk_mb"]) == (300, 0.5, 2000)
    await site.world.controller.write_shortage(None)
    assert "nearly full" not in (await ann.get("/")).text


async def test_whoever_only_wants_the_head_of_a_page_gets_it(site: Site) -> None:
    ann = await site.browser("ann")
    for path in ("/login", "/", "/account", ASSETS["codehub.js"].address):
        head, page = await ann.head(path), await ann.get(path)
        assert (head.status_code, head.content) == (page.status_code, b""), path
        assert head.headers.get("content-type") == page.headers.get("content-type")
    async with site.anybody() as nobody:
        assert (await nobody.head("/login")).status_code == 200


async def test_nobody_gets_a_page_without_signing_in_and_comes_back_to_it_afterwards(site: Site) -> None:
    await site.user("ann")
    async with site.anybody() as client:
        turned = await client.get("/account")
        assert (turned.status_code, turned.headers["location"]) == (303, "/login?next=/account")
        assert (await client.get("/")).headers["location"] == "/login"
        wrong = await post(client, site, "/login", username="ann", password="no", next="/account")
        assert wrong.status_code == 401
        assert "The name or the password is wrong." in wrong.text
        assert "no" not in re.findall(r'value="([^"]*)"', wrong.text)
        done = await post(client, site, "/login", username="ann", password=PASSWORD, next="/account")
        assert (done.status_code, done.headers["location"]) == (303, "/account")
        assert "HttpOnly; SameSite=Lax" in done.headers["set-cookie"]
        assert (await client.get("/login?next=//evil.example")).headers["location"] == "/"
        assert (await client.get("/account")).status_code == 200
        assert (await post(client, site, "/logout")).headers["location"] == "/login"
        assert (await client.get("/account")).status_code == 303


async def test_a_wrong_password_while_signed_in_is_told_and_leaves_the_session_alone(site: Site) -> None:
    ann = await site.browser("ann")
    wrong = await post(ann, site, "/login", username="ann", password="no", next="/account")
    assert wrong.status_code == 401
    assert "The name or the password is wrong." in wrong.text
    assert (await ann.get("/account")).status_code == 200


async def test_a_part_of_a_page_sends_whoever_lost_the_session_to_sign_in(site: Site) -> None:
    async with site.anybody() as client:
        headers = {**PARTIAL, "HX-Current-URL": f"{site.address}/workspaces/x?q=a"}
        answer = await client.get("/rows?id=x", headers=headers)
        assert (answer.status_code, answer.headers["hx-redirect"]) == (
            401,
            "/login?next=/workspaces/x%3Fq%3Da&ended=page",
        )


async def test_whoever_sends_a_form_after_the_session_ended_is_told_and_comes_back_to_its_page(
    site: Site,
) -> None:
    ann = await site.browser("ann")
    made = await create(ann, "demo", desired_state="PENDING")
    page = f"/workspaces/{made['id']}/settings"
    await ann.post(f"{API}/logout")
    headers = {**own(site), "Referer": f"{site.address}{page}"}
    turned = await ann.post(page, data={"name": "renamed"}, headers=headers)
    assert (turned.status_code, turned.headers["location"]) == (303, f"/login?next={page}&ended=1")
    login = (await ann.get(turned.headers["location"])).text
    assert "Your session has ended. Nothing was saved; sign in again." in login
    assert f'name="next" value="{page}"' in login
    live = (await ann.get("/login?next=/&ended=page")).text
    assert "Your session has ended. Sign in again." in live
    pressed = await ann.post(
        f"/workspaces/{made['id']}/start", headers=headers | PARTIAL | {"HX-Current-URL": f"{site.address}/"}
    )
    assert pressed.headers["hx-redirect"] == "/login?next=/&ended=1"
    for referer in ("https://evil.example//evil.example", "nonsense", "http://["):
        turned = await ann.post("/new", headers={**own(site), "Referer": referer})
        assert turned.headers["location"] == "/login?next=/&ended=1"
    assert (await post(ann, site, "/logout")).headers["location"] == "/login"


async def test_the_way_on_may_be_written_in_any_script(site: Site) -> None:
    await site.user("ann")
    place = "/%ED%95%9C?x=%26"
    async with site.anybody() as client:
        done = await post(client, site, "/login", username="ann", password=PASSWORD, next="/한?x=%26")
        assert (done.status_code, done.headers["location"]) == (303, place)
        again = await client.get("/login", params={"next": "/한?x=%26"})
        assert (again.status_code, again.headers["location"]) == (303, place)


@pytest.mark.parametrize("url", ["http://[", "http://x]/", "", "//", "/\xff"])
async def test_an_address_that_is_none_leads_home(site: Site, url: str) -> None:
    async with site.anybody() as client:
        headers = {b"HX-Request": b"true", b"HX-Current-URL": url.encode("latin-1")}
        answer = await client.get("/", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"].startswith("/login?next=/")


async def test_too_many_wrong_passwords_have_to_wait(site: Site) -> None:
    await site.user("ann")
    async with site.anybody() as client:
        # Each wait is twice as long as the one before: soon one is not over when the next try comes, however slow the machine is.
        answers = [await post(client, site, "/login", username="ann", password="no") for _ in range(10)]
        throttled = [answer for answer in answers[5:] if answer.status_code == 429]
        assert throttled
        assert int(throttled[-1].headers["retry-after"]) >= 1


async def test_whoever_tries_too_many_old_passwords_has_to_wait(site: Site) -> None:
    ann = await site.browser("ann")
    tried = [
        await post(ann, site, "/account/password", old="no", new="another horse", again="another horse")
        for _ in range(10)
    ]
    throttled = [answer for answer in tried[5:] if answer.status_code == 429]
    assert throttled
    assert int(throttled[-1].headers["retry-after"]) >= 1
    assert "Too many failed tries." in throttled[-1].text


async def test_every_change_refuses_another_site(site: Site) -> None:
    ann = await site.browser("ann", Role.ADMIN)
    some_id = "019a8b00-0000-7000-8000-000000000001"
    for method, path, _door, _handler in TABLE:
        if method == "POST":
            place = re.sub(r"\{\w+\}", some_id, path)
            for headers in (
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                answer = await ann.post(place, headers=headers)
                assert answer.status_code == 403, (path, headers)
                assert site.parts.base_url in answer.text


async def test_every_page_has_the_strict_policy_and_no_inline_script_or_style(site: Site) -> None:
    ann = await site.browser("ann", Role.ADMIN)
    made = await create(ann, "demo")
    places = [path.replace("{workspace_id}", made["id"]) for method, path, _, _ in TABLE if method == "GET"]
    files = f"{site.address.removeprefix('http://')}/assets/"
    policy = f"default-src 'none'; script-src {files}; style-src {files}; img-src {files}; connect-src 'self'"
    for place in [*places, "/workspaces/none", "/admin/users"]:
        answer = await ann.get(place)
        if answer.status_code == 303:
            continue
        assert answer.headers["content-security-policy"].startswith(policy), place
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", answer.text), place
        assert all("src=" in script for script in re.findall(r"<script[^>]*>", answer.text)), place
        addresses = re.findall(r'(?:src|href|action|hx-get|hx-post)="([^"#]*)', answer.text)
        assert all(
            address.startswith("/") and not address.startswith("//") for address in addresses if address
        ), place


@pytest.mark.parametrize(
    ("host", "files"),
    [
        ("code.example.org", "code.example.org/assets/"),
        ("CODE.example.org:8000", "code.example.org/assets/ code.example.org:8000/assets/"),
        ("[::1]:8000", "'self'"),
        ("x; script-src *", "'self'"),
    ],
)
async def test_a_page_loads_codehub_s_own_files_and_nothing_that_a_workspace_serves(
    host: str, files: str
) -> None:
    """By whatever address it was opened; behind a proxy that names another host, by the public one."""
    async with (
        open_site(memory_world(), base_url="https://code.example.org") as site,
        site.anybody() as client,
    ):
        policy = (await client.get("/login", headers={"Host": host})).headers["content-security-policy"]
    assert f"; script-src {files}; style-src {files}; img-src {files}; " in policy


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


async def test_only_admins_see_what_is_for_admins(site: Site) -> None:
    ann = await site.browser("ann")
    for method, path, door, _handler in TABLE:
        if door is Audience.ADMIN:
            answer = await ann.request(method, path.replace("{user_id}", "x"), headers=own(site))
            assert answer.status_code == 403, path
    assert "/admin/" not in (await ann.get("/")).text


async def test_two_people_cannot_see_each_other(site: Site) -> None:
    ann, bob = await site.browser("ann"), await site.browser("bob")
    made = await create(ann, "anns-secret")
    assert "anns-secret" in (await ann.get("/")).text
    assert "anns-secret" not in (await bob.get("/")).text
    assert "anns-secret" not in (await bob.get(f"/rows?id={made['id']}&owner=all")).text
    for path in ("", "/logs", "/history", "/settings"):
        answer = await bob.get(f"/workspaces/{made['id']}{path}")
        assert answer.status_code == 403, path
        assert "anns-secret" not in answer.text
    for word in (
        "start",
        "stop",
        "archive",
        "delete",
        "purge",
        "undelete",
        "recover",
        "keep_awake",
        "settings",
    ):
        answer = await post(bob, site, f"/workspaces/{made['id']}/{word}")
        assert answer.status_code == 403, word
    assert (await ann.get(f"{API}/workspaces/{made['id']}")).json()["deleted_at"] is None


async def test_an_admin_sees_everybodys_but_opens_only_their_own(site: Site) -> None:
    ann, root = await site.browser("ann"), await site.browser("root", Role.ADMIN)
    made = await create(ann, "anns")
    shown = (await root.get("/admin/workspaces")).text
    assert "anns" in shown
    assert f"/w/{made['id']}/" not in shown
    detail = (await root.get(f"/workspaces/{made['id']}")).text
    assert "Only its owner can open it." in detail
    assert f"/w/{made['id']}/" not in detail


async def test_hostile_words_stay_words(site: Site) -> None:
    ann = await site.browser("ann", Role.ADMIN)
    made = await create(ann, HOSTILE, description=HOSTILE)
    await ann.post(f"{API}/tokens", json={"name": HOSTILE, "scope": "read"})
    for path in (
        "/",
        f"/workspaces/{made['id']}",
        f"/workspaces/{made['id']}/settings",
        "/account",
        f"/?q={HOSTILE}",
    ):
        text = (await ann.get(path)).text
        assert "<script>alert" not in text, path
        assert "&lt;script&gt;alert(1)" in text, path
        assert "49" not in re.findall(r"alert\(1\)[^<]{0,40}", text)[0], path
    answer = await ann.post(f"/workspaces/{made['id']}/delete", headers={**own(site), **PARTIAL})
    assert "<script>alert" not in answer.text
    async with site.anybody() as nobody:
        login = await post(nobody, site, "/login", username=HOSTILE, password="x", next='/"><script>')
    assert "<script>alert" not in login.text
    assert '"><script>' not in login.text


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


async def test_while_the_database_is_away_pages_say_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from codehub.ports.store import StoreUnavailable  # noqa: PLC0415

    ann = await site.browser("ann")

    async def away(*_args: Any) -> Any:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(site.parts.store, "now", away)
    answer = await ann.get("/")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "Nothing is lost" in answer.text
    assert "gone fishing" not in answer.text


async def test_assets_are_packed_and_kept_for_ever_under_their_own_hash(site: Site) -> None:
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


def test_what_is_vendored_is_what_was_published() -> None:
    import hashlib  # noqa: PLC0415
    from importlib.resources import files  # noqa: PLC0415

    static = files("codehub.dashboard").joinpath("static")
    digest = hashlib.sha256(static.joinpath("htmx.min.js").read_bytes()).hexdigest()
    assert digest in static.joinpath("VENDORED.txt").read_text()
    assert "Zero-Clause BSD" in static.joinpath("htmx.LICENSE").read_text()


async def test_a_browser_that_goes_astray_gets_a_page_and_a_program_json(site: Site) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with site.anybody() as nobody:
        lost = await nobody.get("/nowhere", headers={**browser, "Accept-Language": "ko"})
        assert (lost.status_code, lost.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "이 주소에는 아무것도 없습니다." in lost.text
        assert "Content-Security-Policy" in lost.headers
        assert (await nobody.get("/logout", headers=browser)).status_code == 404
        for path, headers in (("/nowhere", {}), (f"{API}/nowhere", browser)):
            answer = await nobody.get(path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_what_fails_though_it_should_not_is_a_page_in_a_browser(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await site.browser("ann")

    async def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(site.parts.store, "page", broken)
    shown = await ann.get("/", headers={"Accept": "text/html", "X-Request-Id": "look-me-up"})
    assert (shown.status_code, shown.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert shown.headers["x-request-id"] == "look-me-up"
    assert "look-me-up" in shown.text
    assert "mistake" not in shown.text
    answer = await ann.get(f"{API}/workspaces")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL_ERROR")
    assert answer.headers["x-request-id"]
    counted = (await ann.get("/metrics", headers=WATCHES)).text
    assert 'route="/api/v1/workspaces",status="500"' in counted
