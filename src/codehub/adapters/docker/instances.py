"""Instances as containers, each with its own home, behind a loopback port. Refuses containers of others."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import NoReturn
from uuid import UUID

import structlog

from codehub.adapters.docker.containers import (
    NETWORK,
    SPEC,
    VOLUME,
    Container,
    Mount,
    container_config,
    container_name,
    fingerprint,
    parse_inspection,
    parse_list_entry,
    parse_stats,
)
from codehub.adapters.docker.engine import (
    CONFLICT,
    INSTALL,
    NOT_FOUND,
    ROLE,
    WORKSPACE,
    DockerError,
    Engine,
    refusal,
)
from codehub.adapters.docker.frames import frames
from codehub.adapters.docker.groups import ParentGroup
from codehub.adapters.docker.images import pull, unusable
from codehub.adapters.docker.network import ensure_network
from codehub.adapters.docker.unremovable import discard
from codehub.adapters.health import answer_status
from codehub.adapters.threads import in_thread
from codehub.adapters.workspace_locks import WorkspaceLocks
from codehub.core.ides import IDES, IdeProfile
from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.core.route import mount_of
from codehub.ports.backends import ActionFailed
from codehub.ports.disks import ResourceUse
from codehub.ports.instances import InstanceSpec, Upstream
from codehub.ports.storage import Report, ignore_progress
from codehub.ports.system import Clock

log = structlog.get_logger()

# Returns the mount of a home and its volume_id: None if there is no complete volume.
HomeOf = Callable[[InstanceSpec], Awaitable[tuple[Mount, str | None]]]

ROLE_INSTANCE = "instance"
IDE = "codehub.ide"
_GRACE_S = 5
_BOOT_S_MAX = 120.0
_PROBES_AT_ONCE = 64
_TRIES_MAX = 40
_POLL_S = 0.05
_GONE_S_MAX = 30.0
# Not "start": the one who starts a container watches it.
_EVENTS = ("die", "destroy", "oom", "pause", "unpause")
_FRESH_S = 1.0
# For this long only the health of a booting container is checked; it is not inspected again.
_INSPECTED_S = 0.5


class _ContainerChanged(Exception):
    """Something has changed the container meanwhile: look again."""


class DockerInstances:
    """The InstanceController of the local-docker backend."""

    def __init__(
        self,
        engine: Engine,
        home_of: HomeOf,
        *,
        clock: Clock,
        boot_s_max: float = _BOOT_S_MAX,
        has_login: Callable[[str], bool] = lambda _image: True,
        group: ParentGroup | None = None,
    ) -> None:
        """`has_login` decides for which images the credentials of `docker login` may be used."""
        self._engine = engine
        self._home_of = home_of
        self._clock = clock
        self._boot_s_max = boot_s_max
        self._has_login = has_login
        self._group = group
        self._locks = WorkspaceLocks()
        self._driver: str | None = None
        self._answered_at: dict[str, float] = {}
        """When each container last answered well."""
        self._booting: dict[UUID, tuple[Container, float]] = {}

    async def open(self) -> None:
        """Make the network. If the engine can't be reached now, the first start tries again."""
        await ensure_network(self._engine)

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:
        ide = _ide(spec.ide)
        async with self._locks.of(spec.workspace_id):
            mount = await self._mount(spec, volume_id)
            for _ in range(_TRIES_MAX):
                try:
                    await self._make_and_run(spec, mount, volume_id, ide, report)
                except _ContainerChanged as error:
                    log.info("container_raced", workspace_id=str(spec.workspace_id), reason=str(error))
                    # A name is in use some time before its container can be inspected.
                    await self._clock.sleep(_POLL_S)
                else:
                    return
        raise ActionFailed(Message(Code.CONTAINER_CHANGES, {"name": container_name(spec.workspace_id)}))

    async def delete(self, workspace_id: UUID) -> None:
        async with self._locks.of(workspace_id):
            self._booting.pop(workspace_id, None)
            container = await self._look(workspace_id)
            if container is not None:
                await self._remove(container)
                log.info("instance_deleted", workspace_id=str(workspace_id))

    async def status(self, workspace_id: UUID) -> Instance | None:
        booting = self._recently_booting(workspace_id)
        if booting is not None and not await self._is_healthy(workspace_id, booting):
            return Instance(running=True, healthy=False)
        self._booting.pop(workspace_id, None)
        container = await self._look(workspace_id)
        if container is None:
            return None
        if booting is not None and container == booting:  # the same container that has just answered
            return Instance(running=True, healthy=True)
        observation = await self._observe(workspace_id, container)
        if observation.running and not observation.healthy and self._is_booting(container):
            self._booting[workspace_id] = (container, self._clock.monotonic())
        return observation

    async def list_all(self) -> Mapping[UUID, Instance]:
        containers = await self._list()
        container_ids = {container.id for container in containers.values()}
        self._answered_at = {
            container_id: at
            for container_id, at in self._answered_at.items()
            if container_id in container_ids
        }
        gate = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def observe(workspace_id: UUID, container: Container) -> Instance:
            if self._has_just_answered(container):
                return Instance(running=True, healthy=True)
            async with gate:
                return await self._observe(workspace_id, container)

        observations = await asyncio.gather(*(observe(*entry) for entry in containers.items()))
        return dict(zip(containers, observations, strict=True))

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        container = await self._look(workspace_id)
        return container.upstream if container is not None and container.running else None

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        container = await self._look(workspace_id)
        if container is None:
            return
        path = f"containers/{container.id}/logs"
        with suppress(DockerError):  # it has been removed meanwhile
            async with self._engine.stream(
                "GET", path, stdout=1, stderr=1, tail=tail, follow=follow
            ) as output:
                async for part in frames(output):
                    yield part

    async def spent(self, workspace_id: UUID) -> ResourceUse | None:
        path = f"containers/{container_name(workspace_id)}/stats?stream=false&one-shot=true"
        return parse_stats(await self._engine.find(path))

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        labels = [f"{INSTALL}={self._engine.installation}", f"{ROLE}={ROLE_INSTANCE}"]
        filters = json.dumps({"type": ["container"], "event": list(_EVENTS), "label": labels})
        async with self._engine.stream("GET", "events", filters=filters) as lines:

            async def workspace_ids() -> AsyncIterator[UUID]:
                async for line in lines:
                    label = json.loads(line)["Actor"]["Attributes"].get(WORKSPACE, "")
                    with suppress(ValueError):
                        yield UUID(label)

            yield workspace_ids()

    async def _mount(self, spec: InstanceSpec, volume_id: str) -> Mount:
        mount, volume_found = await self._home_of(spec)
        if volume_found is None or volume_found != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
        return mount

    async def _is_running_as_wanted(self, spec: InstanceSpec, mount: Mount, volume_id: str) -> bool:
        """Return whether the container that exists is the wanted one. Any other is removed."""
        container = await self._look(spec.workspace_id)
        if container is None:
            return False
        expected = (fingerprint(spec, mount), volume_id)
        if (container.labels.get(SPEC), container.labels.get(VOLUME)) == expected:
            if container.is_new:  # by a process that was killed, or is just about to start it
                await self._run(spec, mount, volume_id, container.id)
                return True
            if container.running and await self._is_well(spec.workspace_id, container):
                return True
        await self._remove(container)
        return False

    async def _is_well(self, workspace_id: UUID, container: Container) -> bool:
        if await self._is_healthy(workspace_id, container) or self._is_booting(container):
            return True
        # Twice: a server that is busy for a moment must not be replaced.
        return await self._is_healthy(workspace_id, container)

    async def _make_and_run(
        self, spec: InstanceSpec, mount: Mount, volume_id: str, ide: IdeProfile, report: Report
    ) -> None:
        """Make the container and start it. Raises _ContainerChanged if it has to be tried again."""
        try:
            container_id = await self._create(spec, mount, volume_id, ide)
        except DockerError as error:
            # Only now is an existing container inspected: mostly there is none, and creation just succeeds.
            if not await self._is_running_as_wanted(spec, mount, volume_id):
                await self._resolve_refusal(spec, error, report)
            return
        await self._run(spec, mount, volume_id, container_id)

    async def _create(self, spec: InstanceSpec, mount: Mount, volume_id: str, ide: IdeProfile) -> str:
        labels = self._engine.labels(spec.workspace_id, ROLE_INSTANCE)
        labels |= {SPEC: fingerprint(spec, mount), VOLUME: volume_id, IDE: spec.ide}
        stray = self._engine.labels(spec.workspace_id, "home")
        config = container_config(spec, mount, ide, labels, stray)
        if (parent := await self._parent()) is not None:
            config["HostConfig"]["CgroupParent"] = parent
        name = container_name(spec.workspace_id)
        answer = await self._engine.ask("POST", "containers/create", body=config, name=name)
        return str(answer["Id"])

    async def _parent(self) -> str | None:
        """Return the control group that limits all containers together, if there is one."""
        if self._group is None:
            return None
        if self._driver is None:
            self._driver = str((await self._engine.find("info") or {}).get("CgroupDriver", "none"))
        return await in_thread(self._group.prepare, self._driver)

    async def _resolve_refusal(self, spec: InstanceSpec, error: DockerError, report: Report) -> NoReturn:
        """Raise the reason why no container was made, after removing its cause if possible."""
        if error.status == NOT_FOUND and "No such image" in error.message:
            await pull(self._engine, spec.image_ref, report, with_login=self._has_login(spec.image_ref))
            raise _ContainerChanged("the image was fetched first") from None
        if error.status == CONFLICT:
            await self._refuse_foreign(container_name(spec.workspace_id))
            raise _ContainerChanged(error.message) from None
        if "invalid reference format" in error.message:
            raise unusable(spec.image_ref, error.message) from None
        raise refusal(error) from None

    async def _run(self, spec: InstanceSpec, mount: Mount, volume_id: str, container_id: str) -> None:
        try:
            # From its creation on the container keeps its volume from being removed. It may have gone just
            # before.
            await self._mount(spec, volume_id)
            await self._engine.ask("POST", f"containers/{container_id}/start")
        except DockerError as error:
            if any(f"network {NETWORK} {sign}" in error.message for sign in ("not found", "is ambiguous")):
                await ensure_network(self._engine)
                raise _ContainerChanged("the network was made first") from None
            if error.status in (NOT_FOUND, CONFLICT):
                raise _ContainerChanged(error.message) from None
            await self._remove_container(container_id)
            raise refusal(error) from None
        except ActionFailed:
            await self._remove_container(container_id)
            await self._discard_stray(mount)
            raise
        log.info("instance_started", workspace_id=str(spec.workspace_id), image=spec.image_ref)

    async def _refuse_foreign(self, name: str) -> None:
        inspection = await self._engine.find(f"containers/{name}/json")
        if inspection is not None and not self._engine.owns(
            parse_inspection(inspection).labels, ROLE_INSTANCE
        ):
            raise ActionFailed(Message(Code.DOCKER_NOT_OURS, {"name": name}))

    async def _remove(self, container: Container) -> None:
        """Stop the container, remove it, and return when it is gone, even if something else removes it."""
        if container.running:
            await self._ask_unless_done("POST", f"containers/{container.id}/stop", t=_GRACE_S)
        await self._remove_container(container.id)

    async def _remove_container(self, container_id: str) -> None:
        deadline = self._clock.monotonic() + _GONE_S_MAX
        while await discard(self._engine, container_id) != NOT_FOUND:
            if self._clock.monotonic() > deadline:
                raise ActionFailed(Message(Code.CONTAINER_NOT_REMOVED, {"name": container_id[:12]}))
            if await self._engine.find(f"containers/{container_id}/json") is None:
                break
            await self._clock.sleep(_POLL_S)
        self._answered_at.pop(container_id, None)

    async def _discard_stray(self, mount: Mount) -> None:
        """Remove the volume that Docker itself made for a missing home: it has no volume_id."""
        volume = await self._engine.find(f"volumes/{mount.source}") if mount.kind == "volume" else None
        labels = (volume or {}).get("Labels") or {}
        if self._engine.owns(labels, "home") and VOLUME not in labels:
            await self._ask_unless_done("DELETE", f"volumes/{mount.source}")

    async def _ask_unless_done(self, method: str, path: str, **params: object) -> int:
        """Send a request, and accept that it is done already or in progress elsewhere."""
        try:
            await self._engine.ask(method, path, wait=True, **params)
        except DockerError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise refusal(error) from None
            return error.status
        return 0

    async def _look(self, workspace_id: UUID) -> Container | None:
        inspection = await self._engine.find(f"containers/{container_name(workspace_id)}/json")
        if inspection is None:
            return None
        container = parse_inspection(inspection)
        return container if self._engine.owns(container.labels, ROLE_INSTANCE) else None

    async def _list(self) -> Mapping[UUID, Container]:
        containers = {}
        for entry in await self._engine.list_labelled("containers/json", {ROLE: ROLE_INSTANCE}, all=True):
            container = parse_list_entry(entry)
            with suppress(ValueError):
                workspace_id = UUID(container.labels.get(WORKSPACE, ""))
                if f"/{container_name(workspace_id)}" in entry["Names"]:
                    containers[workspace_id] = container
        return containers

    async def _observe(self, workspace_id: UUID, container: Container) -> Instance:
        return Instance(
            container.running,
            container.running and await self._is_healthy(workspace_id, container),
            has_ended=container.has_ended,
            exit_code=container.exit_code,
        )

    def _has_just_answered(self, container: Container) -> bool:
        """Return whether it answered in the last second: then a list does not check it again."""
        at = self._answered_at.get(container.id)
        return container.running and at is not None and self._clock.monotonic() - at < _FRESH_S

    async def _is_healthy(self, workspace_id: UUID, container: Container) -> bool:
        ide = IDES.get(container.labels.get(IDE, ""))
        if ide is None or container.upstream is None:
            return False
        target = ide.health_path.format(mount=mount_of(workspace_id))
        status = await answer_status(container.upstream, target)
        is_healthy = status is not None and status < ide.healthy_below
        if is_healthy:
            self._answered_at[container.id] = self._clock.monotonic()
        elif container.id in self._answered_at:
            self._answered_at[container.id] = -math.inf
        return is_healthy

    def _recently_booting(self, workspace_id: UUID) -> Container | None:
        """Return the container if it was booting a moment ago: then it is not inspected at every look."""
        container, at = self._booting.pop(workspace_id, (None, 0.0))
        if container is None or self._clock.monotonic() - at > _INSPECTED_S:
            return None
        self._booting[workspace_id] = (container, at)
        return container

    def _is_booting(self, container: Container) -> bool:
        """Return whether it may still boot: it has never answered. One that did answer once is ill."""
        if container.id in self._answered_at or container.started_at is None:
            return False
        return (datetime.now(UTC) - container.started_at).total_seconds() < self._boot_s_max


def _ide(name: str) -> IdeProfile:
    ide = IDES.get(name)
    if ide is None:
        raise ActionFailed(Message(Code.IDE_NOT_OFFERED, {"ide": name, "offered": list(IDES)}))
    return ide
