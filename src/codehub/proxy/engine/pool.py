"""Idle connections to servers: an address goes in, one that waits comes out, or a new one."""

import asyncio
from weakref import WeakValueDictionary

from codehub.proxy.engine.runtime import Address, DialAddress, UnixAddress
from codehub.proxy.engine.targets import Idle
from codehub.proxy.engine.upstream import UpstreamConnection

_IDLE_SWEEPS_MAX = 7  # of half a second: Node and uvicorn close theirs after 5 s
_CONNECT_S_MAX = 5.0
_DIAL_S_MAX = 20.0  # something may have to be started first that leads there


class Pool:
    """Idle connections by address, as long as somebody knows the address."""

    def __init__(self) -> None:
        self._idle: WeakValueDictionary[Address, Idle[UpstreamConnection]] = WeakValueDictionary()

    def idle(self, address: Address) -> Idle[UpstreamConnection]:
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle[address] = Idle()
        return idle

    async def connect(self, address: Address) -> UpstreamConnection:
        """Return a new connection. Raises OSError, TimeoutError included."""
        idle = self.idle(address)
        loop = asyncio.get_running_loop()
        if isinstance(address, DialAddress):
            async with asyncio.timeout(_DIAL_S_MAX):
                dialled = await address.dial()
            _, protocol = await loop.create_unix_connection(lambda: UpstreamConnection(idle), sock=dialled)
            return protocol
        async with asyncio.timeout(_CONNECT_S_MAX):
            if isinstance(address, UnixAddress):
                _, protocol = await loop.create_unix_connection(
                    lambda: UpstreamConnection(idle), str(address.path)
                )
            else:
                _, protocol = await loop.create_connection(
                    lambda: UpstreamConnection(idle), address.host, address.port
                )
        return protocol

    def sweep(self) -> None:
        """Close what has waited for longer than servers do."""
        for idle in self.all_idle():
            for connection in list(idle):
                connection.sweeps += 1
                if connection.sweeps > _IDLE_SWEEPS_MAX:
                    idle.remove(connection)
                    connection.close()

    def all_idle(self) -> list[Idle[UpstreamConnection]]:
        """Return the idle connections to each server."""
        return list(self._idle.values())

    def close(self) -> None:
        for idle in self.all_idle():
            for connection in idle:
                connection.close()
            idle.clear()
