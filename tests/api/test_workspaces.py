"""Workspaces from outside: making, listing, changing, limits, validation, and every answer in its shape."""

import asyncio
import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.site import API, RESTS, Site, create, known, placed
from tests.support.workspaces import READY, conditions, error, home, workspace

from codehub.api.shapes import WorkspaceShape
from codehub.core.access import Role
from codehub.core.errors import ErrorReason
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.progress import Progress

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
# wire.md, word by word.
FIELDS = [
    "id",
    "name",
    "description",
    "memo",
    "owner",
    "url",
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
    "conditions",
    "archive_key",
    "error",
    "progress",
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
]


# Making


async def test_a_new_workspace_has_every_field_of_the_wire_and_its_place(site: Site) -> None:
    ann = await site.browser("ann")
    answer = await ann.post(f"{API}/workspaces", json={"name": "demo"})
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{API}/workspaces/{made['id']}"
    assert answer.headers["etag"] == '"1"'
    assert list(made) == FIELDS
    assert made["url"] == f"{site.parts.base_url}/w/{made['id']}/"
    assert (made["desired_state"], made["phase"], made["display"]) == ("RUNNING", "PENDING", "PENDING")
    assert made["resources"] == {"memory_mb": 2048, "cpus": 2.0, "pids": 1024}
    assert set(made["conditions"]["policy.healthy"]) == {
        "status",
        "reason",
        "message",
        "last_transition_time",
    }
    assert TIME.match(made["created_at"])
    assert (await ann.get(answer.headers["location"])).json() == made


async def test_what_is_said_counts_and_null_is_never(site: Site) -> None:
    ann = await site.browser("ann")
    said: dict[str, Any] = {
        "description": "한글 🚀",
        "memo": "line\nline",
        "image_ref": "ghcr.io/a/b:1@sha256:00",
        "ide": "http",
        "resources": {"memory_mb": 512},
        "standby_ttl_seconds": None,
        "archive_ttl_seconds": 0,
        "desired_state": "ARCHIVED",
    }
    made = await create(ann, **said)
    assert {name: made[name] for name in said} == {
        **said,
        "resources": {"memory_mb": 512, "cpus": 2.0, "pids": 1024},
    }


async def test_a_name_is_taken_until_its_workspace_is_deleted(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    again = await ann.post(f"{API}/workspaces", json={"name": "demo", **RESTS})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "NAME_TAKEN")
    await ann.delete(f"{API}/workspaces/{made['id']}")
    await create(ann, **RESTS)
    back = await ann.post(f"{API}/workspaces/{made['id']}:undelete")
    assert (back.status_code, back.json()["error"]["code"]) == (409, "NAME_TAKEN")


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
    made = (await ann.post(f"{API}/workspaces", json=body, headers=key)).json()
    await ann.delete(f"{API}/workspaces/{made['id']}")
    await living_site.arrives(ann, made["id"], "DELETED")
    again = await ann.post(f"{API}/workspaces", json=body, headers=key)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "WORKSPACE_NOT_FOUND")
    other = await ann.post(f"{API}/workspaces", json=body, headers={"Idempotency-Key": "def"})
    assert other.status_code == 201


@pytest.mark.parametrize("word", ["start", "stop", "archive", "undelete", "forget"])
async def test_a_call_that_takes_nothing_refuses_every_field(site: Site, word: str) -> None:
    admin = await site.browser("root", Role.ADMIN)
    made = await create(admin, **RESTS)
    path = f"{API}/workspaces/{made['id']}:{word}"
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


# Listing


async def test_a_list_is_paged_without_gaps(site: Site) -> None:
    ann = await site.browser("ann")
    made = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(7)]
    got, cursor = [], None
    while True:
        params = {"limit": 3} | ({} if cursor is None else {"cursor": cursor})
        page = (await ann.get(f"{API}/workspaces", params=params)).json()
        got += [item["id"] for item in page["items"]]
        assert list(page["items"][0]) == FIELDS
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert got == made[::-1]


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
    changed = await ann.patch(
        path, json={"name": "new", "memo": "m", "resources": {"pids": 99}}, headers={"If-Match": '"1"'}
    )
    assert (changed.status_code, changed.headers["etag"], changed.json()["revision"]) == (200, '"2"', 2)
    assert changed.json()["resources"] == {"memory_mb": 2048, "cpus": 2.0, "pids": 99}
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
    made = await create(ann)
    arrived = await living_site.arrives(ann, made["id"], "RUNNING")
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
    refused = await ann.patch(path, json={"memo": "y", "desired_state": "STANDBY"})
    assert refused.json()["error"]["code"] == "OPERATION_IN_PROGRESS"
    assert (await ann.get(path)).json()["memo"] == "x"


async def test_two_names_at_once_are_one_each(site: Site) -> None:
    ann = await site.browser("ann")
    ids = [(await create(ann, f"w{number}", **RESTS))["id"] for number in range(4)]
    answers = await asyncio.gather(
        *(ann.patch(f"{API}/workspaces/{one}", json={"name": "same"}) for one in ids)
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]


async def test_staying_awake_is_bounded_and_never_shortened(site: Site) -> None:
    ann = await site.browser("ann")
    path = f"{API}/workspaces/{(await create(ann, **RESTS))['id']}:keep_awake"
    longest = (await ann.post(path, json={"seconds": 43_200})).json()["awake_until"]
    assert (await ann.post(path)).json()["awake_until"] == longest
    for seconds in (0, 43_201, "60", 1.5, None):
        assert (await ann.post(path, json={"seconds": seconds})).status_code == 422


# What is shown


async def test_progress_and_errors_are_shown_and_every_row_fits_the_document(site: Site) -> None:
    ann, op_id = await site.browser("ann"), uuid4()
    busy = workspace(Phase.ARCHIVED, operation=Operation.RESTORING, op_id=op_id)
    moving = await placed(site, busy)
    half = Progress("restore", 5, 10, 2.5, 2.0)
    await site.world.controller.write_progress({moving.id: (op_id, half)}, [])
    await placed(site, workspace(Phase.ERROR, error_info=error(ErrorReason.DATA_LOST)))
    items = (await ann.get(f"{API}/workspaces")).json()["items"]
    for item in items:
        WorkspaceShape.model_validate(item, strict=False, extra="forbid")
    by_phase = {item["phase"]: item for item in items}
    assert by_phase["ARCHIVED"]["progress"] == {
        "stage": "restore",
        "done_bytes": 5,
        "total_bytes": 10,
        "bytes_per_second": 2.5,
        "eta_seconds": 2.0,
    }
    shown = by_phase["ERROR"]["error"]
    assert list(shown) == [
        *("reason", "message", "is_terminal", "operation", "error_count", "context", "occurred_at")
    ]
    assert (by_phase["ERROR"]["health_status"], shown["reason"]) == ("ERROR", "DataLost")


async def test_explain_says_what_is_waited_for_and_what_can_be_done(site: Site) -> None:
    ann = await site.browser("ann")
    lost = await placed(site, workspace(Phase.ERROR, error_info=error(ErrorReason.DATA_LOST)))
    told = (await ann.get(f"{API}/workspaces/{lost.id}/explain")).json()
    assert list(told) == [
        *(
            "phase",
            "desired_state",
            "operation",
            "next",
            "waiting_for",
            "since",
            "error",
            "actions",
            "decisions",
        )
    ]
    assert "person" in told["waiting_for"]
    assert {"label": "Recover", "method": "POST", "path": f"{API}/workspaces/{lost.id}:recover"} in told[
        "actions"
    ]
    lossy = f"{API}/workspaces/{lost.id}:recover?accept_loss=true"
    assert {"label": "Recover and accept the loss", "method": "POST", "path": lossy} in told["actions"]
    assert (await ann.post(lossy)).status_code == 200
    assert (await site.world.api.get(lost.id)).spec.recover_accepts_loss
    made = await create(ann)
    told = (await ann.get(f"{API}/workspaces/{made['id']}/explain")).json()
    assert told["next"] == {"operation": "PROVISIONING", "why": "One step up, to where it should be."}
    assert told["decisions"][0]["to"] == "RUNNING"


async def test_the_history_says_who_asked_for_what_in_which_request(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    answer = await ann.post(f"{API}/workspaces", json={"name": "demo"}, headers={"X-Request-Id": "req-1"})
    made = answer.json()
    assert answer.headers["x-request-id"] == "req-1"
    await living_site.arrives(ann, made["id"], "RUNNING")
    history: list[dict[str, Any]] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = (await ann.get(f"{API}/workspaces/{made['id']}/events", params=params)).json()
        history += page["items"]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    seqs = [event["seq"] for event in history]
    assert seqs == sorted(seqs, reverse=True)
    assert list(history[0]) == ["seq", "at", "kind", "from", "to", "actor", "reason", "request_id"]
    first = history[-1]
    assert (first["kind"], first["from"], first["to"]) == ("wish", None, "RUNNING")
    assert first["actor"] == living_site.people["ann"].username
    assert {event["request_id"] for event in history} == {"req-1"}
    assert {event["actor"] for event in history[:-1]} == {"c1"}


async def test_only_what_is_carried_out_gives_an_operation_its_request_id(site: Site) -> None:
    ann = await site.browser("ann")
    made = (await ann.post(f"{API}/workspaces", json={"name": "x"}, headers={"X-Request-Id": "made"})).json()
    path = f"{API}/workspaces/{made['id']}"

    async def carried_out() -> str | None:
        return (await site.world.api.get(known(made["id"]))).spec.request_id

    await ann.post(f"{path}:keep_awake", headers={"X-Request-Id": "awake"})
    await ann.patch(path, json={"memo": "x"}, headers={"X-Request-Id": "memo"})
    assert await carried_out() == "made"
    newest = (await ann.get(f"{path}/events")).json()["items"][0]
    assert (newest["kind"], newest["request_id"]) == ("wish", "memo")
    await ann.patch(path, json={"desired_state": "STANDBY"}, headers={"X-Request-Id": "wish"})
    assert await carried_out() == "wish"
    await ann.delete(path, headers={"X-Request-Id": "deletion"})
    assert await carried_out() == "deletion"


async def test_a_change_of_settings_is_in_the_history_too(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    await ann.patch(f"{API}/workspaces/{made['id']}", json={"memo": "x", "name": "y"})
    (newest, _made) = (await ann.get(f"{API}/workspaces/{made['id']}/events")).json()["items"]
    assert (newest["kind"], newest["from"], newest["to"]) == ("wish", "PENDING", "PENDING")
    assert newest["reason"] == "Asked to change memo, name."


async def test_logs_are_plain_text(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    made = await create(ann)
    await living_site.arrives(ann, made["id"], "RUNNING")
    answer = await ann.get(f"{API}/workspaces/{made['id']}/logs", params={"tail": 5})
    assert (answer.status_code, answer.text) == (200, "started\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    followed = await ann.get(f"{API}/workspaces/{made['id']}/logs", params={"follow": True})
    assert followed.text == "started\n"


# A GET changes nothing (security 6)


async def test_a_get_changes_nothing(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    before = await site.world.api.get(UUID(made["id"]))
    for path in ("", "/events", "/logs", "/explain", ":start", ":stop", ":undelete"):
        answer = await ann.get(f"{API}/workspaces/{made['id']}{path}")
        assert answer.status_code in (200, 404, 405), path
    assert await site.world.api.get(before.id) is before


async def test_what_is_in_the_trash_past_its_time_is_gone(site: Site) -> None:
    ann = await site.browser("ann")
    now = await site.world.now()
    spec = {"deleted_at": now - timedelta(days=8), "purge_at": now - timedelta(days=1)}
    gone = await placed(site, workspace(Phase.DELETED, DesiredState.PENDING), **spec)
    path = f"{API}/workspaces/{gone.id}"
    assert (await ann.get(path)).status_code == 404
    assert (await ann.post(f"{path}:undelete")).status_code == 404
    assert (await ann.delete(path, params={"purge": True})).status_code == 404
    assert (await ann.get(f"{API}/workspaces", params={"deleted": True})).json()["items"] == []
