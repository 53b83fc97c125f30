"""Workspaces from outside: making, listing, changing, limits, validation, and every answer in its shape."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.support.site import API, RESTS, Site, create, placed
from tests.support.workspaces import READY, conditions, home, workspace

from codehub.core.access import Role
from codehub.core.operations import DesiredState, Operation, Phase

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
# wire.md, word by word.
FIELDS = [
    "id",
    "name",
    "description",
    "memo",
    "pinned_at",
    "owner",
    "url",
    "path_url",
    "revision",
    "image_ref",
    "ide",
    "resources",
    "instance_backend",
    "storage_backend",
    "desired_state",
    "phase",
    "display",
    "observed_status",
    "health_status",
    "operation",
    "op_id",
    "op_started_at",
    "held_up",
    "conditions",
    "archive_key",
    "error",
    "progress",
    "usage",
    "tab_script",
    "cross_port_access",
    "standby_ttl_seconds",
    "archive_ttl_seconds",
    "last_access_at",
    "awake_until",
    "sleeps_at",
    "phase_changed_at",
    "created_at",
    "updated_at",
    "deleted_at",
    "purge_at",
    "observed_at",
]


# Making


async def test_a_new_workspace_has_every_field_of_the_wire_and_its_place(site: Site) -> None:
    ann = await site.browser("ann")
    answer = await ann.post(f"{API}/workspaces", json={"name": "demo"})
    demo = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{API}/workspaces/{demo['id']}"
    assert answer.headers["etag"] == '"1"'
    assert list(demo) == FIELDS
    assert demo["url"] == demo["path_url"] == f"{site.parts.base_url}/w/{demo['id']}/"
    assert (demo["desired_state"], demo["phase"], demo["display"]) == ("RUNNING", "PENDING", "PENDING")
    assert demo["resources"] == {"memory_mb": 2048, "cpus": 2.0, "pids": 1024, "disk_mb": 20_480}
    assert set(demo["conditions"]["policy.healthy"]) == {
        "status",
        "reason",
        "message",
        "code",
        "facts",
        "last_transition_time",
    }
    assert TIME.match(demo["created_at"])
    assert (await ann.get(answer.headers["location"])).json() == demo


async def test_the_fields_of_a_new_workspace_are_kept_and_a_null_ttl_means_never(site: Site) -> None:
    ann = await site.browser("ann")
    fields: dict[str, Any] = {
        "description": "한글 🚀",
        "memo": "line\nline",
        "image_ref": "ghcr.io/a/b:1@sha256:00",
        "ide": "http",
        "resources": {"memory_mb": 512},
        "standby_ttl_seconds": None,
        "archive_ttl_seconds": 0,
        "desired_state": "ARCHIVED",
    }
    demo = await create(ann, **fields)
    assert {name: demo[name] for name in fields} == {
        **fields,
        "resources": {"memory_mb": 512, "cpus": 2.0, "pids": 1024, "disk_mb": 20_480},
    }


async def test_a_name_is_taken_until_its_workspace_is_deleted(site: Site) -> None:
    ann = await site.browser("ann")
    demo = await create(ann, **RESTS)
    second = await ann.post(f"{API}/workspaces", json={"name": "demo", **RESTS})
    assert (second.status_code, second.json()["error"]["code"]) == (409, "NAME_TAKEN")
    await ann.delete(f"{API}/workspaces/{demo['id']}")
    await create(ann, **RESTS)
    undo = await ann.post(f"{API}/workspaces/{demo['id']}:undelete")
    assert (undo.status_code, undo.json()["error"]["code"]) == (409, "NAME_TAKEN")


async def test_the_same_key_and_body_give_the_same_workspace(site: Site) -> None:
    ann = await site.browser("ann")
    key = {"Idempotency-Key": "abc"}
    answers = await asyncio.gather(
        *(ann.post(f"{API}/workspaces", json={"name": "demo"}, headers=key) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    other = await ann.post(f"{API}/workspaces", json={"name": "other"}, headers=key)
    assert (other.status_code, other.json()["error"]["details"][0]["field"]) == (422, "Idempotency-Key")
    assert len((await ann.get(f"{API}/workspaces")).json()["items"]) == 1


async def test_the_key_of_a_deleted_workspace_leads_to_none(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    body, key = {"name": "demo", "desired_state": "PENDING"}, {"Idempotency-Key": "abc"}
    demo = (await ann.post(f"{API}/workspaces", json=body, headers=key)).json()
    await ann.delete(f"{API}/workspaces/{demo['id']}")
    await living_site.arrives(ann, demo["id"], "DELETED")
    second = await ann.post(f"{API}/workspaces", json=body, headers=key)
    assert (second.status_code, second.json()["error"]["code"]) == (404, "WORKSPACE_NOT_FOUND")
    other = await ann.post(f"{API}/workspaces", json=body, headers={"Idempotency-Key": "def"})
    assert other.status_code == 201


@pytest.mark.parametrize("word", ["start", "stop", "archive", "undelete", "forget"])
async def test_a_call_that_takes_nothing_refuses_every_field(site: Site, word: str) -> None:
    admin = await site.browser("root", Role.ADMIN)
    demo = await create(admin, **RESTS)
    path = f"{API}/workspaces/{demo['id']}:{word}"
    wrong = await admin.post(path, json={"foo": 1})
    assert (wrong.status_code, wrong.json()["error"]["details"][0]["field"]) == (422, "foo")
    for right in (await admin.post(path, json={}), await admin.post(path)):
        assert right.status_code == (409 if word == "forget" else 200), right.text


async def test_signing_out_takes_nothing_either(site: Site) -> None:
    ann = await site.browser("ann")
    assert (await ann.post(f"{API}/logout", json={"everywhere": True})).status_code == 422
    assert (await ann.get(f"{API}/session")).status_code == 200
    assert (await ann.post(f"{API}/logout", json={})).status_code == 204


async def test_an_id_of_any_length_that_is_nobody_s_is_404(site: Site) -> None:
    ann = await site.browser("ann")
    for length in (64, 65, 5000):
        answer = await ann.get(f"{API}/workspaces/{'a' * length}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "WORKSPACE_NOT_FOUND")


async def test_an_id_is_written_in_one_form_in_either_case(site: Site) -> None:
    ann = await site.browser("ann")
    workspace_id = (await create(ann, **RESTS))["id"]
    assert (await ann.get(f"{API}/workspaces/{workspace_id.upper()}")).json()["id"] == workspace_id
    for other in (
        workspace_id.replace("-", ""),
        f"{{{workspace_id}}}",
        f"urn:uuid:{workspace_id}",
        f"{workspace_id[:-1]}\u0661",
    ):
        for path in (f"{API}/workspaces/{other}", f"/workspaces/{other}"):
            assert (await ann.get(path)).status_code == 404, path


async def test_a_null_wish_is_the_default(site: Site) -> None:
    ann = await site.browser("ann")
    assert (await create(ann, desired_state=None))["desired_state"] == "RUNNING"


# Listing


async def test_a_list_is_paged_without_gaps(site: Site) -> None:
    ann = await site.browser("ann")
    ids = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(7)]
    listing, cursor = [], None
    while True:
        params = {"limit": 3} | ({} if cursor is None else {"cursor": cursor})
        page = (await ann.get(f"{API}/workspaces", params=params)).json()
        listing += [item["id"] for item in page["items"]]
        assert list(page["items"][0]) == FIELDS
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert listing == ids[::-1]


@pytest.mark.parametrize(
    "call",
    [
        "/workspaces?limit=50&cursor=&q=&phase=&owner=me&deleted=false",
        "/workspaces?limit=&cursor=&q=&phase=&owner=&deleted=",
        "/workspaces?phase&limit",
        "/workspaces/{id}/events?limit=&cursor=",
        "/workspaces/{id}/logs?tail=&follow=",
    ],
)
async def test_an_empty_query_value_means_the_default(site: Site, call: str) -> None:
    ann = await site.browser("ann")
    path = f"{API}{call}".format(id=(await create(ann, **RESTS))["id"])
    empty, absent = await ann.get(path), await ann.get(path.partition("?")[0])
    assert (empty.status_code, empty.content) == (200, absent.content)


async def test_a_list_can_be_searched_and_filtered(site: Site) -> None:
    ann = await site.browser("ann")
    await create(ann, "machine learning", **RESTS)
    await create(ann, "other", description="100% Machine", **RESTS)
    await create(ann, "third", **RESTS)
    for query, count in (
        ({"q": "MACHINE"}, 2),
        ({"q": "0%"}, 1),
        ({"phase": "PENDING"}, 3),
        ({"phase": "ERROR"}, 0),
    ):
        items = (await ann.get(f"{API}/workspaces", params=query)).json()["items"]
        assert len(items) == count, query
    for wrong in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"phase": "X"}, {"cursor": "x"}, {"q": "\0"}):
        assert (await ann.get(f"{API}/workspaces", params=wrong)).status_code == 422, wrong


# Changing


async def test_a_change_moves_the_revision_and_a_stale_one_is_refused(site: Site) -> None:
    ann = await site.browser("ann")
    path = f"{API}/workspaces/{(await create(ann, **RESTS))['id']}"
    change = await ann.patch(
        path, json={"name": "new", "memo": "m", "resources": {"pids": 99}}, headers={"If-Match": '"1"'}
    )
    assert (change.status_code, change.headers["etag"], change.json()["revision"]) == (200, '"2"', 2)
    assert change.json()["resources"] == {"memory_mb": 2048, "cpus": 2.0, "pids": 99, "disk_mb": 20_480}
    for tag in ('"1"', 'W/"2"', "2", '"x"', ""):
        stale = await ann.patch(path, json={"memo": "stale"}, headers={"If-Match": tag})
        assert (stale.status_code, stale.json()["error"]["code"]) == (412, "PRECONDITION_FAILED"), tag
    for tag in ('"2"', "*", '"1", "2"'):
        assert (await ann.patch(path, json={"memo": "m"}, headers={"If-Match": tag})).status_code == 200
    assert (await ann.get(path)).headers["etag"] == '"2"'
    cleared = await ann.patch(path, json={"memo": None, "standby_ttl_seconds": None})
    assert (cleared.json()["memo"], cleared.json()["standby_ttl_seconds"]) == (None, None)


async def test_a_controller_s_write_never_moves_the_revision(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    demo = await create(ann)
    arrived = await living_site.arrives(ann, demo["id"], "RUNNING")
    assert arrived["revision"] == 1


async def test_only_a_wish_is_refused_while_an_operation_runs(site: Site) -> None:
    ann = await site.browser("ann")
    row = await placed(
        site,
        workspace(
            Phase.STANDBY, operation=Operation.STARTING, conditions=conditions(volume=READY), home_ctx=home()
        ),
    )
    path = f"{API}/workspaces/{row.id}"
    assert (await ann.patch(path, json={"memo": "x", "image_ref": "new"})).status_code == 200
    refusal = await ann.patch(path, json={"memo": "y", "desired_state": "STANDBY"})
    assert refusal.json()["error"]["code"] == "OPERATION_IN_PROGRESS"
    assert (await ann.get(path)).json()["memo"] == "x"


async def test_one_name_given_to_several_at_once_goes_to_one(site: Site) -> None:
    ann = await site.browser("ann")
    ids = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(4)]
    answers = await asyncio.gather(
        *(ann.patch(f"{API}/workspaces/{workspace_id}", json={"name": "same"}) for workspace_id in ids)
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_staying_awake_is_bounded_and_never_shortened(site: Site) -> None:
    ann = await site.browser("ann")
    path = f"{API}/workspaces/{(await create(ann, **RESTS))['id']}:keep_awake"
    longest = (await ann.post(path, json={"seconds": 43_200})).json()["awake_until"]
    assert (await ann.post(path)).json()["awake_until"] == longest
    for seconds in (0, 43_201, "60", 1.5, None):
        assert (await ann.post(path, json={"seconds": seconds})).status_code == 422


# A GET changes nothing (security 6)


async def test_a_get_changes_nothing(site: Site) -> None:
    ann = await site.browser("ann")
    demo = await create(ann, **RESTS)
    before = await site.world.api.get(UUID(demo["id"]))
    for path in ("", "/events", "/logs", "/explain", ":start", ":stop", ":undelete"):
        answer = await ann.get(f"{API}/workspaces/{demo['id']}{path}")
        assert answer.status_code in (200, 404, 405), path
    assert await site.world.api.get(before.id) is before


async def test_what_is_in_the_trash_past_its_time_is_gone(site: Site) -> None:
    ann = await site.browser("ann")
    now = await site.world.now()
    spec = {"deleted_at": now - timedelta(days=8), "purge_at": now - timedelta(days=1)}
    row = await placed(site, workspace(Phase.DELETED, DesiredState.PENDING), **spec)
    path = f"{API}/workspaces/{row.id}"
    assert (await ann.get(path)).status_code == 404
    assert (await ann.post(f"{path}:undelete")).status_code == 404
    assert (await ann.delete(path, params={"purge": True})).status_code == 404
    assert (await ann.get(f"{API}/workspaces", params={"deleted": True})).json()["items"] == []
