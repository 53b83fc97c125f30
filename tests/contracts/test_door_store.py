"""The contract of DoorStore: a code opens one door, once, for the browser that asked; a door ends with its
session.
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from tests.conftest import ON_15, Worlds
from tests.support.access import OTHER_HASH, Age
from tests.support.stores import PASSWORD_HASH, PostgresWorld, World, memory_world

from codehub.core.access import SESSION_LASTS
from codehub.core.amendments import RulingRecord
from codehub.core.operations import DesiredState, Phase
from codehub.core.origins import Door
from codehub.core.requests import Accepted
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.access import Amendment
from codehub.ports.doors import CODE_LASTS, DOORS_MAX
from codehub.ports.proxy_lookups import Credential
from codehub.ports.store import Change, Contradiction


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


SESSION, OTHER_SESSION = digest("session"), digest("other session")
CODE, CHALLENGE = digest("code"), digest("what the browser keeps")
DOOR = Credential("door", b"door")
PATH = "/lab/tree?reset#not-sent"


@dataclass(frozen=True)
class DoorWorld:
    world: World
    age: Age
    workspace: Workspace

    @property
    def user_id(self) -> UUID:
        return self.world.user_id

    def door(self, port: int | None = None) -> Door:
        return Door(self.workspace.id, port)

    async def sign_in(self, session: bytes = SESSION, *, lasts: timedelta = SESSION_LASTS) -> None:
        access = self.world.access
        assert await access.open_session(session, self.user_id, password_hash=PASSWORD_HASH, lasts=lasts)

    async def issue(
        self,
        *,
        code: bytes = CODE,
        door: Door | None = None,
        session: bytes = SESSION,
        challenge: bytes = CHALLENGE,
        path: str = PATH,
        lasts: timedelta = CODE_LASTS,
    ) -> bool:
        return await self.world.doors.issue_code(
            code,
            door or self.door(),
            session_sha256=session,
            challenge=challenge,
            path=path,
            lasts=lasts,
        )

    async def open(
        self,
        *,
        code: bytes = CODE,
        credential: Credential = DOOR,
        door: Door | None = None,
        challenge: bytes = CHALLENGE,
    ) -> str | None:
        door_sha256 = hashlib.sha256(credential.secret).digest()
        return await self.world.doors.open_door(code, door_sha256, door or self.door(), challenge=challenge)

    async def enter(self, credential: Credential = DOOR, *, door: Door | None = None) -> None:
        code = digest(f"code for {credential.secret!r}")
        assert await self.issue(code=code, door=door)
        assert await self.open(code=code, credential=credential, door=door) == PATH

    async def visitor(self, credential: Credential = DOOR) -> Visitor | None:
        return (await self.world.credentials.people([credential])).get(credential)

    async def session_expires_at(self) -> datetime:
        person = await self.world.access.use_session(SESSION, lasts=timedelta(hours=1))
        assert person is not None
        assert person.expires_at is not None
        return person.expires_at


def _aging() -> tuple[World, Age]:
    past = timedelta(0)

    def now() -> datetime:
        return datetime.now(UTC) + past

    async def age(by: timedelta) -> None:
        nonlocal past
        past += by

    return memory_world(now=now), age


async def _age(world: PostgresWorld, by: timedelta) -> None:
    await world.admin.execute(
        "UPDATE sessions SET last_seen_at = last_seen_at - $1::interval, "
        "expires_at = expires_at - $1::interval",
        by,
    )
    await world.admin.execute("UPDATE door_codes SET expires_at = expires_at - $1::interval", by)


@pytest.fixture(params=["memory", "postgres-18", ON_15])
async def doors(request: pytest.FixtureRequest, worlds: Worlds) -> DoorWorld:
    """Somebody who is signed in and has a workspace."""
    if request.param == "memory":
        world, age = _aging()
        await world.add_user()
        made = DoorWorld(world, age, await world.create())
    else:
        on_postgres = await worlds(request.param)
        await on_postgres.clean()
        made = DoorWorld(on_postgres, lambda by: _age(on_postgres, by), await on_postgres.create())
    await made.sign_in()
    return made


# Labels


async def test_a_label_leads_to_its_workspace(doors: DoorWorld) -> None:
    other = await doors.world.create()
    assert other.label != doors.workspace.label
    assert await doors.world.doors.workspace_of(doors.workspace.label) == doors.workspace.id
    assert await doors.world.doors.workspace_of(other.label) == other.id
    assert await doors.world.doors.workspace_of("0" * 20) is None


async def ask_for_deletion(doors: DoorWorld) -> None:
    def rule(row: Workspace, now: datetime) -> RulingRecord:
        spec = replace(row.spec, deleted_at=now, purge_at=now, desired_state=DesiredState.PENDING)
        return RulingRecord(Accepted(spec))

    await doors.world.api.amend(doors.workspace.id, rule)


async def finish_deletion(doors: DoorWorld) -> None:
    await ask_for_deletion(doors)
    gone = replace(doors.workspace.status, phase=Phase.DELETED)
    assert not await doors.world.controller.persist([Change(doors.workspace.id, gone)])


async def test_the_label_of_what_is_deleted_for_good_leads_nowhere(doors: DoorWorld) -> None:
    await ask_for_deletion(doors)
    assert await doors.world.doors.workspace_of(doors.workspace.label) == doors.workspace.id
    await finish_deletion(doors)
    assert await doors.world.doors.workspace_of(doors.workspace.label) is None


# Codes


async def test_a_code_opens_its_door_and_leads_to_its_path(doors: DoorWorld) -> None:
    assert await doors.issue()
    assert await doors.visitor() is None
    assert await doors.open() == PATH
    assert await doors.visitor() == Visitor(doors.user_id, f"user-{doors.user_id}", door=doors.door())


async def test_a_code_opens_a_door_once(doors: DoorWorld) -> None:
    assert await doors.issue()
    assert await doors.open() == PATH
    second = Credential("door", b"second")
    assert await doors.open(credential=second) is None
    assert await doors.visitor(second) is None


async def test_of_many_who_show_a_code_at_once_one_gets_in(doors: DoorWorld) -> None:
    assert await doors.issue()
    credentials = [Credential("door", b"%d" % number) for number in range(8)]
    paths = await asyncio.gather(*(doors.open(credential=credential) for credential in credentials))
    assert sorted(map(str, paths)) == [PATH] + ["None"] * 7
    assert len(await doors.world.credentials.people(credentials)) == 1


async def test_a_code_opens_nothing_for_another_browser(doors: DoorWorld) -> None:
    assert await doors.issue()
    assert await doors.open(challenge=digest("what another browser keeps")) is None
    assert await doors.visitor() is None
    assert await doors.open() == PATH


@pytest.mark.parametrize(
    ("issued", "shown"), [(None, 3000), (3000, None), (3000, 3001)], ids=["port", "ide", "another port"]
)
async def test_a_code_opens_no_other_door_of_its_workspace(
    doors: DoorWorld, issued: int | None, shown: int | None
) -> None:
    assert await doors.issue(door=doors.door(issued))
    assert await doors.open(door=doors.door(shown)) is None
    assert await doors.open(door=doors.door(issued)) == PATH


async def test_a_code_opens_no_door_of_another_workspace(doors: DoorWorld) -> None:
    other = await doors.world.create()
    assert await doors.issue()
    assert await doors.open(door=Door(other.id, None)) is None
    assert await doors.open() == PATH


async def test_a_code_that_nobody_has_issued_opens_nothing(doors: DoorWorld) -> None:
    assert await doors.open() is None
    assert await doors.visitor() is None


async def test_a_code_that_is_over_opens_nothing(doors: DoorWorld) -> None:
    assert await doors.issue()
    await doors.age(CODE_LASTS + timedelta(seconds=1))
    assert await doors.open() is None
    assert await doors.visitor() is None


async def test_the_next_code_of_a_session_takes_those_that_are_over_with_it(doors: DoorWorld) -> None:
    assert await doors.issue(lasts=timedelta(seconds=-1))
    await doors.sign_in(OTHER_SESSION)
    assert await doors.issue(code=digest("theirs"), session=OTHER_SESSION)
    assert await doors.issue(code=digest("next"))
    # Its hash may be stored again, as nothing is left of it.
    assert await doors.issue()
    assert await doors.open() == PATH
    assert await doors.open(code=digest("theirs"), credential=Credential("door", b"theirs")) == PATH


async def test_a_session_that_is_over_or_was_none_gets_no_code(doors: DoorWorld) -> None:
    assert not await doors.issue(session=digest("nobody's"))
    await doors.age(SESSION_LASTS + timedelta(seconds=1))
    assert not await doors.issue()
    assert await doors.open() is None


async def test_a_code_opens_nothing_of_what_is_deleted(doors: DoorWorld) -> None:
    assert await doors.issue()
    await ask_for_deletion(doors)
    assert await doors.open() is None
    await finish_deletion(doors)
    assert await doors.open() is None
    assert await doors.visitor() is None


@pytest.mark.parametrize("end", ["logout", "all keys", "password", "disabled", "expired"])
async def test_a_code_ends_with_its_session(doors: DoorWorld, end: str) -> None:
    assert await doors.issue(lasts=2 * SESSION_LASTS)
    await finish(doors, end)
    assert await doors.open() is None
    assert await doors.visitor() is None


async def finish(doors: DoorWorld, end: str) -> None:
    access = doors.world.access
    match end:
        case "logout":
            await access.close_session(SESSION)
        case "all keys":
            await access.end_keys(doors.user_id)
        case "password":
            await access.amend_user(doors.user_id, Amendment(password_hash=OTHER_HASH))
        case "disabled":
            await access.amend_user(doors.user_id, Amendment(disabled=True))
        case _:
            await doors.age(SESSION_LASTS + timedelta(seconds=1))


@pytest.mark.parametrize(
    "path", ["", "lab", "//evil.example", "/\\evil.example", "https://evil.example/", "/" + "x" * 4096]
)
async def test_a_path_that_would_lead_elsewhere_is_refused(doors: DoorWorld, path: str) -> None:
    with pytest.raises(Contradiction):
        await doors.issue(path=path)


async def test_what_is_not_hashed_or_no_port_or_no_workspace_is_refused(doors: DoorWorld) -> None:
    for wrong in (
        {"code": b"code"},
        {"challenge": b"challenge"},
        {"door": doors.door(0)},
        {"door": doors.door(65_536)},
        {"door": Door(uuid4(), None)},
    ):
        with pytest.raises(Contradiction):
            await doors.issue(**wrong)
    assert await doors.issue(door=doors.door(65_535), path="/" + "x" * 4095)


# Doors


async def test_whoever_signs_out_while_doors_open_leaves_none_open(doors: DoorWorld) -> None:
    for number in range(10):
        session = digest(f"session {number}")
        await doors.sign_in(session)
        keys = [f"{number} {door}" for door in range(4)]
        for key in keys:
            assert await doors.issue(code=digest(key), session=session)
        credentials = [Credential("door", key.encode()) for key in keys]
        await asyncio.gather(
            *(doors.open(code=digest(key), credential=Credential("door", key.encode())) for key in keys[:2]),
            doors.world.access.close_session(session),
            *(doors.open(code=digest(key), credential=Credential("door", key.encode())) for key in keys[2:]),
        )
        assert await doors.world.credentials.people(credentials) == {}


@pytest.mark.parametrize("end", ["logout", "all keys", "password", "disabled", "expired"])
async def test_a_door_ends_with_its_session(doors: DoorWorld, end: str) -> None:
    await doors.enter()
    assert await doors.visitor() is not None
    await finish(doors, end)
    assert await doors.visitor() is None


async def test_a_door_stays_when_another_session_ends(doors: DoorWorld) -> None:
    await doors.sign_in(OTHER_SESSION)
    await doors.enter()
    await doors.world.access.close_session(OTHER_SESSION)
    assert await doors.visitor() is not None


async def test_who_keeps_a_session_through_a_change_of_password_keeps_its_doors(doors: DoorWorld) -> None:
    await doors.enter()
    change = Amendment(password_hash=OTHER_HASH)
    await doors.world.access.amend_user(doors.user_id, change, keep_key=SESSION)
    assert await doors.visitor() is not None


async def test_a_doors_secret_is_no_session_and_no_token_and_the_reverse(doors: DoorWorld) -> None:
    await doors.enter()
    await doors.sign_in(digest("a session"))
    assert await doors.visitor(Credential("session", DOOR.secret)) is None
    assert await doors.visitor(Credential("token", DOOR.secret)) is None
    assert await doors.visitor(Credential("door", b"a session")) is None


async def test_each_door_says_what_it_opens(doors: DoorWorld) -> None:
    other = await doors.world.create()
    places = {
        DOOR: doors.door(),
        Credential("door", b"port"): doors.door(3000),
        Credential("door", b"other"): Door(other.id, None),
    }
    for credential, door in places.items():
        await doors.enter(credential, door=door)
    people = await doors.world.credentials.people([*places, Credential("door", b"none")])
    assert {credential: visitor.door for credential, visitor in people.items()} == places
    assert all(visitor.may_write for visitor in people.values())


async def test_a_use_of_a_door_prolongs_its_session(doors: DoorWorld) -> None:
    await doors.enter()
    await doors.age(timedelta(hours=2))
    await doors.world.credentials.note_use([DOOR, Credential("door", b"none")])
    await doors.age(SESSION_LASTS - timedelta(hours=1))
    assert await doors.visitor() is not None
    await doors.age(timedelta(hours=2))
    assert await doors.visitor() is None


async def test_a_use_of_a_door_brings_no_session_back(doors: DoorWorld) -> None:
    await doors.enter()
    await doors.age(SESSION_LASTS + timedelta(seconds=1))
    await doors.world.credentials.note_use([DOOR])
    assert await doors.visitor() is None


async def test_a_session_has_so_many_doors_and_the_oldest_makes_room(doors: DoorWorld) -> None:
    await doors.sign_in(OTHER_SESSION)
    theirs = Credential("door", b"theirs")
    assert await doors.issue(code=digest("theirs"), session=OTHER_SESSION)
    assert await doors.open(code=digest("theirs"), credential=theirs) == PATH
    credentials = [Credential("door", b"%d" % number) for number in range(DOORS_MAX + 2)]
    for credential in credentials:
        await doors.enter(credential)
    people = await doors.world.credentials.people([*credentials, theirs])
    assert set(people) == {theirs, *credentials[2:]}
