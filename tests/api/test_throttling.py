"""Guessing is throttled, per account and address, whatever the guesser says of themselves (security 5, 15)."""

import asyncio
from collections import Counter

import httpx
import pytest
from tests.support.patience import PATIENCE_S
from tests.support.site import API, PASSWORD, Site, login, open_site
from tests.support.stores import PostgresWorld, memory_world
from tests.support.throttles import Timeless

from codehub.core import access


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, no wait is over before the test is."""
    monkeypatch.setattr(access, "PAIR", Timeless(access.PAIR.free, access.PAIR.wait_s_max))


async def test_guessing_is_throttled_with_a_time_to_wait_even_for_the_right_password(
    site: Site, nobody: httpx.AsyncClient, timeless: None
) -> None:
    del timeless
    await site.user("ann")
    await site.user("bob")
    tried = [(await login(nobody, "ann", "wrong password")).status_code for _ in range(5)]
    assert tried == [401] * 5
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
    refused = await here.put(path, json={"old": PASSWORD, "new": new})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY_REQUESTS")
    assert int(refused.headers["retry-after"]) >= 1
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


async def test_a_trailer_says_nothing_of_who_asks() -> None:
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
