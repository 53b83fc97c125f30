"""Who may see and change a workspace: one table, the same answers from the API and the dashboard."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
from tests.support.site import API, Site, create, known
from tests.support.stores import World, memory_world

from codehub.core.access import Person, Role, Scope, User
from codehub.core.amendments import By, RulingRecord
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.permissions import Requester
from codehub.core.requests import Accepted
from codehub.core.visit import Visitor
from codehub.core.workspace import Status
from codehub.ports.store import Ruled, UnknownWorkspace
from codehub.service.workspaces import NotAllowed, WorkspaceService

Ask = Callable[[WorkspaceService, UUID, By], Awaitable[object]]


async def change(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.change(workspace_id, lambda _spec: {"memo": "new"}, None, by)


async def restart(service: WorkspaceService, workspace_id: UUID, by: By) -> Ruled:
    return await service.change(workspace_id, lambda _spec: {}, DesiredState.RUNNING, by)


VERBS: Mapping[str, Ask] = {
    "change": change,
    "change and start": restart,
    "start": lambda service, each, by: service.set_wish(each, DesiredState.RUNNING, by),
    "stop": lambda service, each, by: service.set_wish(each, DesiredState.STANDBY, by),
    "wake": lambda service, each, by: service.wake(each, by),
    "recover": lambda service, each, by: service.recover(each, by),
    "keep awake": lambda service, each, by: service.keep_awake(each, by, seconds=60),
    "delete": lambda service, each, by: service.delete(each, by),
    "purge": lambda service, each, by: service.delete(each, by, purge=True),
    "undelete": lambda service, each, by: service.undelete(each, by),
    "forget": lambda service, each, by: service.forget(each, by),
}
RELATIONS = ("owner", "admin", "stranger", "owner at the proxy", "admin at the proxy", "codehub")
OK, GONE, NO = "ruled on", UnknownWorkspace, NotAllowed
#                    owner admin stranger  owner, admin at the proxy  codehub itself
TABLE: Mapping[tuple[str, str], tuple[object, ...]] = {
    ("there", "change"): (OK, OK, NO, OK, NO, OK),
    ("there", "change and start"): (OK, OK, NO, OK, NO, OK),
    ("there", "start"): (OK, OK, NO, OK, NO, OK),
    ("there", "stop"): (OK, OK, NO, OK, NO, OK),
    ("there", "wake"): (OK, OK, NO, OK, NO, OK),
    ("there", "recover"): (OK, OK, NO, OK, NO, OK),
    ("there", "keep awake"): (OK, OK, NO, OK, NO, OK),
    ("there", "delete"): (OK, OK, NO, OK, NO, OK),
    ("there", "purge"): (OK, OK, NO, OK, NO, OK),
    ("there", "undelete"): (OK, OK, NO, OK, NO, OK),
    ("there", "forget"): (NO, OK, NO, NO, NO, OK),
    ("deleted", "change"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "change and start"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "start"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "stop"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "wake"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "recover"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "keep awake"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "delete"): (GONE, GONE, GONE, GONE, GONE, OK),
    ("deleted", "purge"): (OK, OK, NO, OK, NO, OK),
    ("deleted", "undelete"): (OK, OK, NO, OK, NO, OK),
    ("deleted", "forget"): (GONE, GONE, GONE, GONE, GONE, OK),
}


def person(user_id: UUID, role: Role = Role.MEMBER) -> Person:
    user = User(user_id, "somebody", role, disabled=False, created_at=datetime.now(UTC))
    return Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None)


def requester(relation: str, owner_id: UUID) -> Requester:
    requesters: Mapping[str, Requester] = {
        "owner": person(owner_id),
        "admin": person(uuid4(), Role.ADMIN),
        "stranger": person(uuid4()),
        "owner at the proxy": Visitor(owner_id, "somebody"),
        "admin at the proxy": Visitor(uuid4(), "somebody"),
        "codehub": "ttl",
    }
    return requesters[relation]


async def place(world: World, state: str) -> UUID:
    """Store a workspace of the world's user, and return its id. `being deleted`: asked for, not done yet."""
    await world.add_user()
    if state == "unknown":
        return uuid4()
    phase = Phase.DELETED if state == "deleted" else Phase.PENDING
    row = await world.place(world.spec(desired_state=DesiredState.PENDING), Status(phase=phase))
    if state != "there":
        deleted = replace(row.spec, deleted_at=row.created_at, purge_at=datetime.max.replace(tzinfo=UTC))
        await world.api.amend(row.id, lambda _row, _now: RulingRecord(Accepted(deleted)))
    return row.id


async def outcome(request: Awaitable[object]) -> object:
    try:
        await request
    except (UnknownWorkspace, NotAllowed) as refusal:
        return type(refusal)
    return OK


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", ["there", "being deleted", "deleted", "unknown"])
async def test_every_requester_gets_the_answer_of_the_table(state: str, verb: str) -> None:
    # What is being deleted is still there; what was never there is for nobody.
    expected: tuple[object, ...] = (GONE,) * len(RELATIONS)
    if state != "unknown":
        expected = TABLE["deleted" if state == "deleted" else "there", verb]
    for relation, wanted in zip(RELATIONS, expected, strict=True):
        world = memory_world()
        service = WorkspaceService(world.api, limits=Limits(), trash_s=60)
        workspace_id = await place(world, state)
        before = None if state == "unknown" else await world.api.get(workspace_id)
        by = By(requester(relation, world.user_id), verbatim("because"))
        assert await outcome(VERBS[verb](service, workspace_id, by)) == wanted, relation
        if wanted is not OK and before is not None:
            assert await world.api.get(workspace_id) == before


@pytest.mark.parametrize(
    ("state", "even_deleted", "owner", "admin", "stranger"),
    [
        ("there", False, OK, OK, NO),
        ("there", True, OK, OK, NO),
        ("being deleted", False, OK, OK, NO),
        ("deleted", False, GONE, GONE, GONE),
        ("deleted", True, OK, OK, NO),
        ("unknown", False, GONE, GONE, GONE),
        ("unknown", True, GONE, GONE, GONE),
    ],
)
async def test_a_workspace_is_found_by_its_owner_and_by_admins(
    state: str, even_deleted: bool, owner: object, admin: object, stranger: object
) -> None:
    world = memory_world()
    service = WorkspaceService(world.api, limits=Limits(), trash_s=60)
    workspace_id = await place(world, state)
    for asking, wanted in (
        (person(world.user_id), owner),
        (person(uuid4(), Role.ADMIN), admin),
        (person(uuid4()), stranger),
    ):
        assert await outcome(service.find(asking, workspace_id, even_deleted=even_deleted)) == wanted


async def statuses(site: Site, client: httpx.AsyncClient, workspace_id: str) -> Mapping[str, tuple[int, int]]:
    """Return what the API and what the dashboard answer."""
    own = {"Origin": site.parts.base_url}
    api, page = f"{API}/workspaces/{workspace_id}", f"/workspaces/{workspace_id}"
    return {
        "read": ((await client.get(api)).status_code, (await client.get(page)).status_code),
        "start": (
            (await client.post(f"{api}:start", headers=own)).status_code,
            (await client.post(f"{page}/start", headers=own)).status_code,
        ),
        "undelete": (
            (await client.post(f"{api}:undelete", headers=own)).status_code,
            (await client.post(f"{page}/undelete", headers=own)).status_code,
        ),
    }


async def test_the_api_and_the_dashboard_give_a_stranger_the_same_answers(site: Site) -> None:
    ann, bob = await site.browser("ann"), await site.browser("bob")
    workspace = await create(ann, desired_state="PENDING")
    assert await statuses(site, bob, workspace["id"]) == dict.fromkeys(
        ("read", "start", "undelete"), (403, 403)
    )
    await ann.delete(f"{API}/workspaces/{workspace['id']}", headers={"Origin": site.parts.base_url})
    row = await site.world.api.get(known(workspace["id"]))
    await site.world.place(
        replace(row.spec, name="other"), replace(row.status, phase=Phase.DELETED), workspace_id := uuid4()
    )
    assert await statuses(site, bob, str(workspace_id)) == {
        "read": (404, 404),
        "start": (404, 404),
        "undelete": (403, 403),
    }
    assert set((await statuses(site, bob, str(uuid4()))).values()) == {(404, 404)}
