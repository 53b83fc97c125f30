"""Limits over HTTP: exact, and the answer says what runs."""

import asyncio

from tests.support.site import API, RESTS, Site, create, placed
from tests.support.workspaces import error, workspace

from codehub.core.operations import DesiredState, Phase


async def test_at_the_limit_nothing_is_made_and_the_answer_says_what_runs(site: Site) -> None:
    ann = await site.browser("ann")
    running = [await create(ann, f"w{number}") for number in range(2)]
    refusal = await ann.post(f"{API}/workspaces", json={"name": "third"})
    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"]) == (429, "LIMIT_EXCEEDED")
    assert error["details"]["limit"] == "per_user"
    assert error["details"]["max"] == 2
    assert sorted(error["details"]["running"], key=lambda item: item["id"]) == sorted(
        ({"id": item["id"], "name": item["name"]} for item in running), key=lambda item: item["id"]
    )
    assert "Stop one of them" in error["message"]
    assert len((await ann.get(f"{API}/workspaces")).json()["items"]) == 2
    assert (await ann.get(f"{API}/session")).json()["limits"] == {"running": {"used": 2, "max": 2}}
    asleep = await create(ann, "asleep", **RESTS)
    path = f"{API}/workspaces/{asleep['id']}"
    assert (await ann.post(f"{path}:start")).status_code == 429
    assert (await ann.patch(path, json={"desired_state": "RUNNING"})).status_code == 429


async def test_a_hundred_parallel_starts_against_a_limit_of_two_give_exactly_two(site: Site) -> None:
    ann = await site.program("ann")
    ids = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(100)]
    answers = await asyncio.gather(
        *(ann.post(f"{API}/workspaces/{workspace_id}:start") for workspace_id in ids)
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 2 + [429] * 98


async def test_recovery_counts_against_the_limit(site: Site) -> None:
    ann = await site.browser("ann")
    broken = await placed(site, workspace(Phase.ERROR, DesiredState.RUNNING, error_info=error()))
    for number in range(2):
        await create(ann, f"w{number}")
    assert (await ann.post(f"{API}/workspaces/{broken.id}:recover")).status_code == 429
