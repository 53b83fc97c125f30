"""Credentials in memory: each is valid from `admit` until `revoke`, and doors as long as their sessions."""

import hashlib
from collections.abc import Collection, Mapping

from codehub.adapters.memory.doors import MemoryDoors
from codehub.adapters.memory.faults import Faults, no_faults
from codehub.core.visit import Visitor
from codehub.ports.proxy_lookups import Credential


class MemoryCredentials:
    def __init__(self, *, faults: Faults = no_faults, doors: MemoryDoors | None = None) -> None:
        self._faults = faults
        self._doors = doors
        self._visitors: dict[Credential, Visitor] = {}
        self.in_use: set[Credential] = set()

    def admit(self, credential: Credential, visitor: Visitor) -> None:
        self._visitors[credential] = visitor

    def revoke(self, credential: Credential) -> None:
        self._visitors.pop(credential, None)

    async def people(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        await self._faults("credentials.people")
        admitted = {
            credential: self._visitors[credential]
            for credential in credentials
            if credential in self._visitors
        }
        return {**admitted, **await self._people_of_doors(credentials)}

    async def note_use(self, credentials: Collection[Credential]) -> None:
        await self._faults("credentials.note_use")
        self.in_use.update(credentials)
        if self._doors is not None:
            await self._doors.note_use(_doors_among(credentials))

    async def _people_of_doors(self, credentials: Collection[Credential]) -> Mapping[Credential, Visitor]:
        if self._doors is None:
            return {}
        by_hash = _doors_among(credentials)
        people = await self._doors.people(by_hash)
        return {by_hash[key]: visitor for key, visitor in people.items()}


def _doors_among(credentials: Collection[Credential]) -> Mapping[bytes, Credential]:
    """Return the doors by the hashes that they are stored under."""
    return {
        hashlib.sha256(credential.secret).digest(): credential
        for credential in credentials
        if credential.kind == "door"
    }
