"""A log that somebody follows: it ends with the key that opened it, and with nothing else of its reader's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID, uuid4

import httpx
import pytest
from tests.support.patience import PATIENCE_S
from tests.support.site import API, RESTS, Site, create, nobody_listens
from tests.support.stores import PostgresWorld
from tests.support.streams import reading

from codehub.api import feed as feed_module
from codehub.core.access import Role


@asynccontextmanager
async def following(
    site: Site, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, **fields: object
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Follow the log of a workspace that writes once and then goes on in silence."""

    async def logs(_workspace_id: UUID, **_options: object) -> AsyncIterator[bytes]:
        yield b"started\n"
        await asyncio.Event().wait()

    monkeypatch.setattr(site.instances, "logs", logs)
    owner = await site.browser("ann")
    workspace = await create(owner, f"w{uuid4()}", **RESTS, **fields)
    path = f"{API}/workspaces/{workspace['id']}/logs"
    async with client.stream("GET", path, params={"follow": True}) as response:
        assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        parts = response.aiter_raw()
        assert await anext(parts) == b"started\n"
        yield parts


async def ended(parts: AsyncIterator[bytes]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with suppress(httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration):
            await anext(parts)


async def test_a_log_ends_for_whoever_signs_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = await site.browser("ann")
    async with following(site, ann, monkeypatch) as parts:
        await ann.post(f"{API}/logout")
        await ended(parts)
    await nobody_listens(site)


async def test_a_log_ends_with_its_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, program = await site.browser("ann"), await site.program("ann")
    (token,) = (await ann.get(f"{API}/tokens")).json()["items"]
    async with following(site, program, monkeypatch) as parts:
        await ann.delete(f"{API}/tokens/{token['id']}")
        await ended(parts)


async def test_a_log_ends_with_its_token_should_the_hint_of_it_be_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = await site.program("ann")
    assert isinstance(site.world, PostgresWorld)
    async with following(site, program, monkeypatch) as parts:
        await site.world.admin.execute("DELETE FROM api_tokens")
        await ended(parts)


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "member"}], ids=str)
async def test_a_foreign_log_ends_for_an_admin_who_loses_the_role(
    site: Site, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    admin, root = await site.browser("bob", Role.ADMIN), await site.browser("root", Role.ADMIN)
    async with following(site, admin, monkeypatch) as parts:
        path = f"{API}/users/{(await site.user('bob')).id}"
        assert (await root.patch(path, json=change)).status_code == 200
        await ended(parts)


async def test_a_log_does_not_outlive_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "ANSWER_S_MAX", 0.5)
    async with following(site, await site.browser("ann"), monkeypatch) as parts:
        await ended(parts)


async def test_a_log_goes_on_when_another_key_of_its_reader_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await site.browser("ann"), await site.browser("ann")
    async with following(site, here, monkeypatch) as parts, reading(here) as stream:
        await there.post(f"{API}/logout")
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError, StopAsyncIteration)):
            await stream.next()  # it has heard of it
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await anext(parts)


# What may be lost


async def test_neither_a_stream_nor_a_log_outlives_its_token(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That they end when their time is up is shown beside this."""
    await nobody_listens(site)
    ann = await site.browser("ann")
    body = {"name": "short", "scope": "read", "expires_in_seconds": 100}
    token = (await ann.post(f"{API}/tokens", json=body)).json()["token"]
    async with (
        site.anybody(headers={"Authorization": f"Bearer {token}"}) as program,
        reading(program),
        following(site, program, monkeypatch),
    ):
        times = [held.seconds for held in site.web.feed.held]
    assert len(times) == 2
    assert 0 < max(times) <= 100
