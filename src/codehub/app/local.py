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
from codehub.adapters.local.instance_access import LocalInstanceAccess
from codehub.adapters.local.instances import LocalInstances
from codehub.adapters.local.storage import LocalStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.app.archives import UnmarkedStores, archive_store
from codehub.app.database import ApiStores
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.platform import Platform
from codehub.core.workspace import InstanceBackend, StorageBackend
from codehub.engine.backends import Backends
from codehub.engine.membership import ALIVE_S
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed
from codehub.ports.instances import InstanceSpec
from codehub.ports.storage import Home
from codehub.ports.store import StoreUnavailable
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text, message_text


@asynccontextmanager
async def open_local_platform(
    settings: Settings,
    stores: ApiStores,
    system: System,
    marks: UnmarkedStores,
    *,
    stops: bool,
    is_shared: bool,
) -> AsyncIterator[Platform]:
    """Yield it.

    `marks` says what may be marked as ours; `stops`: start instances, and end them at the end; `is_shared`:
    unless another controller of this machine goes on with them.
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
    # Homes of either kind lie there: while there is one, a missing
    # mark is a directory that is not the right one.
    if marks.homes.issuperset({StorageBackend.LOCAL_DIR, StorageBackend.OBJECT_STORE}):
        await storage.prepare()
    await instances.open()
    try:
        if stops:
            await _try_out(instances)
            _refuse_missing_ide(settings, instances.ides)
        backends = Backends(
            {InstanceBackend.LOCAL_PROCESS: instances},
            {StorageBackend.LOCAL_DIR: storage, StorageBackend.OBJECT_STORE: storage},
            settings.ceilings,
            {StorageBackend.LOCAL_DIR: disk, StorageBackend.OBJECT_STORE: disk},
            {InstanceBackend.LOCAL_PROCESS: instances},
            {InstanceBackend.LOCAL_PROCESS: LocalInstanceAccess(instances)},
        )
        problems = (message_text(problem, terminal_language()) for problem in instances.ide_problems)
        warnings = (*instances.warnings, *problems)
        ides = tuple(instances.ides)
        ide = settings.ide or next(iter(ides), "none")
        yield Platform(backends, ide, ides, {StorageBackend.LOCAL_DIR: storage}, warnings)
    finally:
        if stops and not (is_shared and await _is_controlled(stores)):
            await instances.stop_all()
        await instances.close()


async def _is_controlled(stores: ApiStores) -> bool:
    """Whether a controller is left, as far as is known: all that run instances here are of this machine."""
    try:
        others = await stores.api.members(within_s=ALIVE_S)
    except StoreUnavailable:
        return False
    return any(InstanceBackend.LOCAL_PROCESS in other.member.backends for other in others)


async def _try_out(instances: LocalInstances) -> None:
    """Try the IDEs now: otherwise every workspace would end in ERROR."""
    try:
        await instances.try_out()
    except ActionFailed as error:
        reason = failure_text(error, terminal_language())
        raise CannotStart(say("no_workspace_runs", reason=reason)) from error


def _refuse_missing_ide(settings: Settings, installed: Collection[str]) -> None:
    """Refuse a default IDE that is missing: every workspace that names no IDE would end in ERROR."""
    if settings.ide is not None and settings.ide not in installed:
        if not installed:
            raise CannotStart(say("no_ide.none", ide=settings.ide))
        raise CannotStart(say("no_ide", ide=settings.ide, installed=", ".join(installed)))
