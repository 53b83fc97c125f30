"""A trash without end (CODEHUB_TRASH_SECONDS=never): what the wire, the
dashboard and the command line say of it, and how it is emptied.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.support.command import Command
from tests.support.forms import answered_yes, post
from tests.support.site import API, Site, create, open_site
from tests.support.stores import memory_world


@pytest.fixture
async def keeping_site() -> AsyncIterator[Site]:
    async with open_site(memory_world(), controlled=True, trash_s=None) as opened:
        yield opened
        await opened.clients.aclose()


async def deleted_workspace(site: Site, client: httpx.AsyncClient) -> str:
    workspace_id = str((await create(client))["id"])
    await site.arrives(client, workspace_id, "RUNNING")
    answer = await client.delete(f"{API}/workspaces/{workspace_id}")
    assert (answer.status_code, answer.json()["purge_at"]) == (202, None)
    await site.arrives(client, workspace_id, "DELETED")
    return workspace_id


async def test_a_deletion_has_no_time_and_a_person_undoes_or_purges_it(keeping_site: Site) -> None:
    ann = await keeping_site.browser("ann")
    workspace_id = await deleted_workspace(keeping_site, ann)
    (item,) = (await ann.get(f"{API}/workspaces", params={"deleted": True})).json()["items"]
    assert (item["id"], item["purge_at"], item["deleted_at"] is None) == (workspace_id, None, False)
    assert "kept until somebody removes it" in (await ann.get("/trash")).text
    korean = {"Accept-Language": "ko"}
    assert "직접 영구 삭제할 때까지 보관" in (await ann.get("/trash", headers=korean)).text
    assert (await ann.post(f"{API}/workspaces/{workspace_id}:undelete")).status_code == 200
    await keeping_site.arrives(ann, workspace_id, "ARCHIVED")
    await ann.delete(f"{API}/workspaces/{workspace_id}")
    await keeping_site.arrives(ann, workspace_id, "DELETED")
    place = f"/workspaces/{workspace_id}/purge"
    question = await post(ann, keeping_site, place, back="/trash")
    await post(ann, keeping_site, place, **answered_yes(question))
    assert "demo" not in (await ann.get("/trash")).text
    assert (await ann.post(f"{API}/workspaces/{workspace_id}:undelete")).status_code == 404


async def test_the_command_line_says_until_when_it_can_be_undone(keeping_site: Site, tmp_path: Path) -> None:
    ann = await keeping_site.program("ann")
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    command = Command(tmp_path, {"url": keeping_site.address, "token": token})
    await create(ann)
    deletion = await command("ws", "delete", "demo", "--wait")
    assert "Until somebody purges it this can be undone: codehub ws undelete" in deletion.err
    listed = (await command("ws", "list", "--deleted")).out
    assert "when deleted for good" in listed
    assert (await command("ws", "delete", "demo", "--purge", "--yes", "--wait")).code == 0
    assert (await command("ws", "undelete", "demo")).code == 4
