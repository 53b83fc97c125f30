"""Credentials in memory: whoever was let in is let in until they are turned out."""

from collections.abc import Collection, Mapping

from codehub.adapters.memory.faults import Faults, no_faults
from codehub.core.visit import Person
from codehub.ports.access import Credential


class MemoryAccess:
    def __init__(self, *, faults: Faults = no_faults) -> None:
        self._faults = faults
        self._people: dict[Credential, Person] = {}

    def let_in(self, credential: Credential, person: Person) -> None:
        self._people[credential] = person

    def turn_out(self, credential: Credential) -> None:
        self._people.pop(credential, None)

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Person]:
        await self._faults("access.people")
        return {one: self._people[one] for one in credentials if one in self._people}
