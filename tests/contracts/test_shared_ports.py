"""The contract of SharedPorts, for every adapter: what is opened is stored with its line of the history."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.stores import World, shared_ports

from codehub.core.access import Person, Role, Scope, User
from codehub.core.amendments import Denied
from codehub.core.requests import Refused
from codehub.core.shared_ports import SHARED_PORTS_MAX, rule_share
from codehub.core.visibility import SharedPort, Visibility
from codehub.core.workspace import Workspace
from codehub.ports.shared_ports import SharedPorts, ShareRuled
from codehub.ports.store import UnknownWorkspace


class PortsWorld:
    def __init__(self, world: World, ports: SharedPorts) -> None:
        self.world = world
        self.ports = ports

    def person(self, *, is_admin: bool = False) -> Person:
        """Return the owner, or an admin who is somebody else."""
        user_id, role = (uuid4(), Role.ADMIN) if is_admin else (self.world.user_id, Role.MEMBER)
        user = User(
            user_id, "admin" if is_admin else "ann", role, disabled=False, created_at=datetime.now(UTC)
        )
        return Person(user, Scope.WRITE, is_token=False, key_sha256=b"", expires_at=None)

    async def share(
        self,
        row: Workspace,
        port: int,
        visibility: Visibility,
        lasts: timedelta | None = None,
        *,
        person: Person | None = None,
        ceiling: Visibility = Visibility.PUBLIC,
    ) -> ShareRuled:
        until = None if lasts is None else await self.world.now() + lasts
        wanted = SharedPort(port, visibility, until)
        person = person or self.person()
        return await self.ports.amend(
            row.id,
            lambda *given: rule_share(*given, wanted=wanted, person=person, request_id="r", ceiling=ceiling),
        )

    async def shared(self, row: Workspace) -> dict[int, Visibility]:
        shares = (await self.ports.shared([row.id, uuid4()])).get(row.id, {})
        assert all(share.port == port for port, share in shares.items())
        return {port: share.visibility for port, share in shares.items()}

    async def reasons(self, row: Workspace) -> list[str]:
        return [recorded.event.reason.code for recorded in await self.world.api.history(row.id)]


@pytest.fixture
async def ports(world: World) -> PortsWorld:
    return PortsWorld(world, shared_ports(world))


HOUR = timedelta(hours=1)


async def test_a_port_is_private_until_it_is_opened_and_when_it_is_closed(ports: PortsWorld) -> None:
    row = await ports.world.create()
    assert await ports.shared(row) == {}
    await ports.share(row, 3000, Visibility.SIGNED_IN)
    await ports.share(row, 80, Visibility.PUBLIC, HOUR)
    assert await ports.shared(row) == {80: Visibility.PUBLIC, 3000: Visibility.SIGNED_IN}
    await ports.share(row, 3000, Visibility.SHARED)
    await ports.share(row, 80, Visibility.PRIVATE)
    assert await ports.shared(row) == {3000: Visibility.SHARED}
    assert await ports.reasons(row) == ["PortMadePrivate", "PortShared", "PortSharedUntil", "PortShared"]


async def test_the_end_is_kept_and_what_is_over_is_private(ports: PortsWorld) -> None:
    row = await ports.world.create()
    ruled = await ports.share(row, 3000, Visibility.PUBLIC, HOUR)
    assert (await ports.ports.shared([row.id]))[row.id][3000] == ruled.ruling
    now = await ports.world.now()
    gone = SharedPort(81, Visibility.PUBLIC, now - HOUR)
    # As if it had been opened before: a rule would refuse it now.
    await ports.ports.amend(
        row.id,
        lambda row, shares, at: replace(
            rule_share(
                row,
                shares,
                at,
                wanted=replace(gone, expires_at=at + HOUR),
                person=ports.person(),
                request_id="r",
                ceiling=Visibility.PUBLIC,
            ),
            ruling=gone,
        ),
    )
    assert await ports.shared(row) == {3000: Visibility.PUBLIC}


async def test_what_is_so_already_makes_no_line_of_the_history(ports: PortsWorld) -> None:
    row = await ports.world.create()
    await ports.share(row, 3000, Visibility.PRIVATE)
    await ports.share(row, 3000, Visibility.SIGNED_IN)
    await ports.share(row, 3000, Visibility.SIGNED_IN)
    assert await ports.reasons(row) == ["PortShared"]


@pytest.mark.parametrize(
    ("visibility", "lasts", "ceiling", "field"),
    [
        (Visibility.PUBLIC, HOUR, Visibility.SIGNED_IN, "visibility"),
        (Visibility.SIGNED_IN, None, Visibility.PRIVATE, "visibility"),
        (Visibility.PUBLIC, None, Visibility.PUBLIC, "expires_at"),
        (Visibility.PUBLIC, -HOUR, Visibility.PUBLIC, "expires_at"),
        (Visibility.SIGNED_IN, -HOUR, Visibility.PUBLIC, "expires_at"),
    ],
)
async def test_what_may_not_be_is_refused_and_nothing_is_stored(
    ports: PortsWorld, visibility: Visibility, lasts: timedelta | None, ceiling: Visibility, field: str
) -> None:
    row = await ports.world.create()
    ruled = await ports.share(row, 3000, visibility, lasts, ceiling=ceiling)
    assert isinstance(ruled.ruling, Refused)
    assert [refusal.field for refusal in ruled.ruling.fields] == [field]
    assert (await ports.shared(row), await ports.reasons(row)) == ({}, [])


async def test_so_many_ports_of_one_workspace_and_no_more(ports: PortsWorld) -> None:
    row = await ports.world.create()
    for port in range(1, SHARED_PORTS_MAX + 1):
        await ports.share(row, port, Visibility.SIGNED_IN)
    assert isinstance((await ports.share(row, 3000, Visibility.SIGNED_IN)).ruling, Refused)
    assert isinstance((await ports.share(row, 1, Visibility.SHARED)).ruling, SharedPort)
    assert isinstance((await ports.share(row, 3000, Visibility.PRIVATE)).ruling, SharedPort)


async def test_only_its_owner_opens_a_port_and_an_admin_may_close_it(ports: PortsWorld) -> None:
    row, admin = await ports.world.create(), ports.person(is_admin=True)
    with pytest.raises(Denied):
        await ports.share(row, 3000, Visibility.SIGNED_IN, person=admin)
    await ports.share(row, 3000, Visibility.SIGNED_IN)
    await ports.share(row, 3000, Visibility.PRIVATE, person=admin)
    assert await ports.shared(row) == {}


async def test_a_workspace_that_is_not_there_has_no_ports(ports: PortsWorld) -> None:
    row = await ports.world.create()
    with pytest.raises(UnknownWorkspace):
        await ports.share(replace(row, id=uuid4()), 3000, Visibility.SIGNED_IN)


async def test_a_hint_follows_what_was_changed(ports: PortsWorld) -> None:
    row = await ports.world.create()
    async with ports.world.hints.listen() as hints:
        await ports.share(row, 3000, Visibility.SIGNED_IN)
        async with asyncio.timeout(PATIENCE_S):
            async for ids in hints:
                if row.id in ids:
                    break
    assert await ports.shared(row)
