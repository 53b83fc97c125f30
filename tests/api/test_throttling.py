"""Guessing is throttled, per account and address, whatever the guesser claims to be (security 5, 15)."""

import asyncio
from collections import Counter

import httpx
import pytest
from tests.support.patience import PATIENCE_S, until
from tests.support.site import API, PASSWORD, Site, login, open_site
from tests.support.stores import PostgresWorld, memory_world
from tests.support.throttles import Timeless

from codehub.core import access
from codehub.proxy.policy.header_rules import OWN_SECRETS
from codehub.service import password_queue


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no wait is over before the test is."""
    for name in ("PAIR", "ACCOUNT", "DEVICE"):
        throttle: access.Throttle = getattr(access, name)
        monkeypatch.setattr(access, name, Timeless(throttle.free, throttle.wait_s_max))


async def test_guessing_is_throttled_with_a_time_to_wait_even_for_the_right_password(
    site: Site, nobody: httpx.AsyncClient, timeless: None
) -> None:
    del timeless
    await site.user("ann")
    await site.user("bob")
    statuses = [(await login(nobody, "ann", "wrong password")).status_code for _ in range(5)]
    assert statuses == [401] * 5
    answers = [await login(nobody, "ann", "wrong password") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429] * 3
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].json()["error"]["code"] == "TOO_MANY_REQUESTS"
    assert (await login(nobody, "ann")).status_code == 429
    assert (await login(nobody, "bob")).status_code == 200


async def test_forty_guesses_at_once_are_throttled_as_well(
    site: Site, nobody: httpx.AsyncClient, timeless: None
) -> None:
    del timeless
    await site.user("ann")
    answers = await asyncio.gather(*(login(nobody, "ann", f"wrong {number}") for number in range(40)))
    codes = Counter(answer.status_code for answer in answers)
    assert codes == {401: 5, 429: 35}


async def test_a_browser_that_signed_in_before_is_not_locked_out_by_strangers_guesses(
    site: Site, nobody: httpx.AsyncClient, timeless: None
) -> None:
    """Not even by those who share its address."""
    del timeless
    ann = await site.browser("ann")
    await ann.post(f"{API}/logout")
    while (await login(nobody, "ann", "a guess")).status_code != 429:
        pass
    assert (await login(nobody, "ann")).status_code == 429
    answer = await login(ann, "Ann")
    assert answer.status_code == 200
    assert (await login(nobody, "ann")).status_code == 429, "strangers still wait"
    path, new = f"{API}/session/password", "a new password"
    assert (await ann.put(path, json={"old": PASSWORD, "new": new})).status_code == 204


async def test_guesses_from_such_a_browser_are_throttled_too(
    site: Site, nobody: httpx.AsyncClient, timeless: None
) -> None:
    del timeless
    thief = await site.browser("ann")
    await thief.post(f"{API}/logout")
    statuses = [(await login(thief, "ann", f"guess {number}")).status_code for number in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    assert (await login(thief, "ann")).status_code == 429
    assert (await login(nobody, "ann")).status_code == 200, "it counts against that browser alone"


async def test_a_device_cookie_is_for_one_account_and_reaches_no_workspace(
    site: Site, timeless: None
) -> None:
    del timeless
    bobs, _ann = await site.browser("bob"), await site.user("ann")
    device = bobs.cookies["codehub_device"]
    async with site.anybody(cookies={"codehub_device": device}) as stranger:
        assert (await stranger.get(f"{API}/session")).status_code == 401
        statuses = [(await login(stranger, "ann", "a guess")).status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]
        assert (await login(stranger, "bob", "a guess")).status_code == 401
    async with site.anybody(cookies={"codehub_device": device[:-1] + "x"}) as forger:
        assert (await login(forger, "ann")).status_code == 429
    assert (
        OWN_SECRETS.without_own_cookies(f"a=1; codehub_device={device}; __Host-codehub_device=x".encode())
        == b"a=1"
    )


async def test_a_device_s_cookie_is_kept_from_scripts_and_siblings_and_has_an_end() -> None:
    for base_url, name, end in (
        ("https://code.example.org", "__Host-codehub_device=", "; Secure"),
        ("http://127.0.0.1:8000", "codehub_device=", ""),
    ):
        async with open_site(memory_world(), base_url=base_url) as site, site.anybody() as client:
            await site.user("ann")
            own = {"Origin": base_url}
            form = await client.post("/login", data={"username": "ann", "password": PASSWORD}, headers=own)
            for answer in (await login(client, "ann"), form):
                session, device = answer.headers.get_list("set-cookie")
                assert "codehub_session=" in session
                assert device.startswith(name)
                assert device.endswith(f"; Max-Age=7776000; Path=/; HttpOnly; SameSite=Lax{end}")


async def test_many_strangers_are_told_to_come_back_and_keep_no_known_device_out(
    site: Site, nobody: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await site.browser("ann")
    await ann.post(f"{API}/logout")
    passwords = site.passwords
    verified, is_over, waiting = passwords.verify, asyncio.Event(), 0

    async def slowly(password: str, password_hash: str | None) -> bool:
        nonlocal waiting
        if password == "a guess":
            waiting += 1
            await is_over.wait()
        return await verified(password, password_hash)

    monkeypatch.setattr(passwords, "verify", slowly)
    monkeypatch.setattr(password_queue, "STRANGERS_MAX", 3)
    monkeypatch.setattr(password_queue, "ALL_MAX", 5)
    guesses = [asyncio.ensure_future(login(nobody, f"victim-{n}", "a guess")) for n in range(3)]
    await until(lambda: waiting >= 3)
    refusal = await login(nobody, "ann")
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "UNAVAILABLE")
    assert int(refusal.headers["retry-after"]) >= 1
    own = {"Origin": site.parts.base_url}
    page = await nobody.post("/login", data={"username": "ann", "password": PASSWORD}, headers=own)
    assert (page.status_code, "Too many people are signing in" in page.text) == (503, True)
    assert (await login(ann, "ann")).status_code == 200
    is_over.set()
    assert [(await guess).status_code for guess in guesses] == [401] * 3
    assert (await login(nobody, "ann")).status_code == 200, "there is room again"


async def test_one_s_own_password_does_not_pay_for_guesses_at_others(
    site: Site, nobody: httpx.AsyncClient
) -> None:
    await site.user("ann")
    assert isinstance(site.world, PostgresWorld)
    for number in range(50):
        assert (await login(nobody, f"victim-{number}", "a guess")).status_code == 401
        if number % 10 == 0:
            assert (await login(nobody, "ann")).status_code == 200
    await site.world.admin.execute("UPDATE login_failures SET last_at = last_at + interval '60 s'")
    assert (await login(nobody, "another-victim", "a guess")).status_code == 429


async def test_whoever_found_a_session_can_not_guess_its_password_by_it(site: Site) -> None:
    here = await site.browser("ann")
    path, new = f"{API}/session/password", "a new password"
    for _ in range(5):
        assert (await here.put(path, json={"old": "not it at all", "new": new})).status_code == 403
    assert isinstance(site.world, PostgresWorld)
    await site.world.admin.execute("UPDATE login_failures SET last_at = last_at + interval '60 s'")
    refusal = await here.put(path, json={"old": PASSWORD, "new": new})
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (429, "TOO_MANY_REQUESTS")
    assert int(refusal.headers["retry-after"]) >= 1
    await site.world.admin.execute("UPDATE login_failures SET last_at = last_at - interval '2 min'")
    assert (await here.put(path, json={"old": PASSWORD, "new": new})).status_code == 204
    wrong = await here.put(path, json={"old": "not it at all", "new": new})
    assert wrong.status_code == 403, "after a success nothing is held against them"


@pytest.mark.parametrize(
    ("proxies", "is_believed"), [("", False), ("127.0.0.0/8", True), ("10.0.0.0/8", False)]
)
async def test_x_forwarded_for_counts_only_from_configured_proxies(
    proxies: str, is_believed: bool, timeless: None
) -> None:
    del timeless
    from codehub.settings import load_settings  # noqa: PLC0415

    networks = load_settings(trusted_proxies=proxies).proxies
    async with open_site(memory_world(), trusted_proxies=networks) as site, site.anybody() as client:
        await site.user("ann")
        codes = [
            (await login(client, "ann", "wrong", **{"X-Forwarded-For": f"203.0.113.{n}"})).status_code
            for n in range(8)
        ]
    assert codes == ([401] * 8 if is_believed else [401] * 5 + [429] * 3)


async def test_a_trailer_can_not_change_who_asks() -> None:
    """Though it comes after the head, in which the configured proxy has said it."""
    from codehub.settings import load_settings  # noqa: PLC0415

    networks = load_settings(trusted_proxies="127.0.0.0/8").proxies
    async with open_site(memory_world(), trusted_proxies=networks) as site:
        answers = [
            await _login_with_trailer(site, f"X-Forwarded-For: 203.0.113.{number}") for number in range(8)
        ]
    assert any(answer.startswith(b"HTTP/1.1 429 ") for answer in answers)


async def _login_with_trailer(site: Site, trailer: str) -> bytes:
    body = b'{"username": "ann", "password": "wrong"}'
    host, port = site.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, trailer.encode()))
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()
