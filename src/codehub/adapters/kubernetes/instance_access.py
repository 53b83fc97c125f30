"""A command or a port goes in, a way into a Pod comes out. Refuses the Pods of others, and later ones."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.command_session import command_session
from codehub.adapters.kubernetes.labels import pod_name
from codehub.adapters.kubernetes.pods import Pod
from codehub.adapters.kubernetes.relay import relay
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.listeners import LOOK, look
from codehub.ports.instance_access import (
    ByteStream,
    Command,
    CommandSession,
    Listener,
    NothingListens,
    NotRunning,
)


class KubernetesInstanceAccess:
    """The InstanceAccess of the k8s backend."""

    def __init__(self, client: KubernetesClient, pods: WatchCache[Pod | None]) -> None:
        self._client = client
        self._pods = pods

    @asynccontextmanager
    async def exec(self, workspace_id: UUID, command: Command) -> AsyncIterator[CommandSession]:
        pod = await self._require_running(workspace_id)
        async with command_session(self._client, pod, command) as session:
            yield session

    @asynccontextmanager
    async def relay(self, workspace_id: UUID, port: int) -> AsyncIterator[ByteStream]:
        pod = await self._require_running(workspace_id)
        if port == pod.port:
            raise NothingListens(port)
        async with relay(self._client, pod, port) as stream:
            yield stream

    async def listening(self, workspace_id: UUID) -> Sequence[Listener]:
        pod = await self._require_running(workspace_id)
        async with command_session(self._client, pod, LOOK) as session:
            return await look(session, ide_port=pod.port)

    async def _require_running(self, workspace_id: UUID) -> Pod:
        pod = await self._pods.find(pod_name(workspace_id))
        if pod is None or not pod.is_instance or not pod.running:
            raise NotRunning
        return pod
