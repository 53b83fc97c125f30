"""Instances as containers: specs go in, IDEs come out, each on its own home, behind a loopback port. Refuses what is not ours."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import NoReturn
from uuid import UUID

import structlog

from codehub.adapters.docker.aside import discard
from codehub.adapters.docker.containers import (
    NETWORK,
    SPEC,
    VOLUME,
    Container,
    Mount,
    container_config,
    container_name,
    fingerprint,
    inspected,
    listed,
    spent,
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
from codehub.adapters.docker.workspace_locks import WorkspaceLocks
from codehub.adapters.health import answer_status
from codehub.adapters.threads import in_thread
from codehub.core.ides import IDES, IdeProfile
from codehub.core.observation import Instance
from codehub.core.route import mount_of
from codehub.ports.backends import ActionFailed
from codehub.ports.disks import Spent
from codehub.ports.instances import InstanceSpec, Upstream
from codehub.ports.storage import Report, tell_nobody
from codehub.ports.system import Clock

log = structlog.get_logger()

# Says where a home is and which volume that is: None if there is none that is complete.
HomeOf = Callable[[InstanceSpec], Awaitable[tuple[Mount, str | None]]]

ROLE_INSTANCE = "instance"
IDE = "codehub.ide"
_GRACE_S = 5
_BOOT_S_MAX = 120.0
_PROBES_AT_ONCE = 64
_TRIES_MAX = 40
_POLL_S = 0.05
_GONE_S_MAX = 30.0
# Not "start": whoever starts one watches it.
_TOLD = ("die", "destroy", "oom", "pause", "unpause")
_FRESH_S = 1.0
# For so long a container that boots is asked for its health alone.
_INSPECTED_S = 0.5


class _Raced(Exception):
    """Somebody else has changed the container meanwhile: look again."""


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
        """`has_login` says for which images what `docker login` has kept may be used."""
        self._engine = engine
        self._home_of = home_of
        self._clock = clock
        self._boot_s_max = boot_s_max
        self._has_login = has_login
        self._group = group
        self._turns = WorkspaceLocks()
        self._driver: str | None = None
        self._answered: dict[str, float] = {}
        """When each container last answered well."""
        self._booting: dict[UUID, tuple[Container, float]] = {}

    async def open(self) -> None:
        """Make the network. What can't be reached now is tried again by the first start."""
        await ensure_network(self._engine)

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = tell_nobody) -> None:
        ide = _ide(spec.ide)
        async with self._turns.of(spec.workspace_id):
            mount = await self._mount(spec, volume_id)
            for _ in range(_TRIES_MAX):
                try:
                    await self._make_and_run(spec, mount, volume_id, ide, report)
                except _Raced as raced:
                    log.info("container_raced", workspace_id=str(spec.workspace_id), reason=str(raced))
                    await self._clock.sleep(
                        _POLL_S
                    )  # a name is taken some time before its container can be seen
                else:
                    return
        raise ActionFailed(f"somebody else keeps changing the container {container_name(spec.workspace_id)}")

    async def delete(self, workspace_id: UUID) -> None:
        async with self._turns.of(workspace_id):
            self._booting.pop(workspace_id, None)
            found = await self._look(workspace_id)
            if found is not None:
                await self._remove(found)
                log.info("instance_deleted", workspace_id=str(workspace_id))

    async def status(self, workspace_id: UUID) -> Instance | None:
        booting = self._recent(workspace_id)
        if booting is not None and not await self._is_healthy(workspace_id, booting):
            return Instance(running=True, healthy=False)
        self._booting.pop(workspace_id, None)
        found = await self._look(workspace_id)
        if found is None:
            return None
        if booting is not None and found == booting:  # the very one that has just answered
            return Instance(running=True, healthy=True)
        observation = await self._seen(workspace_id, found)
        if observation.running and not observation.healthy and self._is_booting(found):
            self._booting[workspace_id] = (found, self._clock.monotonic())
        return observation

    async def list_all(self) -> Mapping[UUID, Instance]:
        found = await self._list()
        here = {container.id for container in found.values()}
        self._answered = {each: at for each, at in self._answered.items() if each in here}
        gate = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def one(workspace_id: UUID, container: Container) -> Instance:
            if self._has_just_answered(container):
                return Instance(running=True, healthy=True)
            async with gate:
                return await self._seen(workspace_id, container)

        observation = await asyncio.gather(*(one(*each) for each in found.items()))
        return dict(zip(found, observation, strict=True))

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        found = await self._look(workspace_id)
        return found.upstream if found is not None and found.running else None

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        found = await self._look(workspace_id)
        if found is None:
            return
        path = f"containers/{found.id}/logs"
        with suppress(DockerError):  # it has been removed meanwhile
            async with self._engine.stream("GET", path, stdout=1, stderr=1, tail=tail, follow=follow) as told:
                async for words in frames(told):
                    yield words

    async def spent(self, workspace_id: UUID) -> Spent | None:
        path = f"containers/{container_name(workspace_id)}/stats?stream=false&one-shot=true"
        return spent(await self._engine.find(path))

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        labels = [f"{INSTALL}={self._engine.installation}", f"{ROLE}={ROLE_INSTANCE}"]
        filters = json.dumps({"type": ["container"], "event": list(_TOLD), "label": labels})
        async with self._engine.stream("GET", "events", filters=filters) as lines:

            async def told() -> AsyncIterator[UUID]:
                async for line in lines:
                    said = json.loads(line)["Actor"]["Attributes"].get(WORKSPACE, "")
                    with suppress(ValueError):
                        yield UUID(said)

            yield told()

    async def _mount(self, spec: InstanceSpec, volume_id: str) -> Mount:
        mount, present = await self._home_of(spec)
        if present is None or present != volume_id:
            raise ActionFailed(f"there is no volume {volume_id} to start on")
        return mount

    async def _is_served(self, spec: InstanceSpec, mount: Mount, volume_id: str) -> bool:
        """Say whether what is there is what is asked for. What is not is removed."""
        found = await self._look(spec.workspace_id)
        if found is None:
            return False
        wanted = (fingerprint(spec, mount), volume_id)
        if (found.labels.get(SPEC), found.labels.get(VOLUME)) == wanted:
            if found.is_new:  # by somebody who was killed, or is about to do the same
                await self._run(spec, mount, volume_id, found.id)
                return True
            if found.running and await self._is_well(spec.workspace_id, found):
                return True
        await self._remove(found)
        return False

    async def _is_well(self, workspace_id: UUID, found: Container) -> bool:
        if await self._is_healthy(workspace_id, found) or self._is_booting(found):
            return True
        # Twice: a server that is busy for a moment is not to be replaced.
        return await self._is_healthy(workspace_id, found)

    async def _make_and_run(
        self, spec: InstanceSpec, mount: Mount, volume_id: str, ide: IdeProfile, report: Report
    ) -> None:
        """Make the container and start it. Whatever had to be made, fetched or removed first: look again then."""
        try:
            made = await self._create(spec, mount, volume_id, ide)
        except DockerError as error:
            # What is in its place is looked at only now: mostly nothing is, and Docker knows.
            if not await self._is_served(spec, mount, volume_id):
                await self._clear_up(spec, error, report)
            return
        await self._run(spec, mount, volume_id, made)

    async def _create(self, spec: InstanceSpec, mount: Mount, volume_id: str, ide: IdeProfile) -> str:
        labels = self._engine.labels(spec.workspace_id, ROLE_INSTANCE)
        labels |= {SPEC: fingerprint(spec, mount), VOLUME: volume_id, IDE: spec.ide}
        stray = self._engine.labels(spec.workspace_id, "home")
        config = container_config(spec, mount, ide, labels, stray)
        if (parent := await self._parent()) is not None:
            config["HostConfig"]["CgroupParent"] = parent
        name = container_name(spec.workspace_id)
        made = await self._engine.ask("POST", "containers/create", body=config, name=name)
        return str(made["Id"])

    async def _parent(self) -> str | None:
        """Return the control group that bounds all of them together, if there is one to be had."""
        if self._group is None:
            return None
        if self._driver is None:
            self._driver = str((await self._engine.find("info") or {}).get("CgroupDriver", "none"))
        return await in_thread(self._group.prepare, self._driver)

    async def _clear_up(self, spec: InstanceSpec, error: DockerError, report: Report) -> NoReturn:
        """Say why no container was made, having done what can be done about it."""
        if error.status == NOT_FOUND and "No such image" in error.message:
            await pull(self._engine, spec.image_ref, report, with_login=self._has_login(spec.image_ref))
            raise _Raced("the image was fetched first") from None
        if error.status == CONFLICT:
            await self._refuse_foreign(container_name(spec.workspace_id))
            raise _Raced(error.message) from None
        if "invalid reference format" in error.message:
            raise unusable(spec.image_ref, error.message) from None
        raise refusal(error) from None

    async def _run(self, spec: InstanceSpec, mount: Mount, volume_id: str, container_id: str) -> None:
        try:
            # From its creation on the container holds its home, so what is there now stays. It may have gone just before.
            await self._mount(spec, volume_id)
            await self._engine.ask("POST", f"containers/{container_id}/start")
        except DockerError as error:
            if any(f"network {NETWORK} {sign}" in error.message for sign in ("not found", "is ambiguous")):
                await ensure_network(self._engine)
                raise _Raced("the network was made first") from None
            if error.status in (NOT_FOUND, CONFLICT):
                raise _Raced(error.message) from None
            await self._discard(container_id)
            raise refusal(error) from None
        except ActionFailed:
            await self._discard(container_id)
            await self._discard_stray(mount)
            raise
        log.info("instance_started", workspace_id=str(spec.workspace_id), image=spec.image_ref)

    async def _refuse_foreign(self, name: str) -> None:
        said = await self._engine.find(f"containers/{name}/json")
        if said is not None and not self._engine.owns(inspected(said).labels, ROLE_INSTANCE):
            raise ActionFailed(f"the container {name} is not this installation's: it is not touched")

    async def _remove(self, found: Container) -> None:
        """Ask it to end, then remove it, and return when it is gone, whoever else is removing it."""
        if found.running:
            await self._asked("POST", f"containers/{found.id}/stop", t=_GRACE_S)
        await self._discard(found.id)

    async def _discard(self, container_id: str) -> None:
        deadline = self._clock.monotonic() + _GONE_S_MAX
        while await discard(self._engine, container_id) != NOT_FOUND:
            if self._clock.monotonic() > deadline:
                raise ActionFailed(f"the container {container_id[:12]} can't be removed")
            if await self._engine.find(f"containers/{container_id}/json") is None:
                break
            await self._clock.sleep(_POLL_S)
        self._answered.pop(container_id, None)

    async def _discard_stray(self, mount: Mount) -> None:
        """Docker makes a volume that is not there. It has no identity, and a start never leaves one."""
        said = await self._engine.find(f"volumes/{mount.source}") if mount.kind == "volume" else None
        labels = (said or {}).get("Labels") or {}
        if self._engine.owns(labels, "home") and VOLUME not in labels:
            await self._asked("DELETE", f"volumes/{mount.source}")

    async def _asked(self, method: str, path: str, **params: object) -> int:
        """Ask for what may be done already, or be under way by somebody else."""
        try:
            await self._engine.ask(method, path, wait=True, **params)
        except DockerError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise refusal(error) from None
            return error.status
        return 0

    async def _look(self, workspace_id: UUID) -> Container | None:
        said = await self._engine.find(f"containers/{container_name(workspace_id)}/json")
        if said is None:
            return None
        found = inspected(said)
        return found if self._engine.owns(found.labels, ROLE_INSTANCE) else None

    async def _list(self) -> Mapping[UUID, Container]:
        found = {}
        for said in await self._engine.listed("containers/json", {ROLE: ROLE_INSTANCE}, all=True):
            container = listed(said)
            with suppress(ValueError):
                workspace_id = UUID(container.labels.get(WORKSPACE, ""))
                if f"/{container_name(workspace_id)}" in said["Names"]:
                    found[workspace_id] = container
        return found

    async def _seen(self, workspace_id: UUID, found: Container) -> Instance:
        return Instance(
            found.running,
            found.running and await self._is_healthy(workspace_id, found),
            has_ended=found.has_ended,
            exit_code=found.exit_code,
        )

    def _has_just_answered(self, found: Container) -> bool:
        """A burst of lists is one check of hundreds of containers. Whether each still runs every list says itself."""
        at = self._answered.get(found.id)
        return found.running and at is not None and self._clock.monotonic() - at < _FRESH_S

    async def _is_healthy(self, workspace_id: UUID, found: Container) -> bool:
        ide = IDES.get(found.labels.get(IDE, ""))
        if ide is None or found.upstream is None:
            return False
        target = ide.health_path.format(mount=mount_of(workspace_id))
        status = await answer_status(found.upstream, target)
        is_healthy = status is not None and status < ide.healthy_below
        if is_healthy:
            self._answered[found.id] = self._clock.monotonic()
        elif found.id in self._answered:
            self._answered[found.id] = -math.inf
        return is_healthy

    def _recent(self, workspace_id: UUID) -> Container | None:
        """Return a container that was seen booting a moment ago: who watches it closely needs not inspect it each time."""
        container, at = self._booting.pop(workspace_id, (None, 0.0))
        if container is None or self._clock.monotonic() - at > _INSPECTED_S:
            return None
        self._booting[workspace_id] = (container, at)
        return container

    def _is_booting(self, found: Container) -> bool:
        """One that never answered may be booting; one that did is ill."""
        if found.id in self._answered or found.started_at is None:
            return False
        return (datetime.now(UTC) - found.started_at).total_seconds() < self._boot_s_max


def _ide(name: str) -> IdeProfile:
    ide = IDES.get(name)
    if ide is None:
        raise ActionFailed(f"{name} is no IDE that a container can run (there is: {', '.join(IDES)})")
    return ide
