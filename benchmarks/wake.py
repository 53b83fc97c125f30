"""Waking by a visit: how long after the instance answers its
health check the visitor has the IDE's first byte.

Real PostgreSQL, the engine with the memory platform, the real edge in one
process with them; the peer is the moment of the health check.
"""

import asyncio
import socket
import statistics
import time
from functools import partial
from uuid import UUID

from benchmarks.database import migrated_database
from benchmarks.engine import BOOT_S, OWNER, Plane, spec
from benchmarks.proxy_peers import SESSION

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.adapters.memory.hints import MemoryHints
from codehub.adapters.postgres.api_store import PostgresApiStore
from codehub.adapters.postgres.connect import Role, open_pool
from codehub.adapters.postgres.hints import PostgresHints
from codehub.adapters.system.machine import SystemIdentity, SystemRandomness
from codehub.app.edge import StoredWorkspaces
from codehub.core.amendments import By
from codehub.core.limits import Limits
from codehub.core.messages import verbatim
from codehub.core.operations import DesiredState, Operation, Phase
from codehub.core.visit import Visitor
from codehub.core.workspace import Workspace
from codehub.ports.instances import TcpUpstream, Upstream
from codehub.ports.proxy_lookups import Credential
from codehub.proxy.engine.client import ClientConnection
from codehub.proxy.engine.server import Edge, targets_in_use
from codehub.proxy.policy.answers import EngineAnswers
from codehub.proxy.policy.api_targets import ApiTargets
from codehub.proxy.policy.gate import GateRules, WorkspaceGate
from codehub.proxy.policy.header_rules import header_rules
from codehub.proxy.policy.route_cache import RouteCache
from codehub.service.workspaces import WorkspaceService

WAKES = 10
BY = By("bench", verbatim("bench"))


class Listening(StoredWorkspaces):
    address: Upstream

    async def upstream(self, workspace: Workspace) -> Upstream | None:
        return self.address if await super().upstream(workspace) is not None else None


def main() -> None:
    asyncio.run(measure())


async def measure() -> None:
    async with migrated_database() as connect_args:
        plane = Plane(connect_args, boot_s=BOOT_S, actuator_s=0.0)
        async with plane.opened() as (api, controller):
            plane.tasks.spawn(controller.run(), name="controller")
            await plane.add_owner()
            pool = await open_pool(connect_args, Role.CONTROLLER)
            hints = PostgresHints(pool, connect_args, Role.CONTROLLER, clock=plane.clock)
            places = Listening(api, plane.backends.instances)
            ide = await asyncio.start_server(answer, "127.0.0.1", 0)
            places.address = TcpUpstream("127.0.0.1", ide.sockets[0].getsockname()[1])
            credentials = MemoryCredentials()
            credentials.admit(Credential("session", SESSION.encode()), Visitor(OWNER, "bench"))
            connections = set[ClientConnection]()
            directory = RouteCache(
                credentials,
                places,
                hints,
                MemoryHints(),
                clock=plane.clock,
                tasks=plane.tasks,
                keeps_prefix=lambda _ide: False,
                targets_in_use=partial(targets_in_use, connections),
            )
            service = WorkspaceService(api, limits=Limits(per_user=100), trash_s=1)
            gate = WorkspaceGate(
                *(
                    directory,
                    places,
                    service,
                    ApiTargets([places.address], plane.clock),
                    GateRules(frozenset()),
                ),
                clock=plane.clock,
                tasks=plane.tasks,
            )
            edge = Edge(
                gate,
                rules=header_rules(secure=False),
                answers=EngineAnswers(),
                clock=plane.clock,
                tasks=plane.tasks,
                randomness=SystemRandomness(),
                connections=connections,
            )
            plane.tasks.spawn(directory.run(), name="directory")
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            async with edge.serving(listener):
                port = listener.getsockname()[1]
                row = await api.create_workspace(SystemIdentity().new_id(), spec("wake"), [])
                lags = [await wake(plane, api, service, row.id, port) for _ in range(WAKES)]
            ide.close()
            pool.terminate()
    print(
        f"wake on a visit (health check answers to first byte of the IDE): median of {WAKES}: "
        f"{statistics.median(lags) * 1000:.0f} ms, worst {max(lags) * 1000:.0f} ms (target: at most 150)"
    )


async def wake(
    plane: Plane, api: PostgresApiStore, service: WorkspaceService, workspace_id: UUID, port: int
) -> float:
    await at_rest(api, workspace_id, Phase.RUNNING)
    await service.set_wish(workspace_id, DesiredState.STANDBY, BY)
    await at_rest(api, workspace_id, Phase.STANDBY)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = f"GET /w/{workspace_id}/ HTTP/1.1\r\nHost: hub\r\nCookie: codehub_session={SESSION}\r\n\r\n"
    writer.write(asked.encode())
    first = await reader.readuntil(b"\r\n")
    at = time.monotonic()
    assert b"200" in first, first
    writer.close()
    return at - plane.instances._instances[workspace_id].ready_at


async def at_rest(api: PostgresApiStore, workspace_id: UUID, phase: Phase) -> None:
    while True:
        row = await api.get(workspace_id)
        if row.status.phase is phase and row.status.operation is Operation.NONE:
            return
        await asyncio.sleep(0.01)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await writer.drain()
    writer.close()


if __name__ == "__main__":
    main()
