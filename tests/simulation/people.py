"""People: they create, wish, visit, type, leave, delete, regret, forget,
purge and recover, some in plausible and some in nasty patterns.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.doors import NAVIGATION, POLL, PROGRAM, RETRY
from tests.support.workspaces import SPEC

from codehub.core.amendments import By
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Phase
from codehub.core.requests import is_deletion_held_up
from codehub.core.visit import Visitor
from codehub.core.workspace import RecoverChoice, Workspace, holdup
from codehub.ports.store import NameTaken, UnknownWorkspace
from codehub.service.workspaces import WorkspaceService

if TYPE_CHECKING:
    from tests.simulation.world import World

_BY = By("person", verbatim("because"))
_TYPED_BYTES = 2_500
_IDLE_BYTES = 80


@dataclass
class Person:
    """Somebody with a few workspaces. Who is `nasty` asks for anything at any time, several times over."""

    world: "World"
    user_id: UUID
    name: str
    nasty: bool
    workspaces_max: int
    made: int = 0

    async def live(self) -> None:
        dice = self.world.dice
        while True:
            await asyncio.sleep(dice.expovariate(1 / (3 if self.nasty else 9)))
            mine = [row for row in self.world.rows() if row.spec.owner_user_id == self.user_id]
            living = [row for row in mine if row.spec.deleted_at is None]
            if not mine or (len(living) < self.workspaces_max and dice.random() < 0.3):
                await self._create()
            elif self.nasty and dice.random() < 0.02:
                somebodys = dice.choice(self.world.rows())
                await self.world.visit(NAVIGATION, self._me, somebodys.id)
            else:
                await self._do_something(dice.choice(mine))

    async def _create(self) -> None:
        world, dice = self.world, self.world.dice
        self.made += 1
        spec = replace(
            SPEC,
            owner_user_id=self.user_id,
            name=f"{self.name}-{self.made}",
            desired_state=dice.choice([DesiredState.RUNNING] * 3 + list(DesiredState)),
            standby_ttl_seconds=dice.choice((60, 120, 300, None)),
            archive_ttl_seconds=dice.choice((0, 60, 180, None)),
        )
        workspace_id = world.new_id()
        await self._ask(lambda service: service.create(workspace_id, spec, _BY))

    async def _do_something(self, row: Workspace) -> None:
        dice = self.world.dice
        if dice.random() < 0.55:
            await self._use(row)
            return
        deeds: list[tuple[float, Callable[[WorkspaceService], Awaitable[object]]]] = [
            (6, lambda service: service.set_wish(row.id, DesiredState.RUNNING, _BY)),
            (3, lambda service: service.set_wish(row.id, DesiredState.STANDBY, _BY)),
            (3, lambda service: service.set_wish(row.id, DesiredState.ARCHIVED, _BY)),
            (1, lambda service: service.set_wish(row.id, DesiredState.PENDING, _BY)),
            (1, lambda service: service.keep_awake(row.id, _BY, seconds=100)),
        ]
        if row.status.phase is Phase.ERROR:
            drawn = dice.random()
            accept_loss = drawn < 0.4
            choice = RecoverChoice.NEWEST if 0.4 <= drawn < 0.7 else None
            is_there = row.status.conditions.volume_ready.is_unidentified
            adopts = is_there and dice.random() < 0.7

            async def recover(service: WorkspaceService) -> None:
                """Who recovers a workspace mostly wants to go on with it, and does not wait to say so."""
                if adopts:
                    await service.recover(row.id, _BY, choice=RecoverChoice.ADOPT)
                else:
                    await service.recover(row.id, _BY, accept_loss=accept_loss, choice=choice)
                    self.world.misfortunes.strike_chosen(row.id)
                for _ in range(dice.choice((0, 1, 4))):
                    await service.set_wish(row.id, DesiredState.RUNNING, _BY)
                    await asyncio.sleep(dice.uniform(0, 1))

            deeds.append((12, recover))
        if row.spec.deleted_at is not None:
            deeds.append((6, lambda service: service.undelete(row.id, _BY)))
            deeds.append(
                (30 if is_deletion_held_up(row.status) else 1, lambda service: service.forget(row.id, _BY))
            )
        if holdup(row.status) is not None and row.spec.deleted_at is None:
            deeds.append((4, lambda service: service.set_wish(row.id, row.spec.desired_state, _BY)))
            deeds.append((4, lambda service: service.set_wish(row.id, dice.choice(list(DesiredState)), _BY)))
            deeds.append((0.5, lambda service: service.delete(row.id, _BY)))
        if self.nasty or dice.random() < 0.2:
            deeds.append((1.5, lambda service: service.delete(row.id, _BY)))
            deeds.append((0.4, lambda service: service.delete(row.id, _BY, purge=True)))
        (deed,) = dice.choices([deed for _, deed in deeds], [weight for weight, _ in deeds])
        for _ in range(dice.choice((1, 1, 1, 3)) if self.nasty else 1):
            await self._ask(deed)

    async def _use(self, row: Workspace) -> None:
        """Visit, which wakes it, and type if one is led in; or leave a tab open, which does nothing."""
        world, dice = self.world, self.world.dice
        door = await world.visit(dice.choice((NAVIGATION, NAVIGATION, PROGRAM)), self._me, row.id)
        if dice.random() < 0.05:
            world.people.append(world.spawn(self._leave_open(row.id), name="tab"))
        if door is None or dice.random() < 0.2:
            return
        for _ in range(dice.choice((1, 3))):
            if world.judges.types(row.id):
                door.send(row.id, _TYPED_BYTES)
            await asyncio.sleep(dice.uniform(0, 2))

    async def _leave_open(self, workspace_id: UUID) -> None:
        """What a tab does that nobody looks at: a few bytes while it is connected, and retries for ever."""
        world, dice, tab = self.world, self.world.dice, object()
        try:
            for _ in range(dice.randint(5, 30)):
                door = await world.visit(dice.choice((RETRY, POLL)), self._me, workspace_id)
                if door is not None:
                    door.send(workspace_id, _IDLE_BYTES, tab)
                await asyncio.sleep(10)
        finally:
            for door in world.doors.values():
                door.close(tab)

    @property
    def _me(self) -> Visitor:
        return Visitor(self.user_id, self.name)

    async def wish_once_more(self) -> None:
        """The last wishes before everybody goes home, after which nobody touches anything any more."""
        for row in self.world.rows():
            if row.spec.owner_user_id == self.user_id and row.spec.deleted_at is None:
                wish = self.world.dice.choice(list(DesiredState))
                await self._ask(lambda service, row=row, wish=wish: service.set_wish(row.id, wish, _BY))  # type: ignore[misc]

    async def _ask(self, deed: Callable[[WorkspaceService], Awaitable[object]]) -> None:
        async def asked(service: WorkspaceService) -> None:
            try:
                await deed(service)
            except (NameTaken, UnknownWorkspace):
                return

        await self.world.request(asked)
