"""A workspace's fields over HTTP: what is wrong is named, and why."""

import json
from typing import Any

import pytest
from tests.support.site import API, RESTS, Site, create, open_site, placed
from tests.support.stores import memory_world
from tests.support.workspaces import workspace

from codehub.core.operations import DesiredState, Phase

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "name"),
    ({"name": ""}, "name"),
    ({"name": " "}, "name"),
    ({"name": "x" * 256}, "name"),
    ({"name": 5}, "name"),
    ({"name": None}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "\ud800"}, "name"),
    *(({"name": f"a{character}b"}, "name") for character in ("\x80", "\x9b", "\x9f", "\u2028", "\u2029")),
    *(({"name": f"a{character}b"}, "name") for character in "\u061c\u200e\u200f\u202a\u202e\u2066\u2069"),
    *(
        ({"name": "x", "description": f"a{character}b"}, "description")
        for character in "\x80\x9f\u202e\u2066"
    ),
    ({"name": "x", "memo": "a\0b"}, "memo"),
    ({"name": "x", "memo": "\udfff"}, "memo"),
    ({"name": "x", "description": "x" * 10_001}, "description"),
    ({"name": "x", "image_ref": "has space"}, "image_ref"),
    ({"name": "x", "image_ref": "-v"}, "image_ref"),
    ({"name": "x", "ide": "emacs"}, "ide"),
    ({"name": "x", "resources": {"memory_mb": 0}}, "resources.memory_mb"),
    ({"name": "x", "resources": {"cpus": "2"}}, "resources.cpus"),
    ({"name": "x", "resources": {"gpus": 1}}, "resources.gpus"),
    ({"name": "x", "resources": []}, "resources"),
    ({"name": "x", "instance_backend": "vm"}, "instance_backend"),
    ({"name": "x", "instance_backend": "k8s"}, "instance_backend"),
    ({"name": "x", "storage_backend": "docker-volume"}, "storage_backend"),
    ({"name": "x", "standby_ttl_seconds": 9}, "standby_ttl_seconds"),
    ({"name": "x", "standby_ttl_seconds": 10.5}, "standby_ttl_seconds"),
    ({"name": "x", "standby_ttl_seconds": True}, "standby_ttl_seconds"),
    ({"name": "x", "archive_ttl_seconds": -1}, "archive_ttl_seconds"),
    ({"name": "x", "archive_ttl_seconds": 2**31}, "archive_ttl_seconds"),
    ({"name": "x", "desired_state": "ERROR"}, "desired_state"),
    ({"name": "x", "desired_state": "DELETED"}, "desired_state"),
    ({"name": "x", "phase": "RUNNING"}, "phase"),
    ({"name": "x", "owner_user_id": "00000000-0000-0000-0000-000000000000"}, "owner_user_id"),
]


@pytest.mark.parametrize(
    ("body", "field"), WRONG, ids=lambda value: str(value)[:40].encode("ascii", "replace")
)
async def test_a_wrong_field_is_named_with_what_is_wrong(
    site: Site, body: dict[str, Any], field: str
) -> None:
    ann = await site.browser("ann")
    # Not json=body: the client would refuse half a character itself.
    content, kind = json.dumps(body), {"Content-Type": "application/json"}
    answer = await ann.post(f"{API}/workspaces", content=content, headers=kind)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert error["details"][0]["field"] == field
    # Sentences of ours: the checker's own begin in capitals, and name its types.
    assert all(
        detail["problem"].startswith(("it ", "there ", "with ", "k8s ")) for detail in error["details"]
    )
    assert (await ann.get(f"{API}/workspaces")).json()["items"] == []


async def test_a_name_from_before_such_characters_were_refused_stays_usable(site: Site) -> None:
    ann = await site.browser("ann")
    row = await placed(site, workspace(Phase.STANDBY, DesiredState.STANDBY), name="a\u202eb\x9b")
    path = f"{API}/workspaces/{row.id}"
    assert (await ann.patch(path, json={"memo": "still here"})).json()["name"] == "a\u202eb\x9b"
    (item,) = (await ann.get(f"{API}/workspaces")).json()["items"]
    assert item["id"] == str(row.id)
    assert (await ann.patch(path, json={"name": "plain"})).json()["name"] == "plain"


async def test_a_problem_is_described_in_codehub_s_words(site: Site) -> None:
    ann = await site.browser("ann")

    async def problem(**request: Any) -> str:
        answer = await ann.request(**{"method": "POST", "url": f"{API}/workspaces", **request})
        return str(answer.json()["error"]["details"][0]["problem"])

    assert await problem(json={}) == "it is missing"
    assert await problem(json=[]) == "it must be an object"
    assert await problem(json={"name": "x", "phase": "RUNNING"}) == "there is no such field"
    assert await problem(json={"name": 7}) == "it must be text"
    assert await problem(json={"name": "x", "standby_ttl_seconds": 9}) == "it must be at least 10"
    assert (
        await problem(json={"name": "x", "ide": "vi"}) == "it must be 'code-server', 'jupyterlab' or 'http'"
    )
    assert await problem(content="{", headers={"Content-Type": "application/json"}) == (
        "it is no JSON from character 1 on"
    )
    assert await problem(method="GET", params={"limit": "many"}) == "it must be a whole number"
    assert await problem(method="GET", params={"deleted": "perhaps"}) == "it must be true or false"


async def test_an_ide_that_is_not_installed_is_refused_and_the_installed_ones_are_named() -> None:
    async with open_site(memory_world(), ides=("jupyterlab",)) as site:
        ann = await site.browser("ann")
        refusal = await ann.post(f"{API}/workspaces", json={"name": "x", "ide": "http", **RESTS})
        assert (refusal.status_code, refusal.json()["error"]["details"]) == (
            422,
            [{"field": "ide", "problem": "http is not there; there is jupyterlab"}],
        )
        demo = await create(ann, ide="jupyterlab", **RESTS)
        path = f"{API}/workspaces/{demo['id']}"
        assert (await ann.patch(path, json={"ide": "code-server"})).status_code == 422
        assert (await ann.patch(path, json={"ide": "jupyterlab"})).status_code == 200
        form = {"name": "y", "ide": "http"}
        own = {"Origin": site.parts.base_url}
        assert (await ann.post("/new", data=form, headers=own)).status_code == 422
        answer = await ann.post(
            f"/workspaces/{demo['id']}/settings", data={**form, "revision": "1"}, headers=own
        )
        assert answer.status_code == 422
        await site.clients.aclose()


async def test_a_patch_can_not_set_a_required_field_to_null(site: Site) -> None:
    ann = await site.browser("ann")
    path = f"{API}/workspaces/{(await create(ann, **RESTS))['id']}"
    for field in ("name", "image_ref", "ide", "desired_state", "resources"):
        answer = await ann.patch(path, json={field: None})
        assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (422, field)
    for field in ("instance_backend", "phase", "revision"):
        assert (await ann.patch(path, json={field: "x"})).status_code == 422


@pytest.mark.parametrize(
    "content",
    [b'{"name": "\xff"}', b"[" * 100_000, b'{"name": ' + b"9" * 5000 + b"}"],
    ids=lambda body: str(body[:12]),
)
async def test_an_unreadable_body_is_described_in_codehub_s_words(site: Site, content: bytes) -> None:
    ann = await site.browser("ann")
    kind = {"Content-Type": "application/json"}
    answer = await ann.post(f"{API}/workspaces", content=content, headers=kind)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert error["message"].startswith("The body can't be read: ")


async def test_errors_are_told_in_korean(site: Site) -> None:
    ann = await site.browser("ann")
    ann.headers["Accept-Language"] = "ko"
    wrong = (await ann.post(f"{API}/workspaces", json={"name": 7})).json()["error"]
    assert (wrong["code"], wrong["message"]) == ("INVALID_REQUEST", "name: 글자여야 합니다")
    assert wrong["details"] == [{"field": "name", "problem": "글자여야 합니다"}]
    named = await ann.post(f"{API}/workspaces", json={"name": "a\nb"})
    assert named.json()["error"]["message"] == "name: 제어 문자가 있습니다: U+000A"
    assert (await ann.get(f"{API}/nowhere")).json()["error"]["message"] == "이 주소에는 아무것도 없습니다."
    assert (await ann.get(f"{API}/users")).json()["error"]["message"] == "관리자만 할 수 있습니다."


@pytest.mark.parametrize("query", ["q=a&q=b", "limit=1&q=a&limit=1"])
async def test_a_parameter_that_is_given_twice_is_named(site: Site, query: str) -> None:
    ann = await site.browser("ann")
    answer = await ann.get(f"{API}/workspaces?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["details"][0]["field"] == query.partition("=")[0]
