"""What is shown of a workspace: its row, why it is where it is, its history and its output."""

from typing import Any
from uuid import uuid4

import pytest
from tests.support.site import API, RESTS, Site, create, known, placed
from tests.support.workspaces import error, workspace

from codehub.api.shapes import WorkspaceShape
from codehub.core.errors import ErrorReason
from codehub.core.operations import Operation, Phase
from codehub.core.progress import Progress
from codehub.core.workspace import RecoverChoice


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
        *(
            "reason",
            "message",
            "code",
            "facts",
            "is_terminal",
            "operation",
            "error_count",
            "context",
            "occurred_at",
        )
    ]
    assert (by_phase["ERROR"]["health_status"], shown["reason"]) == ("ERROR", "DataLost")


async def test_explain_says_what_is_waited_for_and_what_can_be_done(site: Site) -> None:
    ann = await site.browser("ann")
    lost = await placed(site, workspace(Phase.ERROR, error_info=error(ErrorReason.DATA_LOST)))
    explanation = (await ann.get(f"{API}/workspaces/{lost.id}/explain")).json()
    assert list(explanation) == [
        *(
            "phase",
            "desired_state",
            "operation",
            "next",
            "waiting_for",
            "waits",
            "since",
            "error",
            "actions",
            "decisions",
        )
    ]
    assert "person" in explanation["waiting_for"]
    assert explanation["waits"] == {
        "reason": "Remedy",
        "facts": {"remedy": "DataLost"},
        "message": explanation["waiting_for"],
    }
    assert {
        "label": "Recover",
        "method": "POST",
        "path": f"{API}/workspaces/{lost.id}:recover",
    } in explanation["actions"]
    lossy = f"{API}/workspaces/{lost.id}:recover?accept_loss=true"
    assert {"label": "Recover and accept the loss", "method": "POST", "path": lossy} in explanation["actions"]
    assert (await ann.post(lossy)).status_code == 200
    assert (await site.world.api.get(lost.id)).spec.recover_accepts_loss
    made = await create(ann)
    explanation = (await ann.get(f"{API}/workspaces/{made['id']}/explain")).json()
    assert explanation["next"] == {
        "operation": "PROVISIONING",
        "why": "One step up, to where it should be.",
        "reason": "MovesUp",
    }
    assert explanation["decisions"][0]["to"] == "RUNNING"


@pytest.mark.parametrize(
    ("body", "choice"),
    [
        ({"take": "newest"}, RecoverChoice.NEWEST),
        ({"adopt": True}, RecoverChoice.ADOPT),
        ({}, None),
    ],
)
async def test_a_recovery_says_what_to_go_on_with(
    site: Site, body: dict[str, object], choice: RecoverChoice | None
) -> None:
    ann = await site.browser("ann")
    lost = await placed(site, workspace(Phase.ERROR, error_info=error(ErrorReason.DATA_LOST)))
    assert (await ann.post(f"{API}/workspaces/{lost.id}:recover", json=body)).status_code == 200
    assert (await site.world.api.get(lost.id)).spec.recover_choice is choice


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"take": "newest", "adopt": True}),
        ("", {"accept_loss": True, "take": "newest"}),
        ("?accept_loss=true&adopt=true", None),
        ("?take=newest&adopt=true", None),
        ("", {"take": "oldest"}),
    ],
    ids=str,
)
async def test_a_recovery_goes_on_in_one_way_only(
    site: Site, query: str, body: dict[str, object] | None
) -> None:
    ann = await site.browser("ann")
    lost = await placed(site, workspace(Phase.ERROR, error_info=error(ErrorReason.DATA_LOST)))
    answer = await ann.post(f"{API}/workspaces/{lost.id}:recover{query}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID_REQUEST")
    assert (await site.world.api.get(lost.id)).spec.recover_at is None


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
    assert list(history[0]) == [
        *("seq", "at", "kind", "from", "to", "actor", "reason", "message", "facts", "request_id")
    ]
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
    assert (newest["reason"], newest["facts"]["fields"]) == ("AskedToChange", ["memo", "name"])
    assert newest["message"] == "Asked to change memo, name."


async def test_logs_are_plain_text(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    made = await create(ann)
    await living_site.arrives(ann, made["id"], "RUNNING")
    answer = await ann.get(f"{API}/workspaces/{made['id']}/logs", params={"tail": 5})
    assert (answer.status_code, answer.text) == (200, "started\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    followed = await ann.get(f"{API}/workspaces/{made['id']}/logs", params={"follow": True})
    assert followed.text == "started\n"


async def test_reasons_are_codes_and_facts_and_messages_are_in_the_asker_s_language(site: Site) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    path = f"{API}/workspaces/{made['id']}"
    texts = {}
    for language in ("en", "ko", "xx"):
        headers = {"Accept-Language": language}
        row = (await ann.get(path, headers=headers)).json()
        (event,) = (await ann.get(f"{path}/events", headers=headers)).json()["items"]
        explained = (await ann.get(f"{path}/explain", headers=headers)).json()
        volume = row["conditions"]["storage.volume_ready"]
        assert (volume["reason"], volume["code"], volume["facts"]) == ("Absent", "NothingYet", {})
        assert (event["reason"], event["facts"]) == ("AskedToCreate", {})
        assert explained["next"]["reason"] == "Converged"
        texts[language] = (volume["message"], event["message"], explained["next"]["why"])
    assert (
        texts["xx"]
        == texts["en"]
        == ("Nothing has been made yet.", "Asked to make it.", "It is where it should be.")
    )
    assert texts["ko"] == (
        "아직 아무것도 만들지 않았습니다.",
        "새로 만들도록 요청했습니다.",
        "목표 상태에 있습니다.",
    )
