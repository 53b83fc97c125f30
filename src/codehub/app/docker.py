"""Docker as the platform: workspaces as containers, homes as volumes or as directories of this machine,
archives behind a URL.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import UUID

from codehub.adapters.docker.address import DEFAULT_URL
from codehub.adapters.docker.containers import UID, Mount
from codehub.adapters.docker.disk import DockerDisk
from codehub.adapters.docker.engine import Engine
from codehub.adapters.docker.groups import ParentGroup
from codehub.adapters.docker.instance_access import DockerInstanceAccess
from codehub.adapters.docker.instances import DockerInstances
from codehub.adapters.docker.storage import DockerStorage
from codehub.adapters.groups import totals
from codehub.adapters.local.disk import LocalDisk, usable_quota
from codehub.adapters.local.storage import LocalStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.threads import in_thread
from codehub.app.archives import UnmarkedStores, archive_store
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.platform import HomeStore, Platform
from codehub.core.ides import IDES
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text


@asynccontextmanager
async def open_docker_platform(
    settings: Settings, stores: ApiStores, system: System, marks: UnmarkedStores
) -> AsyncIterator[Platform]:
    """Yield it. `marks` says what may be marked as ours.

    Containers outlive codehub: the next start finds them again.
    """
    engine = Engine(os.environ.get("DOCKER_HOST") or DEFAULT_URL, installation=stores.installation)
    archives = ObjectArchives(await archive_store(settings, stores, is_new=marks.archives))
    volumes = DockerStorage(
        engine,
        helper_image=settings.helper_image,
        archives=archives,
        identity=system.identity,
        pipes=settings.data_dir / "pipes",
    )

    async def is_in_use(workspace_id: UUID) -> bool:
        return await instances.status(workspace_id) is not None

    directories = LocalStorage(
        settings.homes_root,
        data_dir=settings.data_dir,
        installation=stores.installation,
        archives=archives,
        identity=system.identity,
        is_in_use=is_in_use,
        owner_of=lambda _workspace_id: (UID, UID),
    )
    uses_directories = settings.homes is StorageBackend.LOCAL_DIR

    async def home_of(spec: InstanceSpec) -> tuple[Mount, str | None]:
        if spec.storage_backend is not StorageBackend.LOCAL_DIR:
            return await volumes.locate(spec.workspace_id)
        path, volume_id = await directories.locate(Home(spec.workspace_id, spec.home_store_key))
        return Mount("bind", str(path)), volume_id

    group = _group(settings, stores, engine.url)
    instances = DockerInstances(
        engine,
        home_of,
        clock=system.clock,
        has_login=settings.ceilings.images.has_login,
        group=group,
    )
    access = DockerInstanceAccess(engine, helper_image=settings.helper_image, clock=system.clock)
    homes = {StorageBackend.DOCKER_VOLUME: volumes, StorageBackend.OBJECT_STORE: volumes}
    try:
        if marks.homes.issuperset(homes):
            with _explain_docker_failures():
                await volumes.prepare()
        if uses_directories and StorageBackend.LOCAL_DIR in marks.homes:
            await directories.prepare()
        with _explain_docker_failures():
            await instances.open()
        directory_stores = {StorageBackend.LOCAL_DIR: directories} if uses_directories else {}
        floor_mb = settings.disk_floor_mb
        disk = DockerDisk(engine, floor_mb=floor_mb, clock=system.clock)
        backends = Backends(
            {InstanceBackend.LOCAL_DOCKER: instances},
            {**homes, **directory_stores},
            settings.ceilings,
            {
                **dict.fromkeys(homes, disk),
                **{
                    backend: LocalDisk(
                        settings.homes_root,
                        floor_mb=floor_mb,
                        quota=usable_quota(settings.homes_root),
                        data_dir=settings.data_dir,
                    )
                    for backend in directory_stores
                },
            },
            {InstanceBackend.LOCAL_DOCKER: instances},
            {InstanceBackend.LOCAL_DOCKER: access},
        )
        home_stores: dict[StorageBackend, HomeStore] = {
            StorageBackend.DOCKER_VOLUME: volumes,
            **directory_stores,
        }
        yield Platform(backends, settings.ide or next(iter(IDES)), tuple(IDES), home_stores)
    finally:
        await access.close()
        await engine.close()
        if group is not None:
            await in_thread(group.close)


def _group(settings: Settings, stores: ApiStores, url: str) -> ParentGroup | None:
    """Return the control group of all containers, if the engine runs on this machine: elsewhere we can't make
    groups.
    """
    if not url.startswith("unix://"):
        return None
    return ParentGroup(stores.installation, totals(settings.limit_memory_mb_total, settings.limit_pids_total))


@contextmanager
def _explain_docker_failures() -> Iterator[None]:
    """Turn failures of Docker into CannotStart, with what to do."""
    try:
        yield
    except ActionFailed as error:
        raise CannotStart(failure_text(error, terminal_language())) from None
    except BackendUnreachable as error:
        raise CannotStart(say("no_docker", reason=failure_text(error, terminal_language()))) from None
