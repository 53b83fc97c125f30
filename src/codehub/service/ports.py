"""Ports of workspaces: who asks goes in; what listens there, and who else may enter it, comes out."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from codehub.core.access import Person
from codehub.core.messages import Code, Message
from codehub.core.observation import UNTOLD
from codehub.core.operations import Phase
from codehub.core.origins import WorkspaceOrigins
from codehub.core.requests import Refusal, Refused
from codehub.core.shared_ports import rule_share
from codehub.core.visibility import SharedPort, Visibility, lowered
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instance_access import InstanceAccess, Listener, NotRunning, RelayRefused
from codehub.ports.shared_ports import SharedPorts
from codehub.ports.system import Clock, Tasks
from codehub.service.workspaces import WorkspaceService, denials

_LOOK_LASTS_S = 2.0
_NO_ORIGINS = Refused(Refusal.INVALID_STATE, Message(Code.NO_ORIGINS))
_NO_LOOPBACK = Refused(Refusal.INVALID_STATE, Message(Code.NO_LOOPBACK))


@dataclass(frozen=True, slots=True)
class WorkspacePort:
    """A port that something listens on, or that was opened for more than the owner."""

    port: int
    process: str | None
    """What listens there; "?" if it can't be told, None if nothing does."""
    url: str
    visibility: Visibility
    expires_at: datetime | None


class PortService:
    def __init__(
        self,
        workspaces: WorkspaceService,
        shared: SharedPorts,
        accesses: Mapping[InstanceBackend, InstanceAccess],
        *,
        origins: WorkspaceOrigins | None,
        ceiling: Visibility,
        clock: Clock,
        tasks: Tasks,
    ) -> None:
        self._workspaces = workspaces
        self._shared = shared
        self._accesses = accesses
        self._clock = clock
        self._tasks = tasks
        self._looks: dict[UUID, tuple[float, asyncio.Future[Sequence[Listener]]]] = {}
        self.origins = origins
        self.ceiling = ceiling

    async def list(self, person: Person, workspace_id: UUID) -> Sequence[WorkspacePort] | Refused:
        """Return its ports in order. Raises UnknownWorkspace, NotAllowed, or BackendUnreachable."""
        row = await self._workspaces.find(person, workspace_id)
        if self.origins is None:
            return _NO_ORIGINS
        shares = (await self._shared.shared([row.id])).get(row.id, {})
        try:
            processes = await self._processes(row)
        except RelayRefused:
            return _NO_LOOPBACK
        ports = sorted({*processes, *shares})
        return [self._view(row, port, processes.get(port), shares.get(port)) for port in ports]

    async def share(
        self, person: Person, workspace_id: UUID, wanted: SharedPort, request_id: str
    ) -> WorkspacePort | Refused:
        """Set who may enter a port from now on. Raises UnknownWorkspace or NotAllowed."""
        if self.origins is None:
            await self._workspaces.find(person, workspace_id)
            return _NO_ORIGINS
        rule = partial(rule_share, wanted=wanted, person=person, request_id=request_id, ceiling=self.ceiling)
        with denials():
            ruled = await self._shared.amend(workspace_id, rule)
        if isinstance(ruled.ruling, Refused):
            return ruled.ruling
        try:
            processes = await self._processes(ruled.workspace)
        except (RelayRefused, BackendUnreachable):  # it is stored all the same
            processes = {}
        return self._view(ruled.workspace, wanted.port, processes.get(wanted.port), ruled.ruling)

    def _view(
        self, row: Workspace, port: int, process: str | None, share: SharedPort | None
    ) -> WorkspacePort:
        assert self.origins is not None
        share = share or SharedPort(port, Visibility.PRIVATE)
        visibility = lowered(share.visibility, self.ceiling)
        url = self.origins.origin_of(row.label, port) + "/"
        return WorkspacePort(port, process, url, visibility, share.expires_at)

    async def _processes(self, row: Workspace) -> Mapping[int, str]:
        """Return what listens. Raises RelayRefused or BackendUnreachable."""
        try:
            return {listener.port: listener.process or UNTOLD for listener in await self._look(row)}
        except NotRunning:
            return {}
        except RelayRefused:
            raise
        except ActionFailed as failed:
            raise BackendUnreachable(failed.message) from failed

    async def _look(self, row: Workspace) -> Sequence[Listener]:
        """Look, or wait for whoever looks; what was seen a moment ago is still true enough."""
        access = self._accesses.get(row.spec.instance_backend)
        if access is None:
            backend = str(row.spec.instance_backend)
            raise BackendUnreachable(Message(Code.NO_ADAPTER, {"backend": backend}))
        if row.status.phase is not Phase.RUNNING:
            return ()
        now = self._clock.monotonic()
        self._looks = {
            workspace_id: (at, look)
            for workspace_id, (at, look) in self._looks.items()
            if not look.done() or now - at < _LOOK_LASTS_S
        }
        if row.id not in self._looks:
            self._looks[row.id] = now, asyncio.get_running_loop().create_future()
            # A task of its own: whoever asked first may go away, and the others still wait.
            self._tasks.spawn(_look(access, row.id, self._looks[row.id][1]), name="listening")
        return await asyncio.shield(self._looks[row.id][1])


async def _look(
    access: InstanceAccess, workspace_id: UUID, look: "asyncio.Future[Sequence[Listener]]"
) -> None:
    try:
        look.set_result(await access.listening(workspace_id))
    except Exception as error:  # noqa: BLE001  # whoever waits for it is told
        look.set_exception(error)
        look.exception()
