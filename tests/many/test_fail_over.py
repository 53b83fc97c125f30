"""PostgreSQL fails over to its replica under running processes: nothing that was
answered is lost, and what a late replica never heard is found out.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from tests.support.fleet import PASSWORD, Fleet, fleet
from tests.support.patience import PATIENCE_S, ask_until
from tests.support.postgres import NEEDS_DEBIAN_15
from tests.support.replicas import Pair, replicated

pytestmark = NEEDS_DEBIAN_15

API = "/api/v1"
RESTS = {"desired_state": "PENDING"}


@asynccontextmanager
async def opened(directory: Path, pair: Pair) -> AsyncIterator[tuple[Fleet, httpx.AsyncClient]]:
    """A controller, an API and a proxy on a pair of servers, and an admin's program before the proxy."""
    with fleet(directory, pair.url) as made:
        await made.start("api", 0)
        others = [made.launch(role, 0) for role in ("controller", "proxy")]
        for member in others:
            await made.ready(member)
        url = f"http://127.0.0.1:{made.ports['proxy'][0]}"
        async with httpx.AsyncClient(
            base_url=url, timeout=PATIENCE_S, headers={"Origin": made.address}
        ) as admin:
            answer = await admin.post(f"{API}/login", json={"username": "admin", "password": PASSWORD})
            assert answer.status_code == 200, answer.text
            token = (await admin.post(f"{API}/tokens", json={"name": "test", "scope": "write"})).json()
        headers = {"Authorization": f"Bearer {token['token']}"}
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, headers=headers) as program:
            yield made, program


async def created(admin: httpx.AsyncClient, name: str, **fields: object) -> str | None:
    """Return its id, if it was answered that it is made."""
    with suppress(httpx.TransportError):
        answer = await admin.post(f"{API}/workspaces", json={"name": name, **fields})
        if answer.status_code == 201:
            workspace_id: str = answer.json()["id"]
            return workspace_id
    return None


async def shown(admin: httpx.AsyncClient, workspace_id: str) -> dict[str, Any]:
    with suppress(httpx.TransportError, ValueError):
        body: dict[str, Any] = (await admin.get(f"{API}/workspaces/{workspace_id}")).json()
        return body
    return {}


async def arrives(admin: httpx.AsyncClient, workspace_id: str, phase: str) -> dict[str, Any]:
    return await ask_until(
        lambda: shown(admin, workspace_id),
        lambda row: (row.get("phase"), row.get("operation")) == (phase, "NONE"),
    )


async def in_home(admin: httpx.AsyncClient, workspace_id: str, command: str) -> str:
    answer = await admin.post(f"/w/{workspace_id}/", content=command.encode())
    assert answer.status_code == 200, answer.text
    return answer.text.strip()


async def test_a_synchronous_replica_takes_over_and_nothing_that_was_answered_is_lost(tmp_path: Path) -> None:
    async with replicated(is_synchronous=True) as pair, opened(tmp_path, pair) as (_, admin):
        demo = await created(admin, "demo")
        assert demo is not None
        failing_over = asyncio.ensure_future(pair.fail_over())  # while it is made
        answered = []
        for number in range(500):
            answered.append(await created(admin, f"rests-{number}", **RESTS))
            if failing_over.done() and answered[-1] is not None:
                break
        await failing_over
        assert answered[-1] is not None, "it never answered again"
        await arrives(admin, demo, "RUNNING")
        for workspace_id in answered:
            assert workspace_id is None or (await shown(admin, workspace_id))["id"] == workspace_id
        assert (await admin.post(f"{API}/workspaces/{demo}:stop")).status_code == 200
        await arrives(admin, demo, "STANDBY")


async def test_what_an_asynchronous_replica_never_heard_of_is_found_out_and_nothing_is_destroyed(
    tmp_path: Path,
) -> None:
    async with replicated(is_synchronous=False) as pair, opened(tmp_path, pair) as (made, admin):
        demo = await created(admin, "demo")
        assert demo is not None
        await arrives(admin, demo, "RUNNING")
        await in_home(admin, demo, "echo old > work")
        assert (await admin.post(f"{API}/workspaces/{demo}:archive")).status_code == 200
        before = await arrives(admin, demo, "ARCHIVED")
        await pair.cut()
        assert (await admin.post(f"{API}/workspaces/{demo}:start")).status_code == 200
        await arrives(admin, demo, "RUNNING")
        assert await in_home(admin, demo, "cat work; echo new > work; cat work") == "old\nnew"
        assert (await admin.post(f"{API}/workspaces/{demo}:archive")).status_code == 200
        after = await arrives(admin, demo, "ARCHIVED")
        assert after != before
        await pair.fail_over()
        await ask_until(
            lambda: admin.post(f"{API}/workspaces/{demo}:start"), lambda answer: answer.status_code == 200
        )
        row = await ask_until(lambda: shown(admin, demo), lambda row: row.get("phase") == "ERROR")
        assert row["error"]["reason"] == "DataLost", row["error"]
        assert made.log_of("history_changed")
        recovered = await admin.post(f"{API}/workspaces/{demo}:recover", json={"take": "newest"})
        assert recovered.status_code == 200, recovered.text
        await arrives(admin, demo, "RUNNING")
        assert await in_home(admin, demo, "cat work") == "new"
