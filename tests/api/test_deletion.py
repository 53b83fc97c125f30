"""Deletion, the trash, undo, purge and recovery: real server, PostgreSQL, controller, memory platform."""

from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.support.patience import ask_until
from tests.support.site import API, Site, create

from codehub.core.access import Role
from codehub.core.operations import Phase
from codehub.ports.backends import BackendUnreachable


async def running(site: Site, client: httpx.AsyncClient) -> str:
    workspace = await create(client)
    await site.arrives(client, workspace["id"], "RUNNING")
    site.instances.write(UUID(workspace["id"]), "notes.txt", b"mine")
    return str(workspace["id"])


async def listed(client: httpx.AsyncClient, **params: Any) -> list[str]:
    items = (await client.get(f"{API}/workspaces", params=params)).json()["items"]
    return [item["id"] for item in items]


async def test_a_deleted_workspace_can_be_restored_with_its_files(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace_id = await running(living_site, ann)
    path = f"{API}/workspaces/{workspace_id}"
    answer = await ann.delete(path)
    assert (answer.status_code, answer.json()["display"]) == (202, "DELETING")
    assert answer.json()["purge_at"] > answer.json()["deleted_at"]
    await living_site.arrives(ann, workspace_id, "DELETED")
    for method, rest in (("GET", ""), ("PATCH", ""), ("POST", ":start"), ("DELETE", ""), ("GET", "/events")):
        body: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
        missing = await ann.request(method, path + rest, **body)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "WORKSPACE_NOT_FOUND")
    assert await listed(ann) == []
    assert await listed(ann, deleted=True) == [workspace_id]
    undeletion = await ann.post(f"{path}:undelete")
    assert (undeletion.status_code, undeletion.json()["desired_state"]) == (200, "PENDING")
    assert await listed(ann) == [workspace_id]
    await living_site.arrives(ann, workspace_id, "ARCHIVED")
    await ann.post(f"{path}:start")
    await living_site.arrives(ann, workspace_id, "RUNNING")
    assert living_site.storage.files(UUID(workspace_id)) == {"notes.txt": b"mine"}


async def test_a_purge_keeps_nothing_and_can_not_be_undone(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace_id = await running(living_site, ann)
    path = f"{API}/workspaces/{workspace_id}"
    await ann.post(f"{path}:archive")
    await living_site.arrives(ann, workspace_id, "ARCHIVED")
    assert (await ann.delete(path, params={"purge": True})).status_code == 202
    await living_site.arrives(ann, workspace_id, "DELETED")
    assert (await ann.post(f"{path}:undelete")).status_code == 404
    assert await listed(ann, deleted=True) == []
    assert [key for key in await living_site.storage.list_archives() if workspace_id in str(key)] == []


async def test_what_is_in_the_trash_can_be_purged(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace_id = await running(living_site, ann)
    await ann.delete(f"{API}/workspaces/{workspace_id}")
    await living_site.arrives(ann, workspace_id, "DELETED")
    assert (await ann.delete(f"{API}/workspaces/{workspace_id}", params={"purge": True})).status_code == 202
    assert await listed(ann, deleted=True) == []
    assert (await ann.post(f"{API}/workspaces/{workspace_id}:undelete")).status_code == 404


async def test_a_lost_home_is_an_error_until_somebody_accepts_the_loss(living_site: Site) -> None:
    ann = await living_site.browser("ann")
    workspace_id = await running(living_site, ann)
    path = f"{API}/workspaces/{workspace_id}"
    living_site.instances.vanish(UUID(workspace_id))
    living_site.storage.lose_volume(UUID(workspace_id))
    broken = await living_site.arrives(ann, workspace_id, "ERROR")
    assert broken["error"]["reason"] == "DataLost"
    assert (await ann.post(f"{path}:start")).json()["error"]["code"] == "RECOVERY_REQUIRED"
    recovered_at = (await ann.post(f"{path}:recover")).json()["updated_at"]
    later = await ask_until(
        lambda: living_site.arrives(ann, workspace_id, "ERROR"),
        lambda workspace: workspace["error"]["occurred_at"] > broken["error"]["occurred_at"],
    )
    assert later["updated_at"] > recovered_at
    accepted = await ann.post(f"{path}:recover", json={"accept_loss": True})
    assert accepted.status_code == 200
    await living_site.arrives(ann, workspace_id, "RUNNING")
    assert living_site.storage.files(UUID(workspace_id)) == {}


@pytest.mark.parametrize("word", ["start", "stop", "archive", "recover", "undelete", "keep_awake"])
async def test_a_request_for_what_is_so_already_is_accepted(living_site: Site, word: str) -> None:
    ann = await living_site.browser("ann")
    workspace_id = await running(living_site, ann)
    if word in ("stop", "archive"):
        await ann.post(f"{API}/workspaces/{workspace_id}:{word}")
        await living_site.arrives(ann, workspace_id, Phase.STANDBY if word == "stop" else Phase.ARCHIVED)
    before = (await ann.get(f"{API}/workspaces/{workspace_id}")).json()
    answer = await ann.post(f"{API}/workspaces/{workspace_id}:{word}")
    assert answer.status_code == 200
    if word != "keep_awake":
        assert answer.json()["revision"] == before["revision"]


async def test_an_admin_forgets_a_workspace_whose_deletion_a_dead_backend_holds_up(
    living_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, root = await living_site.browser("ann"), await living_site.browser("root", Role.ADMIN)
    workspace_id = await running(living_site, ann)
    path = f"{API}/workspaces/{workspace_id}"

    async def away(*_: object) -> None:
        raise BackendUnreachable("the engine is away")

    too_early = await root.post(f"{path}:forget")
    assert (too_early.status_code, too_early.json()["error"]["code"]) == (409, "INVALID_STATE")
    with monkeypatch.context() as dead:
        dead.setattr(living_site.instances, "list_all", away)
        dead.setattr(living_site.instances, "status", away)
        await ann.delete(path)
        explanation = await ask_until(
            lambda: explained(root, path), lambda answer: "does not answer" in (answer["waiting_for"] or "")
        )
        assert {"label": "Forget", "method": "POST", "path": f"{path}:forget"} in explanation["actions"]
        assert "Forget" not in [each["label"] for each in (await explained(ann, path))["actions"]]
        refusal = await ann.post(f"{path}:forget")
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (403, "FORBIDDEN")
        forgotten = await root.post(f"{path}:forget")
        assert forgotten.status_code == 200
        await living_site.arrives(ann, workspace_id, "DELETED")
    assert await listed(ann) == []
    assert await listed(ann, deleted=True) == [workspace_id]
    assert living_site.storage.files(UUID(workspace_id)) == {"notes.txt": b"mine"}
    assert (await ann.post(f"{path}:undelete")).status_code == 200
    history = (await ann.get(f"{path}/events")).json()["items"]
    (given_up,) = [each for each in history if each["to"] == "forgotten"]
    assert (given_up["kind"], given_up["actor"]) == ("deletion", living_site.people["root"].username)
    await living_site.arrives(ann, workspace_id, "ARCHIVED")
    await ann.post(f"{path}:start")
    await living_site.arrives(ann, workspace_id, "RUNNING")
    assert living_site.storage.files(UUID(workspace_id)) == {"notes.txt": b"mine"}


async def explained(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    explanation: dict[str, Any] = (await client.get(f"{path}/explain")).json()
    return explanation
