"""Pinning over HTTP: what is pinned stands first in lists, page by page, and the history tells of it."""

from typing import Any

import httpx
import pytest
from tests.support.site import API, Site, create

from codehub.core.access import Role


async def names(client: httpx.AsyncClient, **params: Any) -> list[str]:
    """Return all that a list holds, read two at a time."""
    listing: list[str] = []
    while True:
        page = (await client.get(f"{API}/workspaces", params={"limit": 2, **params})).json()
        listing += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            return listing
        params["cursor"] = page["next_cursor"]


async def test_pinned_workspaces_are_first_the_newest_pin_on_top_and_pages_miss_nothing(site: Site) -> None:
    ann = await site.browser("ann")
    ids = {name: (await create(ann, name, desired_state="PENDING"))["id"] for name in "abcde"}
    for name in "adb":
        pinned = (await ann.patch(f"{API}/workspaces/{ids[name]}", json={"pinned": True})).json()
        assert pinned["pinned_at"] is not None
        assert pinned["revision"] == 2
    assert await names(ann) == ["b", "d", "a", "e", "c"]
    assert await names(await site.browser("root", Role.ADMIN), owner="all") == ["b", "d", "a", "e", "c"]
    unpinned = (await ann.patch(f"{API}/workspaces/{ids['d']}", json={"pinned": False})).json()
    assert unpinned["pinned_at"] is None
    assert await names(ann) == ["b", "a", "e", "d", "c"]


async def test_a_page_goes_on_after_its_cursor_though_somebody_pins_meanwhile(site: Site) -> None:
    ann = await site.browser("ann")
    ids = {name: (await create(ann, name, desired_state="PENDING"))["id"] for name in "abcd"}
    await ann.patch(f"{API}/workspaces/{ids['a']}", json={"pinned": True})
    for limit, rest in ((1, ["d", "c", "b"]), (2, ["c", "b"])):
        first = (await ann.get(f"{API}/workspaces", params={"limit": limit})).json()
        await ann.patch(f"{API}/workspaces/{first['items'][-1]['id']}", json={"pinned": limit == 2})
        assert await names(ann, cursor=first["next_cursor"]) == rest + (["a"] if limit == 1 else [])
        await ann.patch(f"{API}/workspaces/{ids['a']}", json={"pinned": True})


async def test_a_second_pin_changes_nothing_and_is_not_recorded(site: Site) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann, "demo", desired_state="PENDING")
    path = f"{API}/workspaces/{workspace['id']}"
    first = (await ann.patch(path, json={"pinned": True, "memo": "both at once"})).json()
    second = (await ann.patch(path, json={"pinned": True})).json()
    assert (second["pinned_at"], second["revision"]) == (first["pinned_at"], first["revision"])
    events = (await ann.get(f"{path}/events")).json()["items"]
    assert [event["message"] for event in events] == ["Asked to change memo, pinned.", "Asked to make it."]


@pytest.mark.parametrize("value", [None, "yes", 1, "2026-01-01T00:00:00Z"], ids=str)
async def test_pinned_is_true_or_false(site: Site, value: object) -> None:
    ann = await site.browser("ann")
    workspace = await create(ann, "demo", desired_state="PENDING")
    answer = await ann.patch(f"{API}/workspaces/{workspace['id']}", json={"pinned": value})
    assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (422, "pinned")


@pytest.mark.parametrize("cursor", ["1.x", "x.00000000-0000-0000-0000-000000000000", "9" * 18 + ".", "1."])
async def test_an_invalid_cursor_is_refused(site: Site, cursor: str) -> None:
    ann = await site.browser("ann")
    assert (await ann.get(f"{API}/workspaces", params={"cursor": cursor})).status_code == 422
