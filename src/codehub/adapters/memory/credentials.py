"""Credentials in memory: each is valid from `admit` until `revoke`."""

from collections.abc import Collection, Mapping

from codehub.adapters.memory.faults import Faults, no_faults
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential


class MemoryCredentials:
    def __init__(self, *, faults: Faults = no_faults) -> None:
        self._faults = faults
        self._visitors: dict[Credential, Visitor] = {}
        self.in_use: set[Credential] = set()

    def admit(self, credential: Credential, visitor: Visitor) -> None:
        self._visitors[credential] = visitor

    def revoke(self, credential: Credential) -> None:
        self._visitors.pop(credential, None)

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        await self._faults("credentials.people")
        return {
            credential: self._visitors[credential]
            for credential in credentials
            if credential in self._visitors
        }

    async def note_use(self, credentials: Collection[Credential]) -> None:
        await self._faults("credentials.note_use")
        self.in_use.update(credentials)
