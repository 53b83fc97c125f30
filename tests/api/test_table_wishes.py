"""The table of spec §2.4, cell by cell, against the real server: which wish is accepted when."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.site import API, Site
from tests.support.workspaces import ABSENT, READY, conditions, error, held_up, home, workspace

from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.workspace import Status

PENDING, ARCHIVED, STANDBY, RUNNING = DesiredState
DONE, SAME = (200, "changed"), (200, "unchanged")
BUSY, BROKEN, LEAVING = (409, "OPERATION_IN_PROGRESS"), (409, "RECOVERY_REQUIRED"), (409, "INVALID_STATE")
DELETES = (202, "changed")

# now → PENDING, → ARCHIVED, → STANDBY, → RUNNING, delete. What the table marks as no change is accepted:
# the recorded wish may still change.
TABLE: dict[str, tuple[tuple[int, str], ...]] = {
    "PENDING": (SAME, DONE, DONE, DONE, DELETES),
    "ARCHIVED": (DONE, SAME, DONE, DONE, DELETES),
    "STANDBY": (DONE, DONE, SAME, DONE, DELETES),
    "RUNNING": (DONE, DONE, DONE, SAME, DELETES),
    "operation": (BUSY, BUSY, BUSY, BUSY, BUSY),
    "tried again": (BUSY, BUSY, BUSY, BUSY, BUSY),
    "held up": (DONE, DONE, DONE, SAME, DELETES),
    "ERROR": (BROKEN, BROKEN, BROKEN, BROKEN, DELETES),
    "deletion": (LEAVING, LEAVING, LEAVING, LEAVING, DELETES),
}
SEEN: dict[str, Any] = {
    "PENDING": {},
    "ARCHIVED": {"conditions": conditions(archive=READY)},
    "STANDBY": {"conditions": conditions(volume=READY), "home_ctx": home()},
    "RUNNING": {"conditions": conditions(volume=READY, container=READY), "home_ctx": home(dirty=True)},
}
CELLS = [
    (now, wish, expected)
    for now, row in TABLE.items()
    for wish, expected in zip((*DesiredState, None), row, strict=True)
]


def status_of(now: str) -> tuple[Status, DesiredState]:
    if now == "operation":
        row = workspace(Phase.STANDBY, RUNNING, operation=Operation.STARTING, **SEEN["STANDBY"])
    elif now in ("held up", "tried again"):
        held = held_up(is_trying=now == "tried again")
        row = workspace(Phase.STANDBY, RUNNING, operation=Operation.STARTING, held_up=held, **SEEN["STANDBY"])
    elif now == "ERROR":
        row = workspace(Phase.ERROR, RUNNING, error_info=error(), conditions=conditions(volume=READY))
    elif now == "deletion":
        row = workspace(Phase.STANDBY, PENDING, **SEEN["STANDBY"])
    else:
        row = workspace(Phase(now), DesiredState(now), **SEEN[now])
    return row.status, row.spec.desired_state


@pytest.mark.parametrize(
    ("now", "wish", "expected"), CELLS, ids=[f"{now}-{wish or 'delete'}" for now, wish, _ in CELLS]
)
async def test_the_server_answers_every_cell_of_the_table(
    site: Site, now: str, wish: DesiredState | None, expected: tuple[int, str]
) -> None:
    ann = await site.browser("ann")
    owner = await site.user("ann")
    status, wished = status_of(now)
    at = await site.world.now()
    deletion = {"deleted_at": at, "purge_at": at + timedelta(days=1)} if now == "deletion" else {}
    row = await site.world.place(
        site.world.spec(owner_user_id=owner.id, desired_state=wished, **deletion), status
    )
    path = f"{API}/workspaces/{row.id}"
    if wish is None:
        answer = await ann.delete(path)
    else:
        answer = await ann.patch(path, json={"desired_state": wish})
    after = await site.world.api.get(row.id)
    if answer.status_code >= 400:
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
        assert answer.json()["error"]["message"]
        assert after.spec == row.spec
        return
    outcome = "changed" if after.spec.revision == row.spec.revision + 1 else "unchanged"
    assert (answer.status_code, outcome) == expected
    assert answer.json()["desired_state"] == (wish or PENDING)
    assert (answer.json()["deleted_at"] is not None) is (wish is None)
    assert replace(after.status, version=0) == replace(row.status, version=0)


@pytest.mark.parametrize(("word", "wish"), [("start", RUNNING), ("stop", STANDBY), ("archive", ARCHIVED)])
@pytest.mark.parametrize(
    "now", ["PENDING", "ARCHIVED", "STANDBY", "RUNNING", "operation", "held up", "ERROR", "deletion"]
)
async def test_start_stop_and_archive_set_the_wish_of_the_table(
    site: Site, now: str, word: str, wish: DesiredState
) -> None:
    ann, owner = await site.browser("ann"), await site.user("ann")
    status, wished = status_of(now)
    at = await site.world.now()
    deletion = {"deleted_at": at, "purge_at": at + timedelta(days=1)} if now == "deletion" else {}
    row = await site.world.place(
        site.world.spec(owner_user_id=owner.id, desired_state=wished, **deletion), status
    )
    answer = await ann.post(f"{API}/workspaces/{row.id}:{word}")
    status_code, meaning = TABLE[now][list(DesiredState).index(wish)]
    assert answer.status_code == status_code
    if status_code == 200:
        assert answer.json()["desired_state"] == wish
    else:
        assert answer.json()["error"]["code"] == meaning


async def test_a_deletion_asked_for_again_is_a_retry_and_with_purge_it_is_at_once(site: Site) -> None:
    ann, owner = await site.browser("ann"), await site.user("ann")
    row = await site.world.place(
        site.world.spec(owner_user_id=owner.id, desired_state=PENDING),
        workspace(Phase.STANDBY, conditions=conditions(volume=READY, archive=ABSENT), home_ctx=home()).status,
    )
    path = f"{API}/workspaces/{row.id}"
    first = (await ann.delete(path)).json()
    second = (await ann.delete(path)).json()
    purged = (await ann.delete(path, params={"purge": True})).json()
    assert first["deleted_at"] < second["deleted_at"] < purged["deleted_at"]
    assert purged["purge_at"] == purged["deleted_at"]
    assert {first["display"], second["display"], purged["display"]} == {"DELETING"}
