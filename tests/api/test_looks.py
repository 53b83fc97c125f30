"""observed_at on the wire: when a workspace was really last looked at, though what rests is not written."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.support.engine import EVERYONE, Dice, Plane
from tests.support.patience import PATIENCE_S
from tests.support.site import API, RESTS, Site, create, placed
from tests.support.workspaces import READY, UNKNOWN, conditions, home, workspace

from codehub.adapters.system.machine import SystemClock, SystemIdentity, SystemTasks
from codehub.api.view import View
from codehub.core.addresses import WorkspaceAddresses
from codehub.core.operations import DesiredState, Phase
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.controller import WorkspaceController
from codehub.engine.system import System
from codehub.ports.store import MemberHeartbeat


@pytest.fixture
async def controller(site: Site) -> AsyncIterator[WorkspaceController]:
    """A controller that passes and beats when a test says so."""
    tasks = SystemTasks()
    backends = Backends(
        {InstanceBackend.LOCAL_PROCESS: site.instances}, {StorageBackend.LOCAL_DIR: site.storage}
    )
    system = System(SystemClock(), Dice(), SystemIdentity(), tasks)
    made = WorkspaceController("c1", site.world.controller, backends, site.world.hints, system)
    await made.members.beat()
    yield made
    await tasks.cancel_all()


async def look(controller: WorkspaceController) -> None:
    await controller.run_pass(EVERYONE)
    await controller.members.beat()


async def shown(client: httpx.AsyncClient, workspace_id: object) -> httpx.Response:
    answer = await client.get(f"{API}/workspaces/{workspace_id}")
    assert answer.status_code == 200, answer.text
    return answer


async def looked_at_after(client: httpx.AsyncClient, workspace_id: object, at: datetime) -> httpx.Response:
    """Wait until it is shown to have been looked at later than that."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await shown(client, workspace_id)
            observed_at = answer.json()["observed_at"]
            if observed_at is not None and datetime.fromisoformat(observed_at) > at:
                return answer
            await asyncio.sleep(0.05)


async def test_what_rests_is_shown_to_be_looked_at_though_nothing_of_it_is_written(
    site: Site, controller: WorkspaceController
) -> None:
    ann = await site.browser("ann")
    made = await create(ann, **RESTS)
    assert made["observed_at"] is None
    await look(controller)
    row = await site.world.api.get(UUID(made["id"]))
    assert row.status.observed_at is not None
    first = await looked_at_after(ann, made["id"], row.created_at)
    history = (await ann.get(f"{API}/workspaces/{made['id']}/events")).json()

    before = await site.world.now()
    await look(controller)
    later = await looked_at_after(ann, made["id"], before)
    assert await site.world.api.get(row.id) == row
    assert later.headers["etag"] == first.headers["etag"]
    assert {**later.json(), "observed_at": None} == {**first.json(), "observed_at": None}
    assert (await ann.get(f"{API}/workspaces/{made['id']}/events")).json() == history
    (listed,) = (await ann.get(f"{API}/workspaces")).json()["items"]
    assert datetime.fromisoformat(listed["observed_at"]) > before


async def test_what_nobody_could_look_at_is_shown_with_the_last_time_that_somebody_could(
    site: Site, controller: WorkspaceController
) -> None:
    ann = await site.browser("ann")
    at = await site.world.now()
    known, unknown = [
        await placed(
            site,
            workspace(
                Phase.STANDBY,
                DesiredState.STANDBY,
                conditions=conditions(volume=volume),
                home_ctx=home(),
                observed_at=at,
            ),
            name=volume.status,
        )
        for volume in (READY, UNKNOWN)
    ]
    await site.world.controller.beat(
        controller.members.me, alive_s=60, looked_at=at + timedelta(microseconds=1)
    )
    await looked_at_after(ann, known.id, at)
    assert datetime.fromisoformat((await shown(ann, unknown.id)).json()["observed_at"]) == at


async def test_however_many_are_shown_it_is_asked_once_a_second_when_they_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plane, asked = Plane(), 0
    controller = plane.controller()
    await plane.create(DesiredState.STANDBY)
    await plane.make("other", DesiredState.STANDBY)
    await controller.members.beat()
    await plane.converge(controller)
    rows, members = list(plane.store.dump().values()), plane.store.members

    async def counted(**within: float) -> Sequence[MemberHeartbeat]:
        nonlocal asked
        asked += 1
        return await members(**within)

    monkeypatch.setattr(plane.store, "members", counted)
    view = View(plane.store, WorkspaceAddresses("http://hub.test", None), plane.clock)

    async def observed() -> list[Any]:
        return [json.loads(body)["observed_at"] for body in await view.render(rows, "en")]

    first = await observed()
    plane.clock.seconds += 0.5
    await look(controller)
    assert (await observed(), asked) == (first, 1)
    plane.clock.seconds += 0.5
    later = await observed()
    assert asked == 2
    assert set(later) == {f"{plane.clock.now() - timedelta(seconds=0.5):%Y-%m-%dT%H:%M:%S.%f}Z"}
    await plane.close()
