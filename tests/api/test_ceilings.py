"""What an operator lets people have: refused with 422 and the bound, right for parallel requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from tests.conftest import Servers
from tests.support.site import API, RESTS, Site, create, nobody_listens, open_site, placed
from tests.support.stores import PostgresWorld
from tests.support.workspaces import workspace

from codehub.core.ceilings import Ceilings
from codehub.core.operations import Phase
from codehub.core.workspace import Resources
from codehub.web.request_rate import RequestRate

LOW = Ceilings(
    Resources(memory_mb=4096, cpus=4.0, pids=2048, disk_mb=40_960),
    workspaces=3,
    tokens=3,
    streams=2,
    requests_per_minute=60,
    page_size=2,
)
LIST = f"{API}/workspaces"


@pytest.fixture(scope="module")
async def opened_low_site(servers: Servers) -> AsyncIterator[Site]:
    async with (
        PostgresWorld.opened(await servers("postgres-18")) as world,
        open_site(world, ceilings=LOW) as opened,
    ):
        yield opened


@pytest.fixture
async def low_site(opened_low_site: Site) -> AsyncIterator[Site]:
    """An operator has set ceilings that one can reach."""
    assert isinstance(opened_low_site.world, PostgresWorld)
    await opened_low_site.world.clean()
    opened_low_site.forget()
    yield opened_low_site
    await opened_low_site.clients.aclose()


async def test_what_a_row_above_a_lowered_ceiling_starts_with_is_shown(low_site: Site) -> None:
    ann = await low_site.browser()
    above = await placed(low_site, workspace(Phase.PENDING), resources=Resources(8192, 8.0, 1024, 20_480))
    within = await placed(low_site, workspace(Phase.PENDING), name="modest")
    pages = [(await ann.get(f"/workspaces/{row.id}")).text for row in (above, within)]
    assert "It starts with 4096 MB, 4 CPU, 1024 processes and 20480 MB of disk" in pages[0]
    assert "It starts with" not in pages[1]
    in_korean = await ann.get(f"/workspaces/{above.id}", headers={"Accept-Language": "ko"})
    assert "메모리 4096 MB, CPU 4" in in_korean.text


@pytest.mark.parametrize(
    ("field", "amount", "most"),
    [("memory_mb", 1_048_576, 4096), ("cpus", 4.5, 4.0), ("pids", 4096, 2048), ("disk_mb", 40_961, 40_960)],
)
async def test_resources_above_a_ceiling_are_refused_with_the_bound(
    low_site: Site, field: str, amount: float, most: float
) -> None:
    ann = await low_site.browser()
    creation = await ann.post(LIST, json={"name": "greedy", "resources": {field: amount}, **RESTS})
    row = await create(ann, "modest", **RESTS)
    change = await ann.patch(f"{LIST}/{row['id']}", json={"resources": {field: amount}})
    for answer in (creation, change):
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, "INVALID_REQUEST")
        assert (error["details"][0]["field"], error["details"][0]["max"]) == (f"resources.{field}", most)
    assert [item["name"] for item in (await ann.get(LIST)).json()["items"]] == ["modest"]


async def test_a_size_for_the_home_is_kept_and_shown(low_site: Site) -> None:
    ann = await low_site.browser()
    row = await create(ann, resources={"disk_mb": 1000}, **RESTS)
    assert row["resources"]["disk_mb"] == 1000
    change = await ann.patch(f"{LIST}/{row['id']}", json={"resources": {"disk_mb": 2000}})
    assert change.json()["resources"] == {**row["resources"], "disk_mb": 2000}


async def test_as_many_workspaces_as_one_may_have_are_made_however_many_are_asked_for_at_once(
    low_site: Site,
) -> None:
    ann = await low_site.browser()
    requests = [ann.post(LIST, json={"name": f"demo {n}", **RESTS}) for n in range(9)]
    answers = await asyncio.gather(*requests)
    assert Counter(answer.status_code for answer in answers) == {201: 3, 422: 6}
    refusal = next(answer for answer in answers if answer.status_code == 422)
    assert refusal.json()["error"]["details"][0]["max"] == 3
    bob = await low_site.browser("bob")
    await create(bob, **RESTS)


async def test_an_undeleted_workspace_counts_against_the_ceiling_again(low_site: Site) -> None:
    ann = await low_site.browser()
    rows = [await create(ann, f"demo {n}", **RESTS) for n in range(3)]
    path = f"{LIST}/{rows[0]['id']}"
    assert (await ann.delete(path)).status_code == 202
    await create(ann, "another", **RESTS)
    assert (await ann.post(f"{path}:undelete")).status_code == 422
    assert (await ann.delete(f"{LIST}/{rows[1]['id']}")).status_code == 202
    assert (await ann.post(f"{path}:undelete")).status_code == 200


async def test_as_many_tokens_as_one_may_have_are_made_however_many_are_asked_for_at_once(
    low_site: Site,
) -> None:
    ann = await low_site.browser()
    requests = [ann.post(f"{API}/tokens", json={"name": f"t{n}", "scope": "read"}) for n in range(9)]
    answers = await asyncio.gather(*requests)
    assert Counter(answer.status_code for answer in answers) == {201: 3, 422: 6}
    refusal = next(answer for answer in answers if answer.status_code == 422)
    assert refusal.json()["error"]["details"][0]["max"] == 3
    token_id = next(answer for answer in answers if answer.status_code == 201).json()["id"]
    assert (await ann.delete(f"{API}/tokens/{token_id}")).status_code == 204
    assert (await ann.post(f"{API}/tokens", json={"name": "t", "scope": "read"})).status_code == 201


async def test_one_stream_too_many_is_refused_and_one_that_ends_makes_room(low_site: Site) -> None:
    ann, bob = await low_site.browser(), await low_site.browser("bob")
    async with ann.stream("GET", f"{API}/events") as first, ann.stream("GET", f"{API}/events") as second:
        assert (first.status_code, second.status_code) == (200, 200)
        third = await ann.get(f"{API}/events")
        assert (third.status_code, third.json()["error"]["details"][0]["max"]) == (422, 2)
        async with bob.stream("GET", f"{API}/events") as others:
            assert others.status_code == 200
    await nobody_listens(low_site)
    async with ann.stream("GET", f"{API}/events") as fourth:
        assert fourth.status_code == 200


async def test_a_page_is_as_long_as_an_operator_allows_and_a_longer_one_is_refused_with_the_bound(
    low_site: Site,
) -> None:
    ann = await low_site.browser()
    rows = [await create(ann, f"demo {n}", **RESTS) for n in range(3)]
    for path in (LIST, f"{LIST}/{rows[0]['id']}/events"):
        refusal = await ann.get(path, params={"limit": 3})
        error = refusal.json()["error"]
        assert (refusal.status_code, error["code"]) == (422, "INVALID_REQUEST")
        assert (error["details"][0]["field"], error["details"][0]["max"]) == ("limit", 2)
        assert len((await ann.get(path, params={"limit": 1})).json()["items"]) == 1
    first = (await ann.get(LIST)).json()
    second = (await ann.get(LIST, params={"cursor": first["next_cursor"]})).json()
    assert [len(page["items"]) for page in (first, second)] == [2, 1]


async def test_whoever_asks_too_fast_waits_and_nobody_else_does(low_site: Site) -> None:
    ann, bob = await low_site.browser(), await low_site.browser("bob")
    answer = await ann.get(f"{API}/session")
    while answer.status_code == 200:
        answers = await asyncio.gather(*(ann.get(f"{API}/session") for _ in range(20)))
        answer = max(answers, key=lambda response: response.status_code)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["details"]["max"]) == (429, "TOO_MANY_REQUESTS", 60)
    assert int(answer.headers["retry-after"]) >= 1
    assert (await bob.get(f"{API}/session")).status_code == 200


def test_a_request_rate_lets_a_minute_s_requests_through_at_once_and_then_one_per_second() -> None:
    pace, ann, bob = RequestRate(60), uuid4(), uuid4()
    assert [pace.wait_s(ann, 100.0) for _ in range(61)] == [0.0] * 60 + [1.0]
    assert pace.wait_s(bob, 100.0) == 0.0
    assert pace.wait_s(ann, 100.5) == 0.5
    assert pace.wait_s(ann, 101.0) == 0.0
    assert pace.wait_s(ann, 101.0) == 1.0
    assert [pace.wait_s(ann, 10_000.0) for _ in range(61)] == [0.0] * 60 + [1.0]
