"""Opens the platform: what runs workspaces and holds their homes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from codehub.app.archives import find_unmarked
from codehub.app.database import ApiStores
from codehub.app.platform import Platform
from codehub.core.origins import WorkspaceOrigins, instance_environment
from codehub.core.workspace import InstanceBackend, Workspace
from codehub.engine.system import System
from codehub.settings import Settings


@asynccontextmanager
async def open_platform(
    settings: Settings, stores: ApiStores, system: System, *, stops: bool, is_shared: bool = False
) -> AsyncIterator[Platform]:
    """Yield the platform. `stops`: end its instances at the end, if they can't outlive it; their wishes stay,
    and the next start brings them back. `is_shared`: but not if another controller goes on with them.
    """
    marks = find_unmarked(await stores.api.places_in_use())
    match settings.instance_backend:
        case InstanceBackend.LOCAL_DOCKER:
            from codehub.app.docker import open_docker_platform  # noqa: PLC0415  # not imported without Docker

            opened = open_docker_platform(settings, stores, system, marks)
        case InstanceBackend.LOCAL_PROCESS:
            from codehub.app.local import open_local_platform  # noqa: PLC0415

            opened = open_local_platform(settings, stores, system, marks, stops=stops, is_shared=is_shared)
        case _:
            from codehub.app.kubernetes import open_kubernetes_platform  # noqa: PLC0415

            opened = open_kubernetes_platform(settings, stores, system, marks, controls=stops)
    async with opened as platform:
        if (origins := settings.workspace_origins) is None:
            yield platform
        else:
            environment_of = partial(_environment, origins)
            yield replace(platform, backends=replace(platform.backends, environment_of=environment_of))


def _environment(origins: WorkspaceOrigins, workspace: Workspace) -> Mapping[str, str]:
    return instance_environment(origins, workspace.label)
