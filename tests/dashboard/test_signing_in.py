"""Signing in on the dashboard: who has to, where it leads afterwards, and who has to wait."""

import re

import pytest
from tests.support.forms import post
from tests.support.site import API, PASSWORD, Site, create

from codehub.dashboard.redirects import local_path

PARTIAL = {"HX-Request": "true"}


@pytest.mark.parametrize(
    ("path", "place"),
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
def test_the_redirect_after_signing_in_stays_on_this_site(path: str | None, place: str) -> None:
    assert local_path(path) == place


async def test_nobody_gets_a_page_without_signing_in_and_comes_back_to_it_afterwards(site: Site) -> None:
    await site.user("ann")
    async with site.anybody() as client:
        answer = await client.get("/account")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/account")
        assert (await client.get("/")).headers["location"] == "/login"
        wrong = await post(client, site, "/login", username="ann", password="no", next="/account")
        assert wrong.status_code == 401
        assert "The name or the password is wrong." in wrong.text
        assert "no" not in re.findall(r'value="([^"]*)"', wrong.text)
        redirect = await post(client, site, "/login", username="ann", password=PASSWORD, next="/account")
        assert (redirect.status_code, redirect.headers["location"]) == (303, "/account")
        assert "HttpOnly; SameSite=Lax" in redirect.headers["set-cookie"]
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
    workspace = await create(ann, "demo", desired_state="PENDING")
    page = f"/workspaces/{workspace['id']}/settings"
    await ann.post(f"{API}/logout")
    referer = {"Referer": f"{site.address}{page}"}
    answer = await post(ann, site, page, referer, name="renamed")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={page}&ended=1")
    login = (await ann.get(answer.headers["location"])).text
    assert "Your session has ended. Nothing was saved; sign in again." in login
    assert f'name="next" value="{page}"' in login
    live = (await ann.get("/login?next=/&ended=page")).text
    assert "Your session has ended. Sign in again." in live
    headers = referer | PARTIAL | {"HX-Current-URL": f"{site.address}/"}
    pressed = await post(ann, site, f"/workspaces/{workspace['id']}/start", headers)
    assert pressed.headers["hx-redirect"] == "/login?next=/&ended=1"
    for address in ("https://evil.example//evil.example", "nonsense", "http://["):
        answer = await post(ann, site, "/new", {"Referer": address})
        assert answer.headers["location"] == "/login?next=/&ended=1"
    assert (await post(ann, site, "/logout")).headers["location"] == "/login"


async def test_the_redirect_may_be_written_in_any_script(site: Site) -> None:
    await site.user("ann")
    place = "/%ED%95%9C?x=%26"
    async with site.anybody() as client:
        answer = await post(client, site, "/login", username="ann", password=PASSWORD, next="/한?x=%26")
        assert (answer.status_code, answer.headers["location"]) == (303, place)
        form = await client.get("/login", params={"next": "/한?x=%26"})
        assert (form.status_code, form.headers["location"]) == (303, place)


@pytest.mark.parametrize("url", ["http://[", "http://x]/", "", "//", "/\xff"])
async def test_an_unusable_current_url_leads_to_the_start_page(site: Site, url: str) -> None:
    async with site.anybody() as client:
        headers = {b"HX-Request": b"true", b"HX-Current-URL": url.encode("latin-1")}
        answer = await client.get("/", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"].startswith("/login?next=/")


async def test_after_too_many_wrong_passwords_one_has_to_wait(site: Site) -> None:
    await site.user("ann")
    async with site.anybody() as client:
        # Each wait is twice as long as the one before: soon one is not over when the next try comes, however
        # slow the machine is.
        answers = [await post(client, site, "/login", username="ann", password="no") for _ in range(10)]
        throttled = [answer for answer in answers[5:] if answer.status_code == 429]
        assert throttled
        assert int(throttled[-1].headers["retry-after"]) >= 1


async def test_whoever_tries_too_many_old_passwords_has_to_wait(site: Site) -> None:
    ann = await site.browser("ann")
    answers = [
        await post(ann, site, "/account/password", old="no", new="another horse", again="another horse")
        for _ in range(10)
    ]
    throttled = [answer for answer in answers[5:] if answer.status_code == 429]
    assert throttled
    assert int(throttled[-1].headers["retry-after"]) >= 1
    assert "Too many failed tries." in throttled[-1].text
