"""A stage for generated talk: an edge, servers and clients in one event
loop, on real sockets. Every byte that arrives anywhere is kept.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from hypothesis import HealthCheck, seed, settings
from tests.support.edge import PREFIX, OpenGate, serving
from tests.support.patience import PATIENCE_S

from codehub.core.route import Kind
from codehub.ports.instances import TcpUpstream
from codehub.proxy.engine.requests import RequestHead
from codehub.proxy.engine.targets import Answer, Target
from codehub.proxy.policy.answers import error

if TYPE_CHECKING:
    from codehub.proxy.engine.server import Edge

T = TypeVar("T", bound=Callable[..., None])


def generated(test: T) -> T:
    """Run it on as many examples as are asked for, and always on the same unless another seed is."""
    examples = settings(
        max_examples=int(os.environ.get("CODEHUB_TEST_EXAMPLES", "400")),
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    return seed(int(os.environ.get("CODEHUB_TEST_SEED", "1")))(examples(test))


async def turns(count: int) -> None:
    """Let the event loop turn, and everybody do what is to be done."""
    for _ in range(count):
        await asyncio.sleep(0)


class End(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self) -> None:
        self.data = b""
        self.is_over = False
        """Whether nothing more will come: the other side ended it, or it was reset."""
        self.was_reset = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.is_over = True
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = self.is_over = True
        self.was_reset = error is not None

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def end(self) -> None:
        if not self.transport.is_closing():
            self.transport.write_eof()


class NotingGate(OpenGate):
    """Notes who asks for what. If it is slow it says so only later."""

    def __init__(self, workspace: Target, api: Target, *, is_slow: bool) -> None:
        super().__init__(workspace, api)
        self._is_slow = is_slow
        self.asked: list[tuple[bytes, bytes]] = []

    def admit(self, head: RequestHead) -> Target | Answer | Awaitable[Target | Answer]:
        self.asked.append((head.method, head.target))
        is_elsewhere = head.route.kind is Kind.WORKSPACE and not head.target.startswith(
            PREFIX.encode() + b"/"
        )
        word = error(404, "There is no such workspace.") if is_elsewhere else super().admit(head)
        return self._later(word) if self._is_slow else word

    async def _later(self, word: object) -> Target | Answer:
        await turns(3)
        return cast("Target | Answer", word)


class Stage:
    def __init__(self) -> None:
        self.edge: Edge
        self.gate: NotingGate
        self.address: tuple[str, int]
        self._clients: list[End] = []
        self._servers: list[End] = []

    async def connect(self) -> End:
        _, client = await asyncio.get_running_loop().create_connection(End, *self.address)
        self._clients.append(client)
        return client

    async def serve(self, connection: Callable[[], End]) -> asyncio.Server:
        def accepted() -> End:
            self._servers.append(connection())
            return self._servers[-1]

        return await asyncio.get_running_loop().create_server(accepted, "127.0.0.1", 0)

    async def cancel_all(self) -> None:
        """End every connection, once all that was written to it has arrived."""
        for client in self._clients:
            client.transport.close()
        await holds(lambda: not self.edge.connections)
        for idle in self.edge.pool.all_idle():
            for connection in idle:
                connection.write_eof()
        await holds(lambda: all(end.is_lost for end in self._servers + self._clients))

    def abort(self) -> None:
        for end in self._servers + self._clients:
            end.transport.abort()


@asynccontextmanager
async def stage(
    workspace: Callable[[], End], api: Callable[[], End], *, gate_is_slow: bool = False
) -> AsyncIterator[Stage]:
    """Both servers are said by what serves one of their connections."""
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(repr(context)))
    made = Stage()
    async with asyncio.timeout(PATIENCE_S):
        servers = [await made.serve(workspace), await made.serve(api)]
        targets = [TcpUpstream("127.0.0.1", server.sockets[0].getsockname()[1]) for server in servers]
        made.gate = NotingGate(
            Target(targets[0], mount=PREFIX.encode(), strips=True), Target(targets[1]), is_slow=gate_is_slow
        )
        try:
            async with serving(made.gate) as (made.edge, made.address):
                yield made
        finally:
            made.abort()
            for server in servers:
                server.close()
    assert not failures, failures


async def holds(condition: Callable[[], bool]) -> None:
    """Wait for what everybody in this event loop brings about."""
    while not condition():
        await turns(1)
