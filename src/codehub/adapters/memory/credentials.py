"""Credentials in memory: whoever was let in is let in until they are turned out."""

from collections.abc import Collection, Mapping

from codehub.adapters.memory.faults import Faults, no_faults
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential


class MemoryCredentials:
    def __init__(self, *, faults: Faults = no_faults) -> None:
        self._faults = faults
        self._people: dict[Credential, Visitor] = {}
        self.in_use: set[Credential] = set()

    def let_in(self, credential: Credential, person: Visitor) -> None:
        self._people[credential] = person

    def turn_out(self, credential: Credential) -> None:
        self._people.pop(credential, None)

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        await self._faults("doorkeeper.people")
        return {one: self._people[one] for one in credentials if one in self._people}

    async def note_use(self, credentials: Collection[Credential]) -> None:
        await self._faults("doorkeeper.note_use")
        self.in_use.update(credentials)
