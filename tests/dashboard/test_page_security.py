"""What no page does: show others' data, obey another site, run what a person wrote, load foreign files."""

import re

import pytest
from tests.support.forms import post
from tests.support.site import API, Site, create, open_site
from tests.support.stores import memory_world

from codehub.core.access import Role
from codehub.dashboard.app import TABLE
from codehub.dashboard.auth import Audience

HOSTILE = "\"><script>alert(1)</script>{{7*7}}'&"
PARTIAL = {"HX-Request": "true"}


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
    workspace = await create(ann, "demo")
    places = [
        path.replace("{workspace_id}", workspace["id"]) for method, path, _, _ in TABLE if method == "GET"
    ]
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
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
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
async def test_a_page_loads_codehub_s_own_files_and_nothing_of_a_workspace(host: str, files: str) -> None:
    """By whatever address it was opened; behind a proxy that names another host, by the public one."""
    async with (
        open_site(memory_world(), base_url="https://code.example.org") as site,
        site.anybody() as client,
    ):
        policy = (await client.get("/login", headers={"Host": host})).headers["content-security-policy"]
    assert f"; script-src {files}; style-src {files}; img-src {files}; " in policy


async def test_only_admins_see_what_is_for_admins(site: Site) -> None:
    ann = await site.browser("ann")
    for method, path, door, _handler in TABLE:
        if door is Audience.ADMIN:
            answer = await ann.request(
                method, path.replace("{user_id}", "x"), headers={"Origin": site.parts.base_url}
            )
            assert answer.status_code == 403, path
    assert "/admin/" not in (await ann.get("/")).text


async def test_two_people_cannot_see_each_other(site: Site) -> None:
    ann, bob = await site.browser("ann"), await site.browser("bob")
    workspace = await create(ann, "anns-secret")
    assert "anns-secret" in (await ann.get("/")).text
    assert "anns-secret" not in (await bob.get("/")).text
    assert "anns-secret" not in (await bob.get(f"/rows?id={workspace['id']}&owner=all")).text
    for path in ("", "/logs", "/history", "/settings"):
        answer = await bob.get(f"/workspaces/{workspace['id']}{path}")
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
        answer = await post(bob, site, f"/workspaces/{workspace['id']}/{word}")
        assert answer.status_code == 403, word
    assert (await ann.get(f"{API}/workspaces/{workspace['id']}")).json()["deleted_at"] is None


async def test_an_admin_sees_all_workspaces_but_opens_only_their_own(site: Site) -> None:
    ann, root = await site.browser("ann"), await site.browser("root", Role.ADMIN)
    workspace = await create(ann, "anns")
    page = (await root.get("/admin/workspaces")).text
    assert "anns" in page
    assert f"/w/{workspace['id']}/" not in page
    detail = (await root.get(f"/workspaces/{workspace['id']}")).text
    assert "Only its owner can open it." in detail
    assert f"/w/{workspace['id']}/" not in detail


async def test_hostile_text_is_escaped_on_every_page(site: Site) -> None:
    ann = await site.browser("ann", Role.ADMIN)
    workspace = await create(ann, HOSTILE, description=HOSTILE)
    await ann.post(f"{API}/tokens", json={"name": HOSTILE, "scope": "read"})
    for path in (
        "/",
        f"/workspaces/{workspace['id']}",
        f"/workspaces/{workspace['id']}/settings",
        "/account",
        f"/?q={HOSTILE}",
    ):
        text = (await ann.get(path)).text
        assert "<script>alert" not in text, path
        assert "&lt;script&gt;alert(1)" in text, path
        assert "49" not in re.findall(r"alert\(1\)[^<]{0,40}", text)[0], path
    answer = await post(ann, site, f"/workspaces/{workspace['id']}/delete", PARTIAL)
    assert "<script>alert" not in answer.text
    async with site.anybody() as nobody:
        login = await post(nobody, site, "/login", username=HOSTILE, password="x", next='/"><script>')
    assert "<script>alert" not in login.text
    assert '"><script>' not in login.text


def test_vendored_files_are_as_published() -> None:
    import hashlib  # noqa: PLC0415
    from importlib.resources import files  # noqa: PLC0415

    static = files("codehub.dashboard").joinpath("static")
    digest = hashlib.sha256(static.joinpath("htmx.min.js").read_bytes()).hexdigest()
    assert digest in static.joinpath("VENDORED.txt").read_text()
    assert "Zero-Clause BSD" in static.joinpath("htmx.LICENSE").read_text()
