"""Signing in: sessions, passwords, and changes that another site asks for (security 3, 5, 15, 16, 21)."""

from typing import Literal
from uuid import uuid4

import httpx
import pytest
from argon2 import PasswordHasher
from tests.support.site import API, PASSWORD, Site, login, open_site
from tests.support.stores import PostgresWorld, memory_world

from codehub.core.access import Role

# Sessions


async def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_don_t_see(
    site: Site, nobody: httpx.AsyncClient
) -> None:
    await site.user("ann")
    answer = await login(nobody, "Ann")
    assert answer.status_code == 200
    assert set(answer.json()["user"]) == {"id", "username", "role", "disabled", "created_at"}
    word, *attributes = answer.headers.get_list("set-cookie")[0].split("; ")
    assert word.startswith("codehub_session=")
    assert len(word) >= len("codehub_session=") + 43
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]
    session = await nobody.get(f"{API}/session")
    assert session.json()["user"]["username"] == "ann"
    assert session.json()["limits"] == {"running": {"used": 0, "max": 2}}


async def test_under_https_only_the_cookie_of_this_very_host_counts() -> None:
    async with open_site(memory_world(), base_url="https://code.example.org") as site:
        await site.user("ann")
        async with site.anybody() as client:
            cookie = (await login(client, "ann")).headers.get_list("set-cookie")[0]
        word, *attributes = cookie.split("; ")
        name, _, secret = word.partition("=")
        assert name == "__Host-codehub_session"
        assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax", "Secure"]
        plain = f"codehub_session={secret}"
        for sent, status in (
            (word, 200),
            (plain, 401),
            (f"{word}; {plain}; {plain}", 200),
            (f"{word}; {word}", 400),
        ):
            async with site.anybody(headers={"Cookie": sent}) as client:
                assert (await client.get(f"{API}/session")).status_code == status, sent
                assert (await client.get("/")).status_code == {401: 303}.get(status, status), sent
        async with site.anybody(headers={"Cookie": word}) as client:
            out = await client.post(f"{API}/logout")
            assert out.headers["set-cookie"].startswith("__Host-codehub_session=; Path=/;")


@pytest.mark.parametrize("tossed_first", [True, False])
async def test_a_second_session_that_somebody_tossed_in_opens_nothing(site: Site, tossed_first: bool) -> None:
    """A sibling host can set one with `Domain=`, and whose comes first is nothing to go by (security 21)."""
    anns, mallorys = [(await site.browser(name)).cookies["codehub_session"] for name in ("ann", "mallory")]
    values = (mallorys, anns) if tossed_first else (anns, mallorys)
    cookie = "; ".join(f"codehub_session={value}" for value in values)
    async with site.anybody(headers={"Cookie": cookie, "Accept-Language": "en"}) as client:
        answer = await client.get(f"{API}/session")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert "Delete the cookies" in answer.json()["error"]["message"]
        creation = await client.post(f"{API}/tokens", json={"name": "x", "scope": "write"})
        assert creation.status_code == 400
        for path in ("/", "/login", "/account"):
            page = await client.get(path)
            assert page.status_code == 400
            assert "Delete the cookies" in page.text


async def test_a_name_that_only_the_database_folds_to_another_is_unknown(
    site: Site, nobody: httpx.AsyncClient
) -> None:
    """Its small letters are not ours: tries at it would be counted apart."""
    await site.user("kim")
    assert (await login(nobody, "\N{KELVIN SIGN}im")).status_code == 401
    assert (await login(nobody, "KIM")).status_code == 200


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong password"), ("nobody", PASSWORD), ("ann", ""), ("a\0b", PASSWORD)]
)
async def test_a_wrong_name_and_a_wrong_password_look_alike(
    site: Site, nobody: httpx.AsyncClient, name: str, password: str
) -> None:
    await site.user("ann")
    answer = await login(nobody, name, password)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "UNAUTHORIZED"
    assert answer.json()["error"]["message"] == "The name or the password is wrong."
    assert "set-cookie" not in answer.headers


async def test_an_unknown_user_costs_the_same_work_as_a_known_one(
    site: Site, nobody: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who measures how long it takes learns nothing: one hash is verified, with the same parameters."""
    await site.user("ann")
    no_password = f"{site.prefix}dora"
    await site.world.access.add_user(uuid4(), username=no_password, password_hash=None, role=Role.MEMBER)
    verify = PasswordHasher.verify
    parameters: list[str] = []

    def counted(hasher: PasswordHasher, password_hash: str, password: str) -> Literal[True]:
        parameters.append(password_hash.rsplit("$", 2)[0])
        return verify(hasher, password_hash, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    work = []
    for name in ("ann", "nobody", no_password):
        assert (await login(nobody, name, "wrong password")).status_code == 401
        work.append(tuple(parameters))
        parameters.clear()
    assert work == [("$argon2id$v=19$m=64,t=1,p=1",)] * 3


async def test_each_sign_in_opens_a_new_session_and_signing_out_ends_one_everywhere(site: Site) -> None:
    first, second = await site.browser("ann"), await site.browser("ann")
    word = first.cookies["codehub_session"]
    assert word != second.cookies["codehub_session"]
    out = await first.post(f"{API}/logout")
    assert (out.status_code, out.headers["set-cookie"].split(";")[0]) == (204, "codehub_session=")
    async with site.anybody(cookies={"codehub_session": word}) as thief:
        assert (await thief.get(f"{API}/session")).status_code == 401
    assert (await second.get(f"{API}/session")).status_code == 200


async def test_a_session_chosen_by_somebody_else_is_not_taken_over(site: Site) -> None:
    await site.user("ann")
    async with site.anybody(cookies={"codehub_session": "chosen-by-an-attacker"}) as victim:
        answer = await login(victim, "ann")
        assert "chosen-by-an-attacker" not in answer.headers["set-cookie"]
    async with site.anybody(cookies={"codehub_session": "chosen-by-an-attacker"}) as attacker:
        assert (await attacker.get(f"{API}/session")).status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "x" * 5000, "%00", '"quoted"'])
async def test_an_unknown_session_cookie_is_refused(site: Site, cookie: str) -> None:
    async with site.anybody(headers={"Cookie": f"codehub_session={cookie}"}) as client:
        assert (await client.get(f"{API}/session")).status_code == 401


async def test_no_session_token_or_password_is_stored_as_it_is(site: Site) -> None:
    browser = await site.browser("ann")
    token = (await browser.post(f"{API}/tokens", json={"name": "ci", "scope": "read"})).json()["token"]
    assert isinstance(site.world, PostgresWorld)
    dump = str(await site.world.admin.fetch("SELECT * FROM sessions"))
    dump += str(await site.world.admin.fetch("SELECT * FROM api_tokens"))
    dump += str(await site.world.admin.fetch("SELECT password_hash FROM users"))
    assert browser.cookies["codehub_session"] not in dump
    assert token not in dump
    assert PASSWORD not in dump
    assert "$argon2id$" in dump


# Passwords


async def test_a_new_password_ends_one_s_other_sessions(site: Site) -> None:
    here, there = await site.browser("ann"), await site.browser("ann")
    wrong = await here.put(f"{API}/session/password", json={"old": "not it at all", "new": "a new password"})
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (403, "The old password is wrong.")
    answer = await here.put(f"{API}/session/password", json={"old": PASSWORD, "new": "a new password"})
    assert answer.status_code == 204
    assert (await here.get(f"{API}/session")).status_code == 200
    assert (await there.get(f"{API}/session")).status_code == 401
    async with site.anybody() as client:
        assert (await login(client, "ann")).status_code == 401
        assert (await login(client, "ann", "a new password")).status_code == 200


async def test_a_short_password_is_refused_with_its_field(site: Site) -> None:
    browser = await site.browser("ann")
    answer = await browser.put(f"{API}/session/password", json={"old": PASSWORD, "new": "short"})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"] == [
        {"field": "new", "problem": "it must have a length of at least 8"}
    ]


# Other sites


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_change_that_another_site_s_page_asks_for_is_refused(
    site: Site, headers: dict[str, str]
) -> None:
    browser = await site.browser("ann")
    answer = await browser.post(f"{API}/workspaces", json={"name": "x"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert (await browser.get(f"{API}/workspaces", headers=headers)).status_code == 200
    assert (await browser.get(f"{API}/workspaces")).json()["items"] == []
    assert (await login(browser, "ann", **headers)).status_code == 403


async def test_no_answer_is_for_the_pages_of_other_origins(site: Site) -> None:
    """A page of another host of this site asks with this site's cookies (security 27)."""
    browser, nobody = await site.browser("ann"), site.anybody()
    for client, path in ((browser, "/workspaces"), (browser, "/nothing"), (nobody, "/workspaces")):
        headers = (await client.get(f"{API}{path}")).headers
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
    await nobody.aclose()


async def test_a_change_of_our_own_page_and_of_a_program_is_let_through(site: Site) -> None:
    browser, program = await site.browser("ann"), await site.program("ann")
    own = {"Origin": site.parts.base_url, "Sec-Fetch-Site": "same-origin"}
    wish = {"desired_state": "PENDING"}
    for name, client, headers in (
        ("own", browser, own),
        ("curl", browser, {}),
        ("token", program, {"Origin": "https://evil.example"}),
    ):
        answer = await client.post(f"{API}/workspaces", json={"name": name, **wish}, headers=headers)
        assert answer.status_code == 201, name


async def test_a_page_of_each_own_address_may_ask_for_changes() -> None:
    own = ("http://localhost:8000", "http://[::1]:8000")
    async with open_site(memory_world(), base_url="http://127.0.0.1:8000", own_origins=own) as site:
        ann = await site.browser("ann")
        for number, origin in enumerate((*own, "http://127.0.0.1:8000")):
            body = {"name": f"ws-{number}", "desired_state": "PENDING"}
            creation = await ann.post(f"{API}/workspaces", json=body, headers={"Origin": origin})
            assert creation.status_code == 201, origin
            form = {"username": "ann", "password": "wrong"}
            assert (await ann.post("/login", data=form, headers={"Origin": origin})).status_code != 403
        foreign = {"Origin": "http://localhost:8001"}
        assert (await ann.post(f"{API}/logout", headers=foreign)).status_code == 403
