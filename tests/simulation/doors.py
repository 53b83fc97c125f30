"""A door: the proxy's decisions without its sockets. A visit goes in;
whether it is led in, wakes or waits comes out, and use is noted.

The policy itself, with its route cache, grants and revocation, is simulated in policy_world.py.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from tests.simulation.numbers import EPOCH, FLUSH_S

from codehub.adapters.memory.credentials import MemoryCredentials
from codehub.core.activity import counts_as_use
from codehub.core.amendments import By
from codehub.core.ides import ide_profile
from codehub.core.messages import verbatim
from codehub.core.visit import Connect, Decision, Visit, Visitor, Wake, decide
from codehub.core.workspace import Workspace
from codehub.ports.store import StoreUnavailable, UnknownWorkspace
from codehub.proxy.policy.activity import Activity, SocketTraffic
from codehub.service.workspaces import WorkspaceService

if TYPE_CHECKING:
    from tests.simulation.machine import Machine

_AGENT = "Mozilla/5.0"
NAVIGATION = Visit(fetch_mode="navigate", fetch_dest="document", fetch_site="none", agent=_AGENT)
PROGRAM = Visit(agent="curl/8.5")
RETRY = Visit(is_upgrade=True, agent=_AGENT)
POLL = Visit(fetch_mode="cors", fetch_dest="empty", fetch_site="same-origin", agent=_AGENT)
_BY = By("person", verbatim("visited"))
_FRESH_S = 1.0
_STALE_S_MAX = 60.0


class Door:
    """One proxy process. What it knows of a workspace is up to a
    second old; while the database is away, up to a minute.
    """

    def __init__(self, machine: "Machine", service: WorkspaceService) -> None:
        self._machine = machine
        self._service = service
        self._rows: dict[UUID, tuple[Workspace, float]] = {}
        self._sockets: dict[object, list[SocketTraffic]] = {}
        """Of each open tab: the window's, and its extensions'."""
        self.activity = Activity(service, MemoryCredentials(), self, clock=machine, flush_s=FLUSH_S)

    def at(self, monotonic_s: float) -> datetime | None:
        machine = self._machine
        return EPOCH + timedelta(seconds=(monotonic_s - machine.offset) / machine.rate)

    async def visit(self, visit: Visit, person: Visitor, workspace_id: UUID) -> bool:
        """Visit, and return whether one is led in. A workspace
        that sleeps is woken, if this is a visit that may.
        """
        world = self._machine.world
        row = await self._row(workspace_id)
        decision: Decision = decide(visit, person, row)
        world.judges.visited(visit, person, row, decision)
        if isinstance(decision, Wake):
            await self._service.wake(workspace_id, _BY)
        if not isinstance(decision, Connect):
            return False
        assert row is not None
        if counts_as_use(ide_profile(row.spec.ide), visit, "/"):
            self.activity.monitor(row).note_use()
        return True

    def send(self, workspace_id: UUID, size: int, tab: object = None) -> None:
        """Send that much over an open socket, as a browser does for a
        person who types, and a little for one who does not.
        """
        if workspace_id in self._rows:
            monitor = self.activity.monitor(self._rows[workspace_id][0])
            if tab is not None and tab not in self._sockets:
                self._sockets[tab] = [monitor.add_socket(None), monitor.add_socket(None)]
            socket = monitor.add_socket(None) if tab is None else self._sockets[tab][0]
            socket.bytes_up += size
            if tab is None:
                socket.close()
            monitor.evaluate_traffic()

    def close(self, tab: object) -> None:
        for socket in self._sockets.pop(tab, ()):
            socket.close()

    async def _row(self, workspace_id: UUID) -> Workspace | None:
        now = self._machine.world.loop.time()
        row, seen_at = self._rows.get(workspace_id, (None, -_STALE_S_MAX))
        if now - seen_at < _FRESH_S:
            return row
        try:
            row = await self._machine.store.get(workspace_id)
        except StoreUnavailable:
            if now - seen_at > _STALE_S_MAX:
                raise
            return row
        except UnknownWorkspace:
            return None
        self._rows[workspace_id] = (row, now)
        return row
