"""The platform of this machine: workspaces as sandboxed processes, homes in a directory, archives behind a
URL.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from codehub.adapters.groups import totals
from codehub.adapters.local.disk import LocalDisk, usable_quota
from codehub.adapters.local.installed_ides import installed_ides
from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.local.storage import LocalStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.app.archives import UnmarkedStores, archive_store
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.app.platform import Platform
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.platforms import Platforms
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home
from codehub.settings import Settings


@asynccontextmanager
async def local_platform(
    settings: Settings, stores: ApiStores, system: System, marks: UnmarkedStores, *, stops: bool
) -> AsyncIterator[Platform]:
    """Yield it.

    `marks` says what may be marked as ours; `stops`: start instances, and end them at the end.
    """
    installed = installed_ides()
    _refuse_missing_ide(settings, installed)
    objects = await archive_store(settings, stores, is_new=marks.archives)

    async def home_of(spec: InstanceSpec) -> tuple[Path, str | None]:
        return await storage.locate(Home(spec.workspace_id, spec.home_store_key))

    async def is_in_use(workspace_id: UUID) -> bool:
        return await instances.status(workspace_id) is not None

    def owner_of(workspace_id: UUID) -> tuple[int, int] | None:
        uid = instances.uid_of(workspace_id)
        return None if uid is None else (uid, uid)

    storage = LocalStorage(
        settings.homes_root,
        data_dir=settings.data_dir,
        installation=stores.installation,
        archives=ObjectArchives(objects),
        identity=system.identity,
        is_in_use=is_in_use,
        owner_of=owner_of,
    )
    disk = LocalDisk(
        settings.homes_root,
        floor_mb=settings.disk_floor_mb,
        quota=usable_quota(settings.homes_root),
        data_dir=settings.data_dir,
    )
    run_dir = settings.data_dir / "run" / "instances"
    instances = LocalInstances(
        run_dir,
        stores.installation,
        home_of,
        installed,
        clock=system.clock,
        hidden=settings.data_dir,
        homes_root=settings.homes_root,
        most=totals(settings.limit_memory_mb_total, settings.limit_pids_total),
    )
    # Homes of either kind lie there: while there is one, a missing mark is a directory that is not the right one.
    if marks.homes.issuperset({StorageBackend.LOCAL_DIR, StorageBackend.OBJECT_STORE}):
        await storage.prepare()
    await instances.open()
    try:
        if stops:
            await _try_out(instances)
            _refuse_missing_ide(settings, instances.ides)
        backends = Platforms(
            {InstanceBackend.LOCAL_PROCESS: instances},
            {StorageBackend.LOCAL_DIR: storage, StorageBackend.OBJECT_STORE: storage},
            settings.ceilings,
            {StorageBackend.LOCAL_DIR: disk, StorageBackend.OBJECT_STORE: disk},
            {InstanceBackend.LOCAL_PROCESS: instances},
        )
        ides = tuple(instances.ides)
        ide = settings.ide or next(iter(ides), "none")
        yield Platform(backends, ide, ides, {StorageBackend.LOCAL_DIR: storage}, instances.warnings)
    finally:
        if stops:
            await instances.stop_all()
        await instances.close()


async def _try_out(instances: LocalInstances) -> None:
    """Try the IDEs now: otherwise every workspace would end in ERROR."""
    try:
        await instances.try_out()
    except ActionFailed as error:
        raise CannotStart(f"no workspace could run on this machine: {error}") from error


def _refuse_missing_ide(settings: Settings, installed: Collection[str]) -> None:
    """Refuse a default IDE that is missing: every workspace that names no IDE would end in ERROR."""
    if settings.ide is not None and settings.ide not in installed:
        available = f"there is {', '.join(installed)}" if installed else "there is none"
        raise CannotStart(
            f"CODEHUB_IDE={settings.ide} is not on this machine: {available}. "
            "Install it (`make code-server` builds code-server), name one that is there, or leave CODEHUB_IDE unset"
        )
